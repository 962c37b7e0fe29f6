"""What JobSets get and may say: each case is a JobSet (or a change of one) and the words of its refusal."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import ApiError
from allaboard.jobs.admission import JobSetDefaults, JobSetRules, defaulted, hooks
from allaboard.jobs.placement import evict_strays, scheduled_leaders

from .world import jobset

RECORDED = Path(__file__).parents[3] / "shared" / "conformance" / "lifecycle" / "scenarios"


@dataclass
class Asked:
    new: dict
    old: dict | None = None
    kind: kinds.Kind = kinds.JOB_SET
    subresource: str = ""

    @property
    def key(self):
        return Key("ns", self.new["metadata"].get("name", ""))

    @property
    def operation(self):
        return "UPDATE" if self.old else "CREATE"


@dataclass
class Documents:
    documents: dict = field(default_factory=dict)

    def get(self, kind, key):
        return self.documents.get((kind, key))

    def list(self, kind, namespace=""):
        return [d for (k, _), d in self.documents.items() if k is kind]


def words(new, old=None, gates=(), view=None):
    refusal = JobSetRules(frozenset(gates)).validate(Asked(new, old), view or Documents()).refusal
    return refusal.message.partition(" is invalid: ")[2] if refusal else ""


def changed(document, *path, value):
    document = json.loads(json.dumps(document))
    place = document
    for step in path[:-1]:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    place[path[-1]] = value
    return document


PLAIN = "<nil>: Internal error: "
FIRST = "spec.replicatedJobs[0].template.spec"
RULES = [{"name": "r", "action": "RestartJob"}]
REFUSED = {
    "nothing to complain about": (jobset("a:2x2 b:1<a"), ""),
    "an unknown dependency": (jobset("a:1 b:1<q"), f"{PLAIN}replicatedJob: b cannot depend on replicatedJob: q"),
    "an unknown target": (
        jobset("a:1", successPolicy={"targetReplicatedJobs": ["q"]}),
        f"{PLAIN}invalid replicatedJob name 'q' does not appear in .spec.ReplicatedJobs",
    ),
    "a gated action": (
        jobset("a:1", failurePolicy={"rules": RULES}),
        f"{PLAIN}RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed "
        "when RestartJob feature gate is disabled",
    ),
    "a restart in place": (
        jobset("a:1", failurePolicy={"restartStrategy": "InPlaceRestart"}),
        f"{PLAIN}InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled",
    ),
    "a rule with a bad name": (
        jobset("a:1", failurePolicy={"rules": [{"name": "1", "action": "FailJobSet"}]}),
        f"{PLAIN}invalid failure policy rule name '1', a failure policy rule name must start with an alphabetic "
        "character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an "
        "alphanumeric character or '_'",
    ),
    "a pattern that looks ahead": (
        jobset(
            "a:1",
            failurePolicy={"rules": [{"name": "r", "action": "FailJobSet", "onJobFailureMessagePatterns": ["(?=x)"]}]},
        ),
        f"{PLAIN}invalid job failure message pattern '(?=x)' in failure policy: "
        "error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
    ),
    "a coordinator that is not there": (
        jobset("a:1", coordinator={"replicatedJob": "q"}),
        f"{PLAIN}coordinator replicatedJob q does not exist",
    ),
    "a coordinator pod that is not there": (
        jobset("a:1", coordinator={"replicatedJob": "a", "podIndex": 7}),
        f"{PLAIN}coordinator pod index 7 is invalid for replicatedJob a job index 0",
    ),
}


@pytest.mark.parametrize(("document", "want"), REFUSED.values(), ids=REFUSED)
def test_a_new_jobset_is_judged_in_upstreams_words(document, want):
    assert words(defaulted(document)) == want


TEMPLATE = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
AWAKE, ASLEEP = jobset("a:1"), jobset("a:1", suspend=True)
CHANGES = {
    "a node selector stays while awake": (AWAKE, (*TEMPLATE, "nodeSelector"), {"zone": "a"}, (), False),
    "a node selector may change asleep": (ASLEEP, (*TEMPLATE, "nodeSelector"), {"zone": "a"}, (), True),
    "an image stays even asleep": (ASLEEP, (*TEMPLATE, "containers"), [{"name": "main", "image": "y"}], (), False),
    "sleep may change": (AWAKE, ("spec", "suspend"), True, (), True),
    "an empty struct is as good as none": (AWAKE, ("spec", "replicatedJobs", 0, "template", "metadata"), {}, (), True),
    "the manager stays": (AWAKE, ("spec", "managedBy"), "example.com/x", (), False),
    "a size stays": (AWAKE, ("spec", "replicatedJobs", 0, "template", "spec", "parallelism"), 2, (), False),
}


@pytest.mark.parametrize(("old", "path", "value", "gates", "allowed"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_judged(old, path, value, gates, allowed):
    old = defaulted(old)
    assert (words(changed(old, *path, value=value), old, gates) == "") == allowed


def test_an_elastic_set_changes_both_sizes_together():
    old, entry = defaulted(jobset("a:1x2")), ("spec", "replicatedJobs", 0, "template", "spec")
    one = changed(old, *entry, "parallelism", value=3)
    both = changed(one, *entry, "completions", value=3)
    assert words(both, old, ["ElasticJobSet"]) == ""
    unequal = "completions must be equal to parallelism for Elastic Indexed Jobs"
    assert words(one, old, ["ElasticJobSet"]) == f"{FIRST}.completions: Invalid value: 2: {unequal}"
    none = changed(both, *entry, "parallelism", value=0)
    assert words(none, old, ["ElasticJobSet"]).startswith(f"[{FIRST}.parallelism: Invalid value: 0: parallelism must")
    assert "field is immutable" in words(both, old)
    over = {**old, "status": {"conditions": [{"type": "Completed", "status": "True"}]}}
    assert words(both, over, ["ElasticJobSet"]).startswith(f"{FIRST}: Forbidden: Cannot mutate parallelism or")


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded behaviour beside the repository")
def test_recorded_refusals_have_the_recorded_words():
    steps = json.loads((RECORDED / "jobset-validation.json").read_text())["steps"]
    for step in steps:
        message = step["expect"]["answer"]["message"]
        if "vjobset.kb.io" not in message:
            continue  # refused by the CRD's own rules
        document = step["object"]
        for entry in document["spec"]["replicatedJobs"]:  # what the CRD's schema fills in
            entry.setdefault("groupName", "default")
            entry.setdefault("replicas", 1)
            entry["template"].setdefault("metadata", {})
            pod = entry["template"]["spec"]["template"]
            pod.setdefault("metadata", {})
            for container in pod["spec"]["containers"]:
                container.setdefault("resources", {})
        got = words(defaulted(document))
        assert got == message.partition(" is invalid: ")[2]


def pod(index, node="", selector=None):
    marks = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/job-key": "k"}
    marks |= {"jobset.sigs.k8s.io/replicatedjob-name": "a", "jobset.sigs.k8s.io/job-index": "0"}
    notes = {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "js-a-0", "uid": "u", "controller": True}
    metadata = {
        "name": f"p{index}",
        "namespace": "ns",
        "labels": marks,
        "annotations": notes,
        "ownerReferences": [owner],
    }
    spec = {"priority": 7, **({"nodeName": node} if node else {}), **({"nodeSelector": selector} if selector else {})}
    return {"metadata": metadata, "spec": spec}


def test_followers_wait_for_their_leader_and_then_go_where_it_is():
    defaults, rules = hooks()[1], hooks()[3]
    node = {"metadata": {"name": "n", "labels": {"rack": "r1"}}}
    view = Documents({(kinds.POD, 0): pod(0), (kinds.NODE, Key("", "n")): node})
    leader = defaults.mutate(Asked(pod(0)), view)
    assert leader["metadata"]["labels"]["jobset.sigs.k8s.io/priority"] == "7"
    assert set(leader["spec"]["affinity"]) == {"podAffinity", "podAntiAffinity"}
    early = defaults.mutate(Asked(pod(1)), view)
    assert rules.validate(Asked(early), view).refusal.message == "follower pod node selector not set"
    view.documents[kinds.POD, 0] = pod(0, node="n")
    late = defaults.mutate(Asked(pod(1)), view)
    assert late["spec"]["nodeSelector"] == {"rack": "r1"}
    assert rules.validate(Asked(late), view).refusal is None


LOST = {
    "a node nobody knows": (None, 'Node "n" not found'),
    "a node of no domain": ({"metadata": {"name": "n"}}, "node does not have topology label: rack"),
}


@pytest.mark.parametrize(("node", "said"), LOST.values(), ids=LOST)
def test_nobody_follows_a_leader_whose_domain_is_not_known(node, said):
    view = Documents({(kinds.POD, 0): pod(0, node="n"), **({(kinds.NODE, Key("", "n")): node} if node else {})})
    with pytest.raises(ApiError) as refusal:
        hooks()[1].mutate(Asked(pod(1)), view)
    assert refusal.value.message == said


def test_with_two_leaders_nobody_knows_whom_to_follow():
    defaults, rules = hooks()[1], hooks()[3]
    node = {"metadata": {"name": "n", "labels": {"rack": "r1"}}}
    failed, second = pod(0, node="n"), pod(0, node="n")
    view = Documents({(kinds.POD, 0): failed, (kinds.POD, 1): second, (kinds.NODE, Key("", "n")): node})
    late = defaults.mutate(Asked(pod(1)), view)
    assert "nodeSelector" not in late["spec"]
    words = rules.validate(Asked(pod(1, selector={"rack": "r1"})), view).refusal.message
    assert words == "expected 1 leader pod (js-a-0-0), but got 2. this is an expected, transient error"
    failed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert defaults.mutate(Asked(pod(1)), view)["spec"]["nodeSelector"] == {"rack": "r1"}


def test_a_follower_does_not_follow_the_leader_of_an_earlier_attempt():
    defaults, node = hooks()[1], {"metadata": {"name": "n", "labels": {"rack": "r1"}}}
    old = pod(0, node="n")
    old["metadata"]["ownerReferences"][0]["uid"] = "before"
    view = Documents({(kinds.POD, 0): old, (kinds.NODE, Key("", "n")): node})
    assert "nodeSelector" not in defaults.mutate(Asked(pod(1)), view)["spec"]


def test_defaults_are_those_of_upstream():
    bare = {
        "metadata": {"name": "js"},
        "spec": {
            "replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": {}}}}}],
            "failurePolicy": {"rules": [{"action": "FailJobSet"}]},
            "volumeClaimPolicies": [{"templates": []}],
        },
    }
    spec = JobSetDefaults().mutate(Asked(bare), Documents())["spec"]
    assert spec["successPolicy"] == {"operator": "All"}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert spec["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert spec["failurePolicy"]["rules"][0]["name"] == "failurePolicyRule0"
    assert spec["volumeClaimPolicies"][0]["retentionPolicy"] == {"whenDeleted": "Delete"}
    job = spec["replicatedJobs"][0]["template"]["spec"]
    assert job["completionMode"] == "Indexed"
    assert job["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_followers_bound_for_another_rack_are_sent_away():
    leader, node = pod(0, node="n"), {"metadata": {"name": "n", "labels": {"rack": "r1"}}}
    pods = [leader, pod(1, selector={"rack": "r1"}), pod(2, selector={"rack": "r2"})]
    for entry in pods:
        entry["metadata"]["uid"] = entry["metadata"]["name"]
    plan = evict_strays(leader, pods, node, "2026-01-01T00:00:00Z")
    assert [write.key.name for write in plan.delete] == ["p2"]
    assert plan.patch[0].body["status"]["conditions"][0]["reason"] == "ExclusivePlacementViolation"
    assert not evict_strays(leader, pods[:2], node, "")
    assert list(scheduled_leaders(leader)) == [Key("ns", "p0")]
    assert list(scheduled_leaders(pod(0))) == []
