"""Jobs become pods and pods become status: each case is a Job, a line of deeds, and what the status says then."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.jobs import members, tracking

from .world import World, finished, indexed, job, told

EXIT_42 = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
IGNORE_9 = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}}]}
FAIL_INDEX_9 = {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}}]}
FIRST_AND_LAST = {"rules": [{"succeededIndexes": "0,2"}]}
ANY_ONE = {"rules": [{"succeededCount": 1}]}
DONE = "SuccessCriteriaMet CompletionsReached"

CASES = {
    "every index gets a pod": (indexed(3), "", "active=3"),
    "pods that run are ready": (indexed(3), "j-:run", "active=3 ready=3"),
    "an index that succeeded is written down": (indexed(3), "j-1:exit", "active=2 succeeded=1 completedIndexes=1"),
    "all indexes complete the job": (indexed(3), "j-:exit", f"succeeded=3 completedIndexes=0-2 {DONE}"),
    "no more than parallelism work at once": (indexed(5, parallelism=2), "", "active=2"),
    "a place that is free goes to the next index": (
        indexed(5, parallelism=2),
        "j-0:exit j-1:exit",
        "active=2 succeeded=2 completedIndexes=0,1",
    ),
    "completions zero completes at once": (job(completions=0, parallelism=2), "", DONE),
    "a work queue ends when all pods are done": (job(parallelism=2), "j-:exit", f"succeeded=2 {DONE}"),
    "after a success a work queue starts nobody": (
        job(parallelism=2),
        "j-00001:exit j-00002:exit/1 +60",
        f"succeeded=1 failed=1 {DONE}",
    ),
    "a failed pod is not replaced before ten seconds": (indexed(1), "j-:exit/1 +9", "failed=1"),
    "a failed pod is replaced after ten seconds": (indexed(1), "j-:exit/1 +10", "active=1 failed=1"),
    "the second failure waits twenty seconds": (indexed(1), "j-:exit/1 +10 j-:exit/1 +19", "failed=2"),
    "and then is replaced": (indexed(1), "j-:exit/1 +10 j-:exit/1 +20", "active=1 failed=2"),
    "the limit fails the job and everybody in it": (
        indexed(2, backoffLimit=0),
        "j-:run j-0:exit/1",
        "failed=2 terminating=1 FailureTarget",
    ),
    "the last word waits for the last pod": (
        indexed(2, backoffLimit=0),
        "j-:run j-0:exit/1 reap",
        "failed=2 FailureTarget BackoffLimitExceeded",
    ),
    "pods that never ran go at once": (
        indexed(2, backoffLimit=0),
        "j-0:exit/1",
        "failed=2 FailureTarget BackoffLimitExceeded",
    ),
    "containers that start again spend the limit": (
        indexed(2, backoffLimit=3, restart="OnFailure"),
        "j-0:run/2 j-1:run/1 reap",
        "failed=2 FailureTarget BackoffLimitExceeded",
    ),
    "an exit code fails the job": (
        indexed(2, podFailurePolicy=EXIT_42, podReplacementPolicy="Failed"),
        "j-0:exit/42",
        "failed=2 FailureTarget PodFailurePolicy",
    ),
    "an ignored failure does not count": (
        indexed(1, podFailurePolicy=IGNORE_9, backoffLimit=0, podReplacementPolicy="Failed"),
        "j-:exit/9",
        "",
    ),
    "an ignored failure is replaced after the same wait": (
        indexed(1, podFailurePolicy=IGNORE_9, backoffLimit=0, podReplacementPolicy="Failed"),
        "j-:exit/9 +10",
        "active=1",
    ),
    "a deleted pod counts as failed": (indexed(1), "j-:run j-:delete", "failed=1 terminating=1"),
    "and is replaced while it still leaves": (indexed(1), "j-:run j-:delete +10", "active=1 failed=1 terminating=1"),
    "unless only failed pods are replaced": (
        indexed(1, podReplacementPolicy="Failed"),
        "j-:run j-:delete +60",
        "terminating=1",
    ),
    "then the replacement comes after the end": (
        indexed(1, podReplacementPolicy="Failed"),
        "j-:run j-:delete +60 reap +10",
        "active=1 failed=1",
    ),
    "a deadline fails the job": (
        indexed(2, activeDeadlineSeconds=30),
        "j-:run +30 reap",
        "failed=2 FailureTarget DeadlineExceeded",
    ),
    "no time at all fails it before it has pods": (
        indexed(2, activeDeadlineSeconds=0),
        "",
        "FailureTarget DeadlineExceeded",
    ),
    "named indexes are enough": (
        indexed(3, successPolicy=FIRST_AND_LAST),
        "j-:run j-0:exit j-2:exit",
        "succeeded=2 terminating=1 completedIndexes=0,2 SuccessCriteriaMet",
    ),
    "and those left over are never counted": (
        indexed(3, successPolicy=FIRST_AND_LAST),
        "j-:run j-0:exit j-2:exit reap",
        "succeeded=2 completedIndexes=0,2 SuccessCriteriaMet SuccessPolicy",
    ),
    "a failure that waits for its successor counts when there will be none": (
        indexed(3, backoffLimit=99, backoffLimitPerIndex=1, successPolicy=ANY_ONE),
        "j-:run j-2:delete j-1:exit",
        "succeeded=1 failed=1 terminating=2 completedIndexes=1 SuccessCriteriaMet",
    ),
    "any one may be enough": (
        indexed(3, successPolicy=ANY_ONE),
        "j-1:exit",
        "succeeded=1 completedIndexes=1 SuccessCriteriaMet SuccessPolicy",
    ),
    "an index has a budget of its own": (indexed(2, backoffLimit=99, backoffLimitPerIndex=1), "j-1:exit/1", "active=1"),
    "whose failure counts when the replacement is there": (
        indexed(2, backoffLimit=99, backoffLimitPerIndex=1),
        "j-1:exit/1 +10",
        "active=2 failed=1",
    ),
    "an index that spent its budget has failed": (
        indexed(2, backoffLimit=99, backoffLimitPerIndex=1),
        "j-1:exit/1 +10 j-1:exit/1 +60",
        "active=1 failed=2 failedIndexes=1",
    ),
    "failed indexes fail the job when all are decided": (
        indexed(2, backoffLimit=99, backoffLimitPerIndex=0),
        "j-1:exit/1 j-0:exit",
        "succeeded=1 failed=1 completedIndexes=0 failedIndexes=1 FailureTarget FailedIndexes",
    ),
    "too many failed indexes fail it earlier": (
        indexed(3, backoffLimit=99, backoffLimitPerIndex=0, maxFailedIndexes=1),
        "j-0:exit/1 j-1:exit/1",
        "failed=3 failedIndexes=0,1 FailureTarget MaxFailedIndexesExceeded",
    ),
    "a policy may fail an index at once": (
        indexed(
            2, backoffLimit=99, backoffLimitPerIndex=5, podFailurePolicy=FAIL_INDEX_9, podReplacementPolicy="Failed"
        ),
        "j-0:exit/9",
        "active=1 failed=1 failedIndexes=0",
    ),
    "a suspended job has no pods": (indexed(2, suspend=True), "", "Suspended"),
}


@pytest.mark.parametrize(("document", "script", "want"), CASES.values(), ids=CASES)
def test_a_job_lives_as_upstream_lives_it(document, script, want):
    world = World().add(kinds.JOB, document).settle().act(script)
    assert told(world.job()["status"]) == want


def test_suspend_and_resume_give_new_pods_and_count_nothing():
    world = World().add(kinds.JOB, indexed(2)).settle().act("j-0:run")
    world.edit(kinds.JOB, "j", "spec", "suspend", value=True).settle()
    assert told(world.job()["status"]) == "terminating=1 Suspended"
    assert "startTime" not in world.job()["status"]
    world.act("reap").edit(kinds.JOB, "j", "spec", "suspend", value=False).settle()
    assert told(world.job()["status"]) == "active=2 Suspended=False"


def test_an_elastic_job_grows_and_shrinks():
    world = World().add(kinds.JOB, indexed(2)).settle().act("j-:run")
    for size, want in ((4, "active=4 ready=2"), (1, "active=1 ready=1 terminating=1")):
        world.edit(kinds.JOB, "j", "spec", "completions", value=size)
        world.edit(kinds.JOB, "j", "spec", "parallelism", value=size).settle()
        assert told(world.job()["status"]) == want


def test_a_pod_without_finalizer_is_not_counted_but_replaced():
    world = World().add(kinds.JOB, indexed(1)).settle()
    world.edit(kinds.POD, "j-0-00001", "metadata", "finalizers", value=[]).act("j-:exit")
    assert told(world.job()["status"]) == "active=1"


def test_nor_does_its_failure_delay_the_replacement():
    world = World().add(kinds.JOB, indexed(1)).settle()
    world.edit(kinds.POD, "j-0-00001", "metadata", "finalizers", value=[]).act("j-:exit/1")
    assert told(world.job()["status"]) == "active=1"


def test_how_a_pod_ends_that_was_let_go_fails_nobody():
    world = World().add(kinds.JOB, indexed(2, podFailurePolicy=EXIT_42, podReplacementPolicy="Failed")).settle()
    world.act("j-:run").edit(kinds.JOB, "j", "spec", "parallelism", value=1).settle()
    (let_go,) = [key for key, pod in world.kinds[kinds.POD].items() if pod["metadata"].get("deletionTimestamp")]
    ended = {"name": "main", "state": {"terminated": {"exitCode": 42}}}
    world.edit(kinds.POD, let_go.name, "status", value={"phase": "Failed", "containerStatuses": [ended]}).settle()
    assert told(world.job()["status"]) == "active=1 ready=1"


def test_a_long_job_name_is_cut_in_names_of_pods_only():
    long = job(completions=1)
    long["metadata"]["name"] = "j" * 63
    (pod,) = World().add(kinds.JOB, long).settle().pods()
    assert pod["metadata"]["generateName"] == "j" * 63 + "-"
    assert pod["metadata"]["name"] == "j" * 58 + "00001"


def test_a_matching_orphan_is_adopted_and_a_stranger_released():
    labels = {"pick": "me"}
    pod = {"metadata": {"name": "stray", "labels": labels}, "spec": {"containers": []}}
    document = job(completions=2, parallelism=2, manualSelector=True, selector={"matchLabels": labels})
    document["spec"]["template"]["metadata"] = {"labels": labels}
    world = World().add(kinds.POD, pod).add(kinds.JOB, document).settle()
    assert told(world.job()["status"]) == "active=2"
    assert len(world.pods()) == 2
    world.edit(kinds.POD, "stray", "metadata", "labels", value={}).settle()
    assert world.kinds[kinds.POD][Key("ns", "stray")]["metadata"]["ownerReferences"] == []
    assert len(world.pods()) == 3


def test_deleting_a_job_drains_every_finalizer():
    world = World().add(kinds.JOB, indexed(3)).settle().act("j-0:run")
    world.delete(kinds.JOB, Key("ns", "j"))
    world.settle().act("reap")
    assert world.pods() == []


def test_a_job_that_leaves_in_the_foreground_counts_no_failure():
    world = World().add(kinds.JOB, indexed(2)).settle().act("j-:run")
    world.delete(kinds.JOB, Key("ns", "j"), propagation="Foreground")
    world.settle()
    assert told(world.job()["status"]) == "terminating=2"
    assert world.act("reap").job() is None


def test_time_to_live_removes_a_finished_job():
    world = World().add(kinds.JOB, indexed(1, ttlSecondsAfterFinished=5)).settle().act("j-:exit +4")
    assert world.job()
    assert world.act("+1").job() is None
    assert world.pods() == []


def test_refused_pods_are_told_once_per_attempt_and_tried_again():
    world = World()
    world.refuse = lambda document: "no room" if document["metadata"]["name"].startswith("j-1") else None
    world.add(kinds.JOB, indexed(2)).settle()
    assert told(world.job()["status"]) == "active=1"
    said = [(event.reason, event.message) for event in world.events]
    assert said == [("FailedCreate", "Error creating: no room"), ("SuccessfulCreate", "Created pod: j-0-00001")]
    world.refuse = lambda document: None
    assert told(world.act("+1").job()["status"]) == "active=2"


def test_somebody_elses_job_is_left_alone():
    world = World().add(kinds.JOB, indexed(2, managedBy="example.com/other")).settle()
    assert world.pods() == []
    assert world.job()["status"] == {}


def test_a_finished_job_costs_no_write():
    world = World().add(kinds.JOB, indexed(2)).settle().act("j-:exit")
    before = world.writes
    world.start_controllers()
    world.settle()
    assert world.writes == before


def test_only_what_concerns_a_job_wakes_it():
    world = World().add(kinds.JOB, indexed(1)).settle()
    controller, pod = world.controllers[1], world.pods()[0]
    for change, woken in (
        ({"spec": {**pod["spec"], "nodeName": "n"}}, False),
        ({"status": {"phase": "Running"}}, True),
    ):
        assert controller.observe(kinds.POD, pod, {**pod, **change}) is woken


def test_pods_seen_before_their_job_was_gone_are_let_go_after_it():
    """Two watches need not agree on the order: the pod's leaving may be told before its Job's end."""
    world = World().add(kinds.JOB, indexed(2)).settle().act("j-:run")
    jobs, world.controllers[3:] = world.kinds[kinds.JOB].copy(), []
    world.delete(kinds.JOB, Key("ns", "j"))
    world.collect_garbage()
    assert all(pod["metadata"]["finalizers"] for pod in world.pods())
    world.carry_out(world.controllers[1], finished(world.controllers[1].reconcile(Key("ns", "j"))))
    assert jobs and not any(pod["metadata"]["finalizers"] for pod in world.pods())


DISRUPTED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


def evict(world, name, **annotations):
    """What a scheduler does to make room: the reason on the pod, then its deletion."""
    (key,) = [key for key in world.kinds[kinds.POD] if key.name.startswith(name)]

    def mark(pod):
        pod["metadata"].setdefault("annotations", {}).update(annotations)
        pod["status"]["conditions"] = [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ]

    world.change(kinds.POD, key, mark)
    world.delete(kinds.POD, key)
    return world.settle().act("reap")


OURS = {"aboard.dev/evicted": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("limits", [{"backoffLimit": 0}, {"backoffLimit": 9, "backoffLimitPerIndex": 0}])
def test_pods_our_scheduler_evicts_come_back_at_once(limits):
    world = World().add(kinds.JOB, indexed(2, podFailurePolicy=DISRUPTED, **limits)).settle().act("j-:run")
    world = evict(evict(world, "j-0", **OURS), "j-1", **OURS)
    assert told(world.job()["status"]).startswith("active=2")
    assert sum(p["status"]["phase"] == "Pending" for p in world.pods()) == 2


def test_pods_others_evict_wait_as_upstream_lets_them():
    world = World().add(kinds.JOB, indexed(1, podFailurePolicy=DISRUPTED, backoffLimit=0)).settle().act("j-:run")
    assert "active" not in evict(world, "j-0").job()["status"]
    assert told(world.act("+10").job()["status"]).startswith("active=1")


def test_a_job_that_leaves_keeps_its_start_when_it_is_told_to_sleep():
    world = World().add(kinds.JOB, indexed(1)).settle().act("j-:run")
    world.delete(kinds.JOB, Key("ns", "j"), propagation="Foreground")
    world.settle().edit(kinds.JOB, "j", "spec", "suspend", value=True).settle()
    assert world.job()["status"]["startTime"]


def ends(world, name, code):
    """A pod ends, and the controller hears of it."""
    (key,) = [key for key in world.kinds[kinds.POD] if key.name.startswith(name)]
    before = world.kinds[kinds.POD][key]
    world.end_pod(key, code)
    world.controllers[1].observe(kinds.POD, before, world.kinds[kinds.POD][key])
    return world.settle()


def test_pods_that_end_within_a_second_are_judged_together():
    world = World().add(kinds.JOB, indexed(3, backoffLimit=0)).settle().act("j-:run")
    assert told(ends(world, "j-0", 1).job()["status"]) == "active=3 ready=3"
    ends(world.pass_time(0.9), "j-1", 0).pass_time(0.1).settle()
    assert told(world.job()["status"]) == "succeeded=1 failed=2 terminating=1 completedIndexes=1 FailureTarget"


def test_a_success_that_comes_with_a_failure_is_none():
    world = World().add(kinds.JOB, indexed(3, backoffLimit=0, successPolicy=ANY_ONE)).settle().act("j-:run")
    ends(ends(world, "j-0", 0), "j-1", 1).pass_time(1).settle()
    assert told(world.job()["status"]) == "succeeded=1 failed=2 terminating=1 completedIndexes=0 FailureTarget"


def test_nobody_waits_where_nobody_would_be_sent_home():
    world = World().add(kinds.JOB, indexed(2, backoffLimit=1)).settle().act("j-:run")
    assert told(ends(world, "j-0", 1).job()["status"]) == "active=1 ready=1 failed=1"
    assert told(ends(world, "j-1", 1).job()["status"]) == "failed=2 FailureTarget BackoffLimitExceeded"


def test_nobody_takes_a_place_before_it_is_known_who_else_ended():
    world = World().add(kinds.JOB, indexed(4, parallelism=2, backoffLimit=0)).settle().act("j-:run")
    assert told(ends(world, "j-0", 0).job()["status"]) == "active=2 ready=2"
    assert told(ends(world, "j-1", 1).pass_time(1).settle().job()["status"]).startswith("succeeded=1 failed=1")
    assert len(world.pods()) == 2


ORPHANS = {
    "a Job that lives will adopt it": ({}, {}, True),
    "one that has ended will not": ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, {}, False),
    "nor one that leaves": ({"metadata": {"name": "j", "deletionTimestamp": "t"}}, {}, False),
    "nor one that never picked it": ({"spec": {"selector": {"matchLabels": {"of": "k"}}}}, {}, False),
    "nor if the pod leaves": ({}, {"deletionTimestamp": "t"}, False),
}


@pytest.mark.parametrize(("job_", "marks", "kept"), ORPHANS.values(), ids=ORPHANS)
def test_the_finalizer_of_a_pod_that_lost_its_owner(job_, marks, kept):
    metadata = {"name": "p", "namespace": "ns", "uid": "p", "labels": {"of": "j"}, "finalizers": [members.TRACKING]}
    selector = {"selector": {"matchLabels": {"of": "j"}}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "j"}, "spec": selector, **job_}
    assert bool(tracking.decide({"metadata": {**metadata, **marks}}, owner)) is not kept
