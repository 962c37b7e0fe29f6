"""Whatever happens to the controllers and in whatever order, Jobs keep their promises."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.meta import is_true
from allaboard.jobs.members import TRACKING

from .world import Crash, World, indexed, job, jobset, told, told_set

STORIES = {
    "a job succeeds": (kinds.JOB, indexed(3, parallelism=2), "j-:run j-0:exit j-1:exit j-2:exit"),
    "a job of any pods succeeds": (kinds.JOB, job(completions=3, parallelism=2), "j-:exit j-:exit j-:exit"),
    "a job fails": (kinds.JOB, indexed(3, backoffLimit=0), "j-:run j-1:exit/3 reap"),
    "an index fails twice": (
        kinds.JOB,
        indexed(2, backoffLimit=9, backoffLimitPerIndex=1),
        "j-1:exit/1 +20 j-1:exit/1 j-0:exit",
    ),
    "a job is slow": (kinds.JOB, indexed(2, activeDeadlineSeconds=9), "j-:run +9 reap"),
    "a success policy": (
        kinds.JOB,
        indexed(3, successPolicy={"rules": [{"succeededCount": 1}]}),
        "j-:run j-1:exit reap",
    ),
    "a set succeeds": (kinds.JOB_SET, jobset("a:2x2 b:1<a"), "js-a:run js-b:run js-:exit js-:exit"),
    "a set restarts and fails": (
        kinds.JOB_SET,
        jobset("a:2", failurePolicy={"maxRestarts": 1}),
        "js-:run js-a-0:exit/1 reap js-a-1:exit/1 reap",
    ),
    "a set in order": (
        kinds.JOB_SET,
        jobset("a:1 b:1", startupPolicy={"startupPolicyOrder": "InOrder"}),
        "js-a:run js-b:run js-:exit",
    ),
}


class Unlucky(World):
    """The process dies before a given write, and a new one starts."""

    def settle(self, rounds=60):
        try:
            return super().settle(rounds)
        except Crash:
            self.crash_after = None
            self.start_controllers()
            return super().settle(rounds)


def end_of(world):
    document = world.job() or world.jobset()
    status = (told if document["kind"] == "Job" else told_set)(document["status"])
    pods = sorted((p["metadata"]["generateName"], p["status"]["phase"]) for p in world.pods())
    return status, pods, sorted(key.name for key in world.kinds[kinds.JOB])


@pytest.mark.parametrize(("kind", "document", "script"), STORIES.values(), ids=STORIES)
def test_a_death_before_any_write_changes_nothing_in_the_end(kind, document, script):
    calm = World().add(kind, {**document, "metadata": dict(document["metadata"])}).settle().act(script)
    for moment in range(calm.writes):
        world = Unlucky()
        world.crash_after = moment
        world.add(kind, {**document, "metadata": dict(document["metadata"])}).settle().act(script)
        assert end_of(world) == end_of(calm), f"died before write {moment}"


SHAPES = {
    "indexed": indexed(3, parallelism=2, backoffLimit=2),
    "any": job(completions=3, parallelism=2, backoffLimit=2),
    "queue": job(parallelism=2, backoffLimit=2),
    "per index": indexed(3, parallelism=2, backoffLimit=99, backoffLimitPerIndex=1),
    "failed only": indexed(3, parallelism=2, backoffLimit=2, podReplacementPolicy="Failed"),
    "first wins": indexed(3, backoffLimit=2, successPolicy={"rules": [{"succeededCount": 2}]}),
}
DEEDS = st.sampled_from(
    ("run", "exit/0", "exit/1", "delete", "reap", "+5", "+30", "suspend", "resume", "restart", "crash", "conflict")
)


def check(world, before):
    """The promises of a Job, at rest."""
    document = world.job()
    status, pods = document["status"], world.pods()
    live = [
        p
        for p in pods
        if p["status"]["phase"] not in ("Succeeded", "Failed") and not p["metadata"].get("deletionTimestamp")
    ]
    assert len(live) <= document["spec"]["parallelism"]
    places = [
        p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        for p in live
        if document["spec"].get("completionMode") == "Indexed"
    ]
    assert len(set(places)) == len(places), "two live pods of one index"
    for word in ("succeeded", "failed"):
        assert status.get(word, 0) >= before.get(word, 0), f"{word} went down"
    assert status.get("active", 0) == len(live)
    if is_true({"status": before}, "Complete") or is_true({"status": before}, "Failed"):
        assert status == before, "a finished Job changed"
    if is_true(document, "Complete") or is_true(document, "Failed"):
        assert not any(TRACKING in (p["metadata"].get("finalizers") or ()) for p in pods), "a finalizer is left"
    return status


@settings(max_examples=2500, deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.sampled_from(sorted(SHAPES)), deeds=st.lists(st.tuples(DEEDS, st.integers(0, 9)), max_size=14))
def test_a_job_keeps_its_promises(shape, deeds):
    document = SHAPES[shape]
    world = Unlucky().add(kinds.JOB, {**document, "metadata": {"name": "j"}}).settle()
    status = check(world, {})
    for deed, number in deeds:
        play(world, deed, number)
        status = check(world, status)
    world.delete(kinds.JOB, Key("ns", "j"), propagation="Foreground")
    world.settle().act("reap reap")
    assert world.job() is None and world.pods() == []


def play(world, deed, number):
    pods = sorted(world.kinds[kinds.POD])
    if deed in ("suspend", "resume"):
        world.edit(kinds.JOB, "j", "spec", "suspend", value=deed == "suspend")
    elif deed == "restart":
        world.start_controllers()
    elif deed == "crash":
        world.crash_after = number
    elif deed == "conflict":
        world.conflicts = number
    elif deed in ("reap", "+5", "+30"):
        world.act(deed)
    elif pods:
        world.act(f"{pods[number % len(pods)].name}:{deed}")
    world.settle()


SETS = {
    "plain": jobset("a:2x2 b:1", failurePolicy={"maxRestarts": 2}),
    "depends": jobset("a:1 b:2<a c:1<<b", failurePolicy={"maxRestarts": 2}),
    "in order": jobset("a:1 b:2", startupPolicy={"startupPolicyOrder": "InOrder"}, failurePolicy={"maxRestarts": 2}),
    "blocking": jobset("a:2 b:1", failurePolicy={"maxRestarts": 2, "restartStrategy": "BlockingRecreate"}),
    "any": jobset("a:2 b:1", successPolicy={"operator": "Any", "targetReplicatedJobs": ["b"]}),
    "one by one": jobset("a:2", failurePolicy={"maxRestarts": 2, "rules": [{"name": "r", "action": "RestartJob"}]}),
}


def check_set(world, before):
    """The promises of a JobSet, at rest."""
    status = world.jobset()["status"]
    live = [p for p in world.pods() if p["status"]["phase"] not in ("Succeeded", "Failed")]
    hosts = [p["spec"]["hostname"] for p in live if not p["metadata"].get("deletionTimestamp")]
    assert len(set(hosts)) == len(hosts), "two live pods of one index"
    assert status["restarts"] >= before.get("restarts", 0)
    single = sum(sum(row.get("jobRestartsCountTowardsMax", ())) for row in status["replicatedJobsStatus"])
    assert status.get("restartsCountTowardsMax", 0) + single <= 2
    if before.get("terminalState"):
        ends = {c["type"]: c["reason"] for c in before["conditions"] if c["type"] in ("Completed", "Failed")}
        now = {c["type"]: c["reason"] for c in status["conditions"] if c["type"] in ("Completed", "Failed")}
        assert (status["terminalState"], now) == (before["terminalState"], ends), "an end is final"
    return status


@settings(max_examples=2500, deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.sampled_from(sorted(SETS)), deeds=st.lists(st.tuples(DEEDS, st.integers(0, 9)), max_size=12))
def test_a_set_keeps_its_promises(shape, deeds):
    world = Unlucky(["RestartJob"]).add(kinds.JOB_SET, {**SETS[shape], "metadata": {"name": "js"}}).settle()
    status = check_set(world, {})
    for deed, number in deeds:
        if deed in ("suspend", "resume"):
            world.edit(kinds.JOB_SET, "js", "spec", "suspend", value=deed == "suspend").settle()
        else:
            play(world, deed, number)
        status = check_set(world, status)
    world.delete(kinds.JOB_SET, Key("ns", "js"), propagation="Foreground")
    world.settle().act("reap reap reap")
    assert world.jobset() is None and world.pods() == [] and not world.kinds[kinds.JOB]
