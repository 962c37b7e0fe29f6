"""What a new JobSet may not say: each case is a wrong word and the complaint of the real admission webhook."""

import copy

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.jobs.admission import JobSetDefaults, defaulted
from allaboard.jobs.complaints import refusal
from allaboard.jobs.creation import causes

from .test_admission import Asked, Documents
from .world import jobset

PLAIN = "<nil>: Internal error: "
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
ENTRY, POD = "spec.replicatedJobs[0]", ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")


def said(document, gates=(), view=None):
    found = causes(defaulted(document), frozenset(gates), view or Documents())
    return refusal(document, found).message.partition(" is invalid: ")[2] if found else ""


def having(document, *path, value):
    document = copy.deepcopy(document)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


ONE = jobset("a:1")
FIRST = ("spec", "replicatedJobs", 0)
CASES = {
    "the first entry depends on nobody": (
        having(ONE, *FIRST, "dependsOn", value=[{"name": "a", "status": "Ready"}]),
        f"{PLAIN}DependsOn can't be set for the first ReplicatedJob",
    ),
    "nobody depends on a stranger": (
        jobset("a:1 b:1<q"),
        f"{PLAIN}replicatedJob: b cannot depend on replicatedJob: q",
    ),
    "nobody depends on who comes later": (
        jobset("a:1 b:1<c c:1"),
        f"{PLAIN}replicatedJob: b cannot depend on replicatedJob: c",
    ),
    "a subdomain is a label": (
        jobset("a:1", network={"subdomain": "a.b"}),
        f'spec.network.subdomain: Invalid value: "a.b": {LABEL}',
    ),
    "a subdomain is short": (
        jobset("a:1", network={"subdomain": "x" * 64}),
        f'spec.network.subdomain: Invalid value: "{"x" * 64}": .spec.network.subdomain is too long, must be less than '
        "63 characters",
    ),
    "a manager has a domain": (
        jobset("a:1", managedBy="me"),
        'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")',
    ),
    "a manager says something": (jobset("a:1", managedBy=""), "spec.managedBy: Required value"),
    "a manager's domain is accused alone": (
        jobset("a:1", managedBy="A.b/c"),
        f'spec.managedBy: Invalid value: "A.b": {SUBDOMAIN}',
    ),
    "a manager's path is accused alone": (
        jobset("a:1", managedBy="a.b/c d"),
        'spec.managedBy: Invalid value: "c d": Invalid path (regex used for validation is '
        r"'[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')",
    ),
    "a manager is short": (
        jobset("a:1", managedBy=f"example.com/{'x' * 60}"),
        "spec.managedBy: Too long: may not be more than 63 bytes",
    ),
    "pods can be counted": (
        having(having(ONE, *FIRST, "replicas", value=100000), *FIRST, "template", "spec", "parallelism", value=30000),
        f"{PLAIN}the product of replicas and parallelism must not exceed 2147483647 for replicatedJob 'a'",
    ),
    "a group is a label": (
        having(ONE, *FIRST, "groupName", value=""),
        f'{ENTRY}.groupName: Invalid value: "": {LABEL}',
    ),
    "a group is short": (
        having(ONE, *FIRST, "groupName", value="g" * 64),
        f'{ENTRY}.groupName: Invalid value: "{"g" * 64}": .spec.replicatedJob[].groupName is too long, must be less '
        "than 63 characters",
    ),
    "a Job's name is short": (
        having(having(ONE, "metadata", "name", value="x" * 60), *FIRST, "template", "spec", "completions", value=None),
        f'{ENTRY}.name: Invalid value: "{"x" * 60}-a-0": JobSet name is too long, job names generated for this JobSet '
        "will exceed 63 characters",
    ),
    "a pod's name is short": (
        having(ONE, "metadata", "name", value="x" * 55),
        f'{ENTRY}.name: Invalid value: "{"x" * 55}-a-0": JobSet name is too long, pod names generated for this JobSet '
        "will exceed 63 characters",
    ),
    "a rule aims at somebody": (
        jobset("a:1", failurePolicy={"rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["q"]}]}),
        f"{PLAIN}invalid replicatedJob name 'q' in failure policy does not appear in .spec.ReplicatedJobs",
    ),
    "a reason is one of a Job's": (
        jobset("a:1", failurePolicy={"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Odd"]}]}),
        f"{PLAIN}invalid job failure reason 'Odd' in failure policy is not a recognized job failure reason",
    ),
    "a rule's name is its own": (
        jobset("a:1", failurePolicy={"rules": [{"action": "FailJobSet", "name": "n"}] * 2}),
        f"{PLAIN}rule names are not unique, rules with indices [0 1] all have the same name 'n'",
    ),
    "a rule's name is short": (
        jobset("a:1", failurePolicy={"rules": [{"action": "FailJobSet", "name": "n" * 129}]}),
        f"{PLAIN}invalid failure policy rule name of length 129, the rule name must be at least 1 characters long and "
        "at most 128 characters long",
    ),
    "a coordinator has an index": (
        having(
            jobset("a:1", coordinator={"replicatedJob": "a"}), *FIRST, "template", "spec", "completions", value=None
        ),
        f"{PLAIN}job for coordinator pod must be indexed completion mode, and completions number must be set",
    ),
    "a coordinator's address is a label": (
        jobset("a:1", coordinator={"replicatedJob": "a"}, network={"subdomain": "s" * 60}),
        f'{PLAIN}spec will lead to invalid label value "js-a-0-0.{"s" * 60}" for coordinator label '
        '"jobset.sigs.k8s.io/coordinator" (long JobSet / ReplicatedJob / SubDomain name?): must be no more than 63 '
        "bytes",
    ),
    "a claim's name is one": (
        having(
            jobset("a:1", volumeClaimPolicies=[{"templates": [{"metadata": {"name": "D_x"}}]}]),
            *POD, "containers", 0, "volumeMounts", value=[{"name": "D_x"}],
        ),
        f'spec.volumeClaimPolicies[0].template[0].name: Invalid value: "D_x": {SUBDOMAIN}',
    ),
    "a claim's name is its own": (
        having(
            jobset("a:1", volumeClaimPolicies=[{"templates": [CLAIM, CLAIM]}]),
            *POD, "containers", 0, "volumeMounts", value=[{"name": "data"}],
        ),
        'spec.volumeClaimPolicies[0].template[1].name: Invalid value: "data": names must be unique for '
        "VolumeClaimPolicies template",
    ),
    "a claim's name is short": (
        having(
            jobset("a:1", volumeClaimPolicies=[{"templates": [{"metadata": {"name": "x" * 62}}]}]),
            *POD, "containers", 0, "volumeMounts", value=[{"name": "x" * 62}],
        ),
        f'spec.volumeClaimPolicies[0].template[0].name: Invalid value: "{"x" * 62}": VolumeClaimPolicies template name '
        "is too long",
    ),
    "a claim is in nobody's way": (
        having(
            having(
                jobset("a:1", volumeClaimPolicies=[{"templates": [CLAIM]}]),
                *POD, "containers", 0, "volumeMounts", value=[{"name": "data"}],
            ),
            *POD, "volumes", value=[{"name": "data", "emptyDir": {}}],
        ),
        f'{ENTRY}.template.spec.template.spec.volumes[0].name: Invalid value: "data": volume name conflicts with '
        "VolumeClaimPolicy template name: data",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "want"), CASES.values(), ids=CASES)
def test_a_new_jobset_is_told_what_is_wrong(document, want):
    assert said(document) == want


def test_an_unmounted_claim_is_shown_with_the_jobs_as_go_prints_them():
    document = jobset("a:1", volumeClaimPolicies=[{"templates": [CLAIM]}])
    shown = (
        '[{"name":"a","template":{"metadata":{},"spec":{"parallelism":1,"completions":1,"backoffLimit":0,"template":'
        '{"metadata":{},"spec":{"containers":[{"name":"main","image":"x","resources":{}}],"restartPolicy":"Never"}},'
        '"completionMode":"Indexed"}},"replicas":1}]'
    )
    words = "replicatedJob containers don't have a matching volumeMount: data from VolumeClaimPolicies"
    assert said(document) == f"spec.replicatedJobs: Invalid value: {shown}: {words}"


def test_a_claim_that_is_there_is_used_again_only_as_it_is():
    mounted = (*POD, "containers", 0, "volumeMounts")
    keep = {"templates": [CLAIM], "retentionPolicy": {"whenDeleted": "Retain"}}
    live = {"metadata": {"name": "data-js", "namespace": "ns"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    view = Documents({(kinds.CLAIM, Key("ns", "data-js")): live})

    def told(policy):
        document = having(jobset("a:1", volumeClaimPolicies=[policy]), *mounted, value=[{"name": "data"}])
        return said(having(document, "metadata", "namespace", value="ns"), view=view)

    assert told(keep) == (
        'spec.volumeClaimPolicies[0].template[0].spec: Invalid value: {"accessModes":["ReadWriteOnce"]}: spec does not '
        "match existing PVC data-js in namespace ns"
    )
    live["spec"] = {"accessModes": ["ReadWriteOnce"]}
    assert told(keep) == ""
    assert told({"templates": [CLAIM]}) == (
        'spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted: Invalid value: "Delete": retentionPolicy must be '
        "retain when PVC exists"
    )


IN_PLACE = jobset("a:1", failurePolicy={"restartStrategy": "InPlaceRestart"})
LIMIT = "replicatedJob a: must be set to 2147483647 (MaxInt32) when in-place restart is enabled"
REPLACED = "replicatedJob a: must be set to Failed when in-place restart is enabled"


def test_a_restart_in_place_needs_its_gate_and_pods_that_stay():
    off = "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled"
    assert said(IN_PLACE) == f"{PLAIN}{off}"
    assert said(IN_PLACE, ["InPlaceRestart"]) == (
        f"[{ENTRY}.template.spec.backoffLimit: Invalid value: 0: {LIMIT}, "
        f"{ENTRY}.template.spec.podReplacementPolicy: Invalid value: null: {REPLACED}]"
    )
    spec = {**IN_PLACE["spec"]["replicatedJobs"][0]["template"]["spec"], "completions": 3}
    fit = {**spec, "backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}
    unequal = having(IN_PLACE, *FIRST, "template", "spec", value=fit)
    assert said(unequal, ["InPlaceRestart"]).startswith(f"{ENTRY}.template.spec.completions: Invalid value: 3: ")
    equal = having(unequal, *FIRST, "template", "spec", "parallelism", value=3)
    assert said(equal, ["InPlaceRestart"]) == ""


MALFORMED = {
    "no spec at all": {"metadata": {"name": "js"}},
    "a spec that is a word": {"metadata": {"name": "js"}, "spec": "x"},
    "jobs that are a number": {"metadata": {"name": "js"}, "spec": {"replicatedJobs": 3}},
    "a job that is nothing": {"metadata": {"name": "js"}, "spec": {"replicatedJobs": [None]}},
    "a job without a template": {"metadata": {"name": "js"}, "spec": {"replicatedJobs": [{"name": "a"}]}},
    "claims that are numbers": {"metadata": {"name": "js"}, "spec": {"volumeClaimPolicies": [3]}},
    "containers that are a map": having(ONE, *POD, "containers", value={"a": 1}),
}


@pytest.mark.parametrize("document", MALFORMED.values(), ids=MALFORMED)
def test_defaults_survive_what_the_schema_will_refuse(document):
    filled = JobSetDefaults().mutate(Asked(document), Documents())
    assert filled is None or filled["spec"]["network"]["enableDNSHostnames"] is True


def test_a_policy_that_says_nothing_is_left_to_the_schema():
    filled = defaulted(jobset("a:1", successPolicy={}, startupPolicy={}, failurePolicy={"rules": [{"name": "n"}]}))
    assert filled["spec"]["successPolicy"] == {"operator": ""}
    assert filled["spec"]["startupPolicy"] == {"startupPolicyOrder": ""}
    assert filled["spec"]["failurePolicy"]["rules"] == [{"action": "", "name": "n"}]
