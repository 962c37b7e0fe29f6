"""JobSets become Jobs: each case is a JobSet, a line of deeds, and what its status says then."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.meta import labels_of, name_of
from allaboard.jobs.jobset import decide
from allaboard.jobs.story import Facts

from .world import START, World, jobset, told_set

ONCE, NEVER = {"maxRestarts": 1}, {"maxRestarts": 0}
IN_ORDER = {"startupPolicyOrder": "InOrder"}
STOP = {"maxRestarts": 5, "rules": [{"name": "stop", "action": "FailJobSet", "targetReplicatedJobs": ["a"]}]}
FREE = {
    "maxRestarts": 0,
    "rules": [
        {
            "name": "free",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureMessagePatterns": ["backoff.limit"],
        }
    ],
}
BLOCKING = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
ANY_A = {"operator": "Any", "targetReplicatedJobs": ["a"]}

CASES = {
    "every replica is a job": (jobset("a:2x2 b:1"), "", "a:a2r0s0f0z0 b:a1r0s0f0z0 restarts=0"),
    "a job is ready when all its pods are": (jobset("a:2x2"), "js-a-0-0:run js-a-1:run", "a:a2r1s0f0z0 restarts=0"),
    "all succeed": (jobset("a:2 b:1"), "js-:exit", "a:a0r0s2f0z0 b:a0r0s1f0z0 restarts=0 Completed=AllJobsCompleted"),
    "one of the chosen is enough": (
        jobset("a:2 b:1", successPolicy=ANY_A),
        "js-a-0:exit",
        "a:a0r0s1f0z0 b:a0r0s0f0z0 restarts=0 Completed=AllJobsCompleted",
    ),
    "without a policy a failure is final": (
        jobset("a:2"),
        "js-a-0:exit/1",
        "a:a0r0s0f1z0 restarts=0 Failed=FailedJobs",
    ),
    "a set starts again": (
        jobset("a:2", failurePolicy=ONCE),
        "js-a-0:exit/1",
        "a:a2r0s0f0z0 restarts=1 RestartingJobSet=DefaultFailurePolicy",
    ),
    "a name is free when its last pod is gone": (
        jobset("a:2", failurePolicy=ONCE),
        "js-:run js-a-0:exit/1",
        "a:a1r0s0f0z0 restarts=1 RestartingJobSet=DefaultFailurePolicy",
    ),
    "blocking recreation waits for all of them": (
        jobset("a:2", failurePolicy=BLOCKING),
        "js-:run js-a-0:exit/1",
        "a:a0r0s0f0z0 restarts=1 RestartingJobSet=DefaultFailurePolicy",
    ),
    "and then makes all anew": (
        jobset("a:2", failurePolicy=BLOCKING),
        "js-:run js-a-0:exit/1 reap",
        "a:a2r0s0f0z0 restarts=1 RestartingJobSet=DefaultFailurePolicy",
    ),
    "a restart is over when all are ready": (
        jobset("a:2", failurePolicy=ONCE),
        "js-:run js-a-0:exit/1 reap js-:run",
        "a:a2r2s0f0z0 restarts=1",
    ),
    "the second failure is one too many": (
        jobset("a:1", failurePolicy=ONCE),
        "js-:exit/1 js-:exit/1",
        "a:a0r0s0f1z0 restarts=1 Failed=ReachedMaxRestarts",
    ),
    "no restarts allowed": (
        jobset("a:1", failurePolicy=NEVER),
        "js-:exit/1",
        "a:a0r0s0f1z0 restarts=0 Failed=ReachedMaxRestarts",
    ),
    "a rule may end it at once": (
        jobset("a:1 b:1", failurePolicy=STOP),
        "js-a:exit/1",
        "a:a0r0s0f1z0 b:a0r0s0f0z0 restarts=0 Failed=FailJobSetFailurePolicyAction",
    ),
    "or does not fit": (
        jobset("a:1 b:1", failurePolicy=STOP),
        "js-b:exit/1",
        "a:a1r0s0f0z0 b:a1r0s0f0z0 restarts=1 RestartingJobSet=DefaultFailurePolicy",
    ),
    "a free restart does not count": (
        jobset("a:1", failurePolicy=FREE),
        "js-:exit/1 js-:exit/1",
        "a:a1r0s0f0z0 restarts=2 RestartingJobSet=FailurePolicy_free",
    ),
    "who depends on ready waits for it": (jobset("a:1 b:1<a"), "", "a:a1r0s0f0z0 b:a0r0s0f0z0 restarts=0"),
    "and starts then": (jobset("a:1 b:1<a"), "js-a:run", "a:a1r1s0f0z0 b:a1r0s0f0z0 restarts=0"),
    "who depends on completion waits longer": (
        jobset("a:1 b:1<<a"),
        "js-a:run",
        "a:a1r1s0f0z0 b:a0r0s0f0z0 restarts=0",
    ),
    "in order, one after the other": (
        jobset("a:1 b:1", startupPolicy=IN_ORDER),
        "",
        "a:a1r0s0f0z0 b:a0r0s0f0z0 restarts=0 StartupPolicyInProgress=InOrderStartupPolicyInProgress",
    ),
    "until the last is ready": (
        jobset("a:1 b:1", startupPolicy=IN_ORDER),
        "js-a:run js-b:run",
        "a:a1r1s0f0z0 b:a1r1s0f0z0 restarts=0 StartupPolicyCompleted=InOrderStartupPolicyCompleted",
    ),
    "a suspended set has sleeping jobs": (
        jobset("a:2", suspend=True),
        "",
        "a:a0r0s0f0z2 restarts=0 Suspended=SuspendedJobs",
    ),
}


@pytest.mark.parametrize(("document", "script", "want"), CASES.values(), ids=CASES)
def test_a_jobset_lives_as_upstream_lives_it(document, script, want):
    world = World().add(kinds.JOB_SET, document).settle().act(script)
    assert told_set(world.jobset()["status"]) == want


def test_children_carry_their_place_in_the_set():
    world = World().add(kinds.JOB_SET, jobset("a:1 b:2x2")).settle()
    job = world.job("js-b-1")
    marks = {key.rpartition("/")[2]: value for key, value in labels_of(job).items()}
    assert marks["job-index"] == "1"
    assert marks["job-global-index"] == "2"
    assert marks["global-replicas"] == "3"
    assert job["spec"]["template"]["spec"]["subdomain"] == "js"
    assert [pod["spec"]["hostname"] for pod in world.pods()] == [
        "js-a-0-0",
        "js-b-0-0",
        "js-b-0-1",
        "js-b-1-0",
        "js-b-1-1",
    ]


def test_suspending_and_resuming_takes_over_the_changed_template():
    world = World().add(kinds.JOB_SET, jobset("a:1x2")).settle().act("js-:run")
    world.edit(kinds.JOB_SET, "js", "spec", "suspend", value=True).settle().act("reap")
    assert told_set(world.jobset()["status"]) == "a:a0r0s0f0z1 restarts=0 Suspended=SuspendedJobs"
    template = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
    world.edit(kinds.JOB_SET, "js", *template, "nodeSelector", value={"zone": "b"})
    world.edit(kinds.JOB_SET, "js", "spec", "suspend", value=False).settle()
    assert told_set(world.jobset()["status"]) == "a:a1r0s0f0z0 restarts=0"
    assert [pod["spec"]["nodeSelector"] for pod in world.pods()] == [{"zone": "b"}] * 2


def test_a_name_that_is_taken_is_told_and_no_status_written():
    other = {"metadata": {"name": "js-a-0"}, "spec": {"suspend": True, "template": {"spec": {"containers": []}}}}
    world = World().add(kinds.JOB, other).add(kinds.JOB_SET, jobset("a:1")).settle()
    assert "status" not in world.jobset()
    words = 'job "js-a-0" creation failed with error: jobs.batch "js-a-0" already exists'
    assert words in {event.message for event in world.events}
    world.delete(kinds.JOB, Key("ns", "js-a-0"))
    assert told_set(world.settle().jobset()["status"]) == "a:a1r0s0f0z0 restarts=0"


def test_restarting_one_job_leaves_the_others_alone():
    policy = {"maxRestarts": 1, "rules": [{"name": "one", "action": "RestartJob"}]}
    world = World(gates=["RestartJob"]).add(kinds.JOB_SET, jobset("a:3", failurePolicy=policy)).settle()
    before = {name_of(job): job["metadata"]["uid"] for job in world.kinds[kinds.JOB].values()}
    world.act("js-:run js-a-1:exit/1")
    after = {name_of(job): job["metadata"]["uid"] for job in world.kinds[kinds.JOB].values()}
    assert {name for name in before if before[name] != after[name]} == {"js-a-1"}
    assert world.jobset()["status"]["replicatedJobsStatus"][0]["jobRestarts"] == [0, 1, 0]
    world.act("js-a-2:exit/1")
    assert "ReachedMaxRestarts" in told_set(world.jobset()["status"])


def test_an_elastic_set_resizes_its_jobs():
    world = World(gates=["ElasticJobSet"]).add(kinds.JOB_SET, jobset("a:1x2")).settle()
    template = ("spec", "replicatedJobs", 0, "template", "spec")
    for key in ("parallelism", "completions"):
        world.edit(kinds.JOB_SET, "js", *template, key, value=3)
    assert len(world.settle().pods()) == 3


def test_a_jobset_of_nothing_has_nothing_to_tell():
    world = World().add(kinds.JOB_SET, jobset("")).settle()
    assert not world.jobset().get("status")


@pytest.mark.parametrize(("kind", "woken"), [(kinds.SERVICE, True), (kinds.CLAIM, False)])
def test_a_lost_service_wakes_its_jobset_and_a_lost_claim_waits_for_other_news(kind, woken):
    policy = {"templates": [{"metadata": {"name": "data"}, "spec": {}}]}
    world = World().add(kinds.JOB_SET, jobset("a:1", volumeClaimPolicies=[policy])).settle()
    (child,), controller = world.kinds[kind].values(), world.controllers[0]
    assert controller.observe(kind, child, None) is woken


def test_a_lost_service_is_made_again_and_claims_follow_their_policy():
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    policies = [
        {"templates": [claim]},
        {"templates": [{**claim, "metadata": {"name": "kept"}}], "retentionPolicy": {"whenDeleted": "Retain"}},
    ]
    world = World().add(kinds.JOB_SET, jobset("a:1", volumeClaimPolicies=policies)).settle()
    owned = {
        key.name: bool(claim["metadata"].get("ownerReferences")) for key, claim in world.kinds[kinds.CLAIM].items()
    }
    assert owned == {"data-js": True, "kept-js": False}
    world.delete(kinds.SERVICE, Key("ns", "js"))
    assert Key("ns", "js") in world.settle().kinds[kinds.SERVICE]


def test_time_to_live_removes_a_finished_set_with_everything_it_made():
    world = World().add(kinds.JOB_SET, jobset("a:2", ttlSecondsAfterFinished=5)).settle().act("js-:exit +5")
    assert world.jobset() is None
    assert not world.pods() and not world.kinds[kinds.JOB] and not world.kinds[kinds.SERVICE]


def test_somebody_elses_set_is_left_alone():
    world = World().add(kinds.JOB_SET, jobset("a:2", managedBy="example.com/other")).settle()
    assert not world.kinds[kinds.JOB]


def test_one_entry_after_the_other_is_made_so_that_a_refusal_keeps_the_later_ones_back():
    document = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **jobset("a:2 b:2<a c:1")}
    document["metadata"] |= {"namespace": "ns", "uid": "u"}
    made, turns = [], []
    for _ in range(3):
        plan = decide(document, Facts(made, has_service=True), START)
        turns.append([name_of(write.document) for write in plan.create])
        born = {"creationTimestamp": "2026-01-01T00:00:00Z"}
        made += [{**w.document, "metadata": {**w.document["metadata"], **born}} for w in plan.create]
    assert turns == [["js-a-0", "js-a-1"], ["js-c-0"], []], "b waits for a"
    assert decide(document, Facts([], has_service=True), START).again == START
