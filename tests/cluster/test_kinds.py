"""The small kinds: what each fills in, and what it refuses."""

import pytest

from allaboard.api import kinds
from allaboard.cluster.kinds import BUILTIN, absent, rules_for
from allaboard.schema import builtin
from tests.cluster.judging import changed, complaints, document, objections, stored


def test_every_resource_of_discovery_has_rules_and_a_schema():
    assert len(BUILTIN) == len(builtin.resources()) + len(absent.RULES)
    for rules in BUILTIN:
        assert rules.structure.admit({"metadata": {"name": "x"}}).malformed == ""


def test_every_kind_we_name_is_served_under_that_name():
    served = {rules.kind for rules in BUILTIN}
    ours = {kind for kind in kinds.KNOWN if builtin.type_of(kind.api_version, kind.kind)}
    assert ours <= served


DEFAULTS = {
    "a namespace carries its name": (
        document(kinds.NAMESPACE, "a"),
        {
            "metadata": {"labels": {"kubernetes.io/metadata.name": "a"}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        },
    ),
    "a secret is opaque, and text is encoded": (
        document(kinds.SECRET, stringData={"a": "b"}),
        {"type": "Opaque", "data": {"a": "Yg=="}},
    ),
    "a port leads to the same port": (
        document(kinds.SERVICE, spec={"ports": [{"port": 80}]}),
        {
            "spec": {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            }
        },
    ),
    "limits become requests": (
        document(kinds.LIMIT_RANGE, spec={"limits": [{"type": "Container", "max": {"cpu": "2"}}]}),
        {"spec": {"limits": [{"max": {"cpu": "2"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}]}},
    ),
    "a node can give what it has": (
        document(kinds.NODE, status={"capacity": {"cpu": "4"}}),
        {"status": {"allocatable": {"cpu": "4"}}},
    ),
    "a claim wants a file system": (
        document(kinds.CLAIM, spec={}),
        {"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
    ),
    "a volume is kept": (
        document(kinds.VOLUME, spec={}),
        {"spec": {"persistentVolumeReclaimPolicy": "Retain"}},
    ),
    "a class of storage binds at once": (
        document(kinds.STORAGE_CLASS, provisioner="a.example/b"),
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    "a priority preempts": (document(kinds.PRIORITY_CLASS, value=1), {"preemptionPolicy": "PreemptLowerPriority"}),
    "a subject is of RBAC": (
        document(kinds.ROLE_BINDING, roleRef={"kind": "Role", "name": "r"}, subjects=[{"kind": "User", "name": "u"}]),
        {"subjects": [{"apiGroup": "rbac.authorization.k8s.io"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io"}},
    ),
    "a role without rules says null": (document(kinds.ROLE), {"rules": None}),
    "a webhook fails": (
        document(kinds.VALIDATING_WEBHOOK, webhooks=[{"name": "a.b.c"}]),
        {"webhooks": [{"failurePolicy": "Fail", "timeoutSeconds": 10, "matchPolicy": "Equivalent"}]},
    ),
}


def contains(found, want):
    if isinstance(want, dict):
        return all(key in found and contains(found[key], value) for key, value in want.items())
    if isinstance(want, list):
        return len(found) == len(want) and all(contains(f, w) for f, w in zip(found, want))
    return found == want


@pytest.mark.parametrize(("sent", "want"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults(sent, want):
    assert contains(stored(kinds.kind_of(sent), sent), want)


IMMUTABLE = "field is immutable when `immutable` is set"
REFUSED = {
    "a key that is no file name": (
        document(kinds.CONFIG_MAP, data={"..": "y"}),
        ["data[..]: Invalid value: \"..\": must not be '..'"],
    ),
    "a key twice": (
        document(kinds.CONFIG_MAP, data={"a": "x"}, binaryData={"a": "AAEC"}),
        ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
    ),
    "a certificate without a key": (
        document(kinds.SECRET, type="kubernetes.io/tls", data={"tls.crt": ""}),
        ["data[tls.key]: Required value"],
    ),
    "what is no JSON": (
        document(kinds.SECRET, type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "eA=="}),
        [
            "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for "
            "beginning of value",
        ],
    ),
    "ports without names": (
        document(kinds.SERVICE, spec={"ports": [{"port": 80}, {"port": 81}]}),
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    "an external name without one": (
        document(kinds.SERVICE, spec={"type": "ExternalName"}),
        ["spec.externalName: Required value"],
    ),
    "a minimum above the maximum": (
        document(kinds.LIMIT_RANGE, spec={"limits": [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}),
        ['spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'],
    ),
    "half a pod": (
        document(kinds.RESOURCE_QUOTA, spec={"hard": {"pods": "0.5"}}),
        ['spec.hard[pods]: Invalid value: "500m": must be an integer'],
    ),
    "a claim of nothing": (
        document(kinds.CLAIM, spec={}),
        [
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    ),
    "a taint twice": (
        document(kinds.NODE, spec={"taints": [{"key": "k", "effect": "NoSchedule"}] * 2}),
        [
            'metadata.taints[1]: Duplicate value: {"Key":"k","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
            "taints must be unique by key and effect pair",
        ],
    ),
    "a priority for the system": (
        document(kinds.PRIORITY_CLASS, "x", value=2000000000),
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    "a runtime class without a handler": (document(kinds.RUNTIME_CLASS), ["handler: Required value"]),
    "a lease that is over": (
        document(kinds.LEASE, spec={"leaseDurationSeconds": 0}),
        ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    ),
    "an event of elsewhere": (
        document(kinds.EVENT, involvedObject={"namespace": "other"}),
        ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
    ),
    "a rule without verbs": (
        document(kinds.ROLE, rules=[{"apiGroups": [""], "resources": ["pods"]}]),
        ["rules[0].verbs: Required value"],
    ),
}


@pytest.mark.parametrize(("sent", "want"), REFUSED.values(), ids=REFUSED)
def test_a_document_is_refused(sent, want):
    assert complaints(kinds.kind_of(sent), sent) == want


CHANGES = {
    "data of an immutable map": (
        document(kinds.CONFIG_MAP, immutable=True, data={"a": "1"}),
        {"data": {"a": "2"}},
        [f"data: Forbidden: {IMMUTABLE}"],
    ),
    "a secret's type": (
        document(kinds.SECRET),
        {"type": "a.example/b"},
        ['type: Invalid value: "a.example/b": field is immutable'],
    ),
    "a class's number": (
        document(kinds.PRIORITY_CLASS, value=1),
        {"value": 2},
        ["value: Forbidden: may not be changed in an update."],
    ),
    "a role that was given": (
        document(kinds.ROLE_BINDING, roleRef={"kind": "Role", "name": "r"}),
        {"roleRef": {"kind": "Role", "name": "s"}},
        [
            'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"s"}: '
            "field is immutable",
        ],
    ),
    "an address": (
        document(kinds.SERVICE, spec={"clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"], "ports": [{"port": 1}]}),
        {"spec": {"clusterIP": "10.96.1.2", "clusterIPs": ["10.96.1.2"], "ports": [{"port": 1}]}},
        ['spec.clusterIPs[0]: Invalid value: ["10.96.1.2"]: may not change once set'],
    ),
}


@pytest.mark.parametrize(("sent", "part", "want"), CHANGES.values(), ids=CHANGES)
def test_what_is_settled_stays(sent, part, want):
    kind = kinds.kind_of(sent)
    old = stored(kind, sent)
    assert objections(kind, old, {**old, **part}) == want


def test_a_namespace_gives_up_its_finalizers_only_at_their_own_door():
    old = stored(kinds.NAMESPACE, document(kinds.NAMESPACE))
    sent = {**old, "spec": {"finalizers": []}}
    assert changed(kinds.NAMESPACE, old, sent)["spec"] == {"finalizers": ["kubernetes"]}
    assert changed(kinds.NAMESPACE, old, sent, "finalize")["spec"] == {}


def test_events_of_both_groups_are_one_kind_in_the_store_and_in_refusals():
    rules = rules_for(kinds.EVENT_V1)
    assert (rules.store, rules.named) == ("events", kinds.EVENT)


def test_writes_never_change_what_they_were_given():
    for rules in BUILTIN:
        sent = rules.structure.admit(document(rules.kind, "x", spec={}, status={"phase": "X"})).document
        copy = {**sent, "metadata": {**sent["metadata"]}}
        made = rules.prepare(rules.default(sent), None, "")
        assert sent == copy
        assert rules.default(rules.default(made)) == rules.default(made), rules.kind
