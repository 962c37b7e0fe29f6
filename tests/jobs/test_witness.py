"""What went wrong outlives the pods it happened to."""

from allaboard.api import kinds
from allaboard.jobs.witness import told

from .world import World, indexed, jobset


def test_a_job_remembers_its_failures_in_order():
    world = World().add(kinds.JOB, indexed(2, backoffLimit=9)).settle().act("j-:run j-1:exit/3 +1 j-0:exit/4")
    entries = told(world.job())
    assert [(entry["index"], entry["exitCode"], entry["node"]) for entry in entries] == [(1, 3, "n"), (0, 4, "n")]


def test_of_two_that_fail_together_both_are_heard_and_the_one_sent_home_is_not():
    """The pod that failed in the same moment as the first is deleted with the rest; it still has something to say."""
    world = World().add(kinds.JOB, indexed(3, backoffLimit=0)).settle().act("j-:run j-1:exit/3")
    late, sent = (next(k for k in world.kinds[kinds.POD] if k.name.startswith(name)) for name in ("j-0", "j-2"))
    world.end_pod(late, 7)
    world.end_pod(sent, 143)
    entries = told(world.settle().job())
    assert [(entry["index"], entry["exitCode"]) for entry in entries] == [(0, 7), (1, 3)]


def test_containers_that_start_again_are_remembered_too():
    world = World().add(kinds.JOB, indexed(1, backoffLimit=9, restart="OnFailure")).settle()
    ended = {
        "name": "main",
        "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 7, "finishedAt": "t", "message": "no\n"}},
    }
    world.edit(kinds.POD, "j-0-00001", "status", value={"phase": "Running", "containerStatuses": [ended]}).settle()
    assert [(entry["exitCode"], entry["message"]) for entry in told(world.job())] == [(7, "no")]


def test_a_set_tells_the_first_failure_of_its_attempt():
    world = World().add(kinds.JOB_SET, jobset("a:2", failurePolicy={"maxRestarts": 1})).settle()
    world.act("js-a-0:exit/1")
    assert [(entry["attempt"], entry["job"], entry["exitCode"]) for entry in told(world.jobset())] == [(0, "js-a-0", 1)]
    world.act("js-a-1:exit/5")
    assert [(entry["attempt"], entry["job"], entry["exitCode"]) for entry in told(world.jobset())] == [(1, "js-a-1", 5)]


def test_strange_words_under_our_key_are_not_believed():
    assert told({"metadata": {"annotations": {"aboard.dev/failures": "{"}}}) == []
