"""In-place restart: pods agree on an attempt, stragglers are sent back, and patience ends."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.jobs.names import IN_PLACE_ATTEMPT

from .world import World, jobset

POLICY = {"maxRestarts": 2, "restartStrategy": "InPlaceRestart"}
CASES = {
    #                                          attempts    restarts   current  previous  failed
    "agents that have not spoken hold it":     ("- -",     0,         None,    None,     False),
    "the first attempt begins together":       ("0 0",     0,         0,       None,     False),
    "half of the pods are not all":            ("0 -",     0,         None,    None,     False),
    "one ahead calls the others":              ("1 0",     0,         None,    0,        False),
    "all again in step go on":                 ("1 1",     0,         1,       None,     False),
    "further ahead calls from further":        ("2 1",     0,         None,    1,        False),
    "the budget is the most":                  ("3 2",     0,         None,    None,     True),
    "a container that cannot start is enough": ("- -",     3,         None,    None,     True),
}  # fmt: skip


def annotate(world, attempts, restarts):
    for index, attempt in enumerate(attempts.split()):
        key = next(k for k in world.kinds[kinds.POD] if k.name.startswith(f"js-a-0-{index}"))
        row = {"name": "main", "restartCount": restarts}

        def change(pod, attempt=attempt, row=row):
            pod["status"]["containerStatuses"] = [row]
            if attempt != "-":
                pod["metadata"]["annotations"][IN_PLACE_ATTEMPT] = attempt

        world.change(kinds.POD, key, change)
    return world.settle()


def running():
    world = World(["InPlaceRestart"]).add(kinds.JOB_SET, jobset("a:1x2", failurePolicy=POLICY)).settle()
    return world.act("js-:run")


@pytest.mark.parametrize(("attempts", "restarts", "current", "previous", "failed"), CASES.values(), ids=CASES)
def test_a_barrier(attempts, restarts, current, previous, failed):
    status = annotate(running(), attempts, restarts).jobset()["status"]
    assert status.get("currentInPlaceRestartAttempt") == current
    assert status.get("previousInPlaceRestartAttempt") == previous
    assert (status.get("terminalState") == "Failed") == failed


def test_what_was_left_behind_is_never_asked_for_again():
    world = annotate(running(), "2 1", 0)
    world = annotate(world, "1 1", 0)
    status = world.jobset()["status"]
    assert (status["previousInPlaceRestartAttempt"], status["currentInPlaceRestartAttempt"]) == (1, 1)
    status = annotate(world, "1 0", 0).jobset()["status"]
    assert status["previousInPlaceRestartAttempt"] == 1


def test_without_its_gate_nobody_looks_at_pods():
    world = World().add(kinds.JOB_SET, jobset("a:1x2", failurePolicy=POLICY)).settle().act("js-:run")
    assert "currentInPlaceRestartAttempt" not in annotate(world, "0 0", 0).jobset()["status"]
    assert world.kinds[kinds.JOB_SET][Key("ns", "js")]["status"]["restarts"] == 0
