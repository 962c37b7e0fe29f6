"""Built-in admission: what it fills in and refuses, given what else is in the cluster."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import ApiError
from allaboard.cluster.access import SYSTEM
from allaboard.cluster.admission import Request, cares
from allaboard.cluster.admitters import ADMISSION
from allaboard.cluster.admitters.addresses import RANGE, ServiceAddresses
from allaboard.cluster.kinds import rules_for
from tests.cluster.judging import document, stored


class World:
    """Other documents, by kind: all that a hook may look at."""

    def __init__(self, *documents):
        self.documents = documents

    def list(self, kind, namespace=""):
        found = [d for d in self.documents if (d["apiVersion"], d["kind"]) == (kind.api_version, kind.kind)]
        return [d for d in found if not namespace or d["metadata"].get("namespace") == namespace]

    def get(self, kind, key):
        named = [d for d in self.list(kind, key.namespace) if d["metadata"]["name"] == key.name]
        return named[0] if named else None


NAMESPACE = stored(kinds.NAMESPACE, document(kinds.NAMESPACE, "ns"))
ACCOUNT = stored(kinds.SERVICE_ACCOUNT, document(kinds.SERVICE_ACCOUNT, "default", imagePullSecrets=[{"name": "r"}]))
PLAIN = (NAMESPACE, ACCOUNT)


def ask(kind, new, old=None, operation=""):
    operation = operation or ("UPDATE" if old else "CREATE")
    about = new or old
    key = Key(about["metadata"].get("namespace", ""), about["metadata"]["name"])
    return Request(operation, rules_for(kind), key, new, old, "", SYSTEM)


def admitted(kind, sent, *world, old=None):
    """The document after every hook has had its say."""
    new, view = stored(kind, sent), World(*(world or PLAIN))
    for point in ("mutate", "validate"):
        for hook in ADMISSION:
            request = ask(kind, new, old)
            if hasattr(hook, point) and cares(hook, request):
                changed = getattr(hook, point)(request, view)
                new = changed if isinstance(changed, dict) else new
    return new


def refusal(kind, sent, *world, old=None):
    with pytest.raises(ApiError) as caught:
        admitted(kind, sent, *world, old=old)
    return caught.value


def a_pod(name="p", resources=None, **spec):
    container = {"name": "c", "image": "x"} | ({"resources": resources} if resources else {})
    return document(kinds.POD, name, spec={"containers": [container], **spec})


def test_a_pod_becomes_somebody_with_a_token_and_some_patience():
    spec = admitted(kinds.POD, a_pod())["spec"]
    volume = spec["volumes"][0]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert spec["imagePullSecrets"] == [{"name": "r"}]
    assert volume["name"].startswith("kube-api-access-")
    assert spec["containers"][0]["volumeMounts"][0]["name"] == volume["name"]
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")


def test_a_pod_may_do_without_a_token():
    spec = admitted(kinds.POD, a_pod(automountServiceAccountToken=False))["spec"]
    assert "volumes" not in spec


def test_a_toleration_of_everything_needs_no_other():
    spec = admitted(kinds.POD, a_pod(tolerations=[{"operator": "Exists"}]))["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]


def test_a_node_waits_until_somebody_has_seen_it_ready():
    node = admitted(kinds.NODE, document(kinds.NODE, "n", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}))
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["k", "node.kubernetes.io/not-ready"]


LEAVING = {**NAMESPACE, "metadata": {**NAMESPACE["metadata"], "deletionTimestamp": "2024-01-01T00:00:00Z"}}
HIGH = stored(kinds.PRIORITY_CLASS, document(kinds.PRIORITY_CLASS, "high", value=1000))
RUNTIME = stored(
    kinds.RUNTIME_CLASS,
    document(kinds.RUNTIME_CLASS, "rc", handler="h", scheduling={"nodeSelector": {"s": "yes"}}),
)
LIMITS = stored(
    kinds.LIMIT_RANGE,
    document(
        kinds.LIMIT_RANGE,
        "lr",
        spec={
            "limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}, "default": {"cpu": "500m"}}]
        },
    ),
)


def a_quota(**hard):
    named = {key.replace("_", "."): amount for key, amount in hard.items()}
    quota = stored(kinds.RESOURCE_QUOTA, document(kinds.RESOURCE_QUOTA, "q", spec={"hard": named}))
    return {**quota, "status": {"hard": named}}


REFUSED = {
    "no namespace": (kinds.CONFIG_MAP, document(kinds.CONFIG_MAP), (ACCOUNT,), 'namespaces "ns" not found'),
    "a namespace that leaves": (
        kinds.CONFIG_MAP,
        document(kinds.CONFIG_MAP),
        (LEAVING,),
        'configmaps "x" is forbidden: unable to create new content in namespace ns because it is being terminated',
    ),
    "no such account": (
        kinds.POD,
        a_pod(serviceAccountName="me"),
        PLAIN,
        'pods "p" is forbidden: error looking up service account ns/me: serviceaccount "me" not found',
    ),
    "no such priority": (
        kinds.POD,
        a_pod(priorityClassName="none"),
        PLAIN,
        'pods "p" is forbidden: no PriorityClass with name none was found',
    ),
    "a priority by hand": (
        kinds.POD,
        a_pod(priorityClassName="high", priority=5),
        (*PLAIN, HIGH),
        'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission '
        "controller computed 1000 from the given PriorityClass name",
    ),
    "no such runtime": (
        kinds.POD,
        a_pod(runtimeClassName="none"),
        PLAIN,
        'pods "p" is forbidden: pod rejected: RuntimeClass "none" not found',
    ),
    "another node than the runtime's": (
        kinds.POD,
        a_pod(runtimeClassName="rc", nodeSelector={"s": "no"}),
        (*PLAIN, RUNTIME),
        'pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[s] = yes; pod.spec.nodeSelector[s] = no',
    ),
    "above the maximum": (
        kinds.POD,
        a_pod(resources={"limits": {"cpu": "3"}}),
        (*PLAIN, LIMITS),
        'pods "p" is forbidden: maximum cpu usage per Container is 2, but limit is 3',
    ),
    "below the minimum": (
        kinds.POD,
        a_pod(resources={"requests": {"cpu": "50m"}}),
        (*PLAIN, LIMITS),
        'pods "p" is forbidden: minimum cpu usage per Container is 100m, but request is 50m',
    ),
    "over the quota": (
        kinds.POD,
        a_pod(resources={"requests": {"cpu": "2"}}),
        (*PLAIN, a_quota(requests_cpu="1")),
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: '
        "requests.cpu=1",
    ),
    "silent about what is counted": (
        kinds.POD,
        a_pod(),
        (*PLAIN, a_quota(requests_cpu="1")),
        'pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c',
    ),
    "one too many": (
        kinds.SECRET,
        document(kinds.SECRET, "c"),
        (
            *PLAIN,
            a_quota(**{"count/secrets": "1"}),
            stored(kinds.SECRET, document(kinds.SECRET, "a")),
        ),
        'secrets "c" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, limited: '
        "count/secrets=1",
    ),
    "an address of elsewhere": (
        kinds.SERVICE,
        document(kinds.SERVICE, spec={"clusterIP": "1.2.3.4", "ports": [{"port": 80}]}),
        PLAIN,
        'Service "x" is invalid: spec.clusterIPs: Invalid value: ["1.2.3.4"]: failed to allocate IP 1.2.3.4: the '
        "provided network does not match the current range",
    ),
}


@pytest.mark.parametrize(("kind", "sent", "world", "want"), REFUSED.values(), ids=REFUSED)
def test_admission_refuses(kind, sent, world, want):
    assert refusal(kind, sent, *world).message == want


def test_what_a_pod_leaves_out_comes_from_the_limit_range_with_a_note():
    pod = admitted(kinds.POD, a_pod(), *PLAIN, LIMITS)
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}
    note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    assert pod["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": note}


def test_a_finished_pod_no_longer_counts():
    over = {**stored(kinds.POD, a_pod("old", {"requests": {"cpu": "1"}})), "status": {"phase": "Succeeded"}}
    assert admitted(kinds.POD, a_pod(resources={"requests": {"cpu": "1"}}), *PLAIN, a_quota(requests_cpu="1"), over)


def test_a_quota_of_some_pods_is_not_about_the_others():
    few = a_quota(pods="0")
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    few["spec"] = {**few["spec"], "scopeSelector": {"matchExpressions": [term]}}
    assert admitted(kinds.POD, a_pod(), *PLAIN, few)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_never_leave(name):
    old = stored(kinds.NAMESPACE, document(kinds.NAMESPACE, name))
    hook = next(hook for hook in ADMISSION if hook.name == "NamespaceLifecycle")
    with pytest.raises(ApiError, match="this namespace may not be deleted"):
        hook.validate(ask(kinds.NAMESPACE, None, old, "DELETE"), World())


def test_the_classes_of_the_system_never_leave():
    old = stored(kinds.PRIORITY_CLASS, document(kinds.PRIORITY_CLASS, "system-node-critical", value=2000001000))
    hook = next(hook for hook in ADMISSION if hook.name == "Priority" and kinds.PRIORITY_CLASS in hook.kinds)
    with pytest.raises(ApiError, match="this is a system priority class and cannot be deleted"):
        hook.validate(ask(kinds.PRIORITY_CLASS, None, old, "DELETE"), World())


def test_a_claim_gets_the_newest_default_class_and_protection():
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes = []
    for name, day in (("old", "01"), ("new", "02")):
        made = stored(kinds.STORAGE_CLASS, document(kinds.STORAGE_CLASS, name, provisioner="a.example/b"))
        stamp = {"annotations": marked, "creationTimestamp": f"2024-01-{day}T00:00:00Z"}
        classes.append({**made, "metadata": {**made["metadata"], **stamp}})
    claim = admitted(kinds.CLAIM, document(kinds.CLAIM, spec={}), *PLAIN, *classes)
    assert claim["spec"]["storageClassName"] == "new"
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


def a_service(name="s", **spec):
    return document(kinds.SERVICE, name, spec={"ports": [{"port": 80}], **spec})


def test_a_service_gets_an_address_that_nobody_has():
    first = admitted(kinds.SERVICE, a_service("a"), *PLAIN)
    again = admitted(kinds.SERVICE, a_service("b"), *PLAIN, first)
    assert first["spec"]["clusterIP"] != again["spec"]["clusterIP"]
    assert first["spec"]["clusterIPs"] == [first["spec"]["clusterIP"]]
    assert any(first["spec"]["clusterIP"] == str(address) for address in RANGE)


FAMILIES = {
    "headless": ({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], "SingleStack"),
    "headless, endpoints by hand": ({"clusterIP": "None"}, ["IPv4", "IPv6"], "RequireDualStack"),
}


@pytest.mark.parametrize(("spec", "families", "policy"), FAMILIES.values(), ids=FAMILIES)
def test_a_headless_service_has_no_address_but_families(spec, families, policy):
    found = admitted(kinds.SERVICE, a_service(**spec), *PLAIN)["spec"]
    assert (found["clusterIPs"], found["ipFamilies"], found["ipFamilyPolicy"]) == (["None"], families, policy)


def test_ports_come_and_go_with_the_type():
    plain = admitted(kinds.SERVICE, a_service(), *PLAIN)
    hook, view = ServiceAddresses(), World()
    reachable = hook.mutate(ask(kinds.SERVICE, {**plain, "spec": {**plain["spec"], "type": "NodePort"}}, plain), view)
    number = reachable["spec"]["ports"][0]["nodePort"]
    assert 30000 <= number < 32768
    kept = hook.mutate(
        ask(kinds.SERVICE, {**reachable, "spec": {**plain["spec"], "type": "NodePort"}}, reachable), view
    )
    assert kept["spec"]["ports"][0]["nodePort"] == number
    back = {**reachable, "spec": {**reachable["spec"], "type": "ClusterIP"}}
    assert "nodePort" not in hook.mutate(ask(kinds.SERVICE, back, reachable), view)["spec"]["ports"][0]


def test_hooks_stand_in_upstreams_order_and_each_once():
    names = [hook.name for hook in ADMISSION]
    assert names.index("NamespaceLifecycle") == 0
    assert names.index("LimitRanger") < names.index("ServiceAccount") < names.index("Priority")
    assert names[-1] == "ResourceQuota"


@pytest.mark.parametrize(
    ("name", "beginning", "said"),
    [("j-abcde", "j-", "j-"), ("j" * 58 + "abcde", "j" * 63 + "-", "j" * 63 + "-"), ("mine", "j-", "mine")],
)
def test_a_pod_is_refused_by_the_beginning_of_a_name_that_was_made_for_it(name, beginning, said):
    pod = a_pod(serviceAccountName="me")
    pod["metadata"] |= {"name": name, "generateName": beginning}
    want = f'pods "{said}" is forbidden: error looking up service account ns/me: serviceaccount "me" not found'
    assert refusal(kinds.POD, pod, *PLAIN).message == want
