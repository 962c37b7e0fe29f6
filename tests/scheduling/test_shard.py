"""The SchedulingShard: operators choose the policy in the cluster, what makes no sense is said, a check is answered."""

import pytest

from allaboard.api import kinds, labels
from allaboard.scheduling import replay
from allaboard.scheduling.admission import Shards
from allaboard.scheduling.loop import CYCLE, Scheduler
from allaboard.testing.clock import FakeClock

from .builders import OURS, World, finished, node, thing
from .test_admission import Asked, Seen
from .test_loop import cycle, gang, placed


def shard(name="default", said=None, **spec):
    return thing("kai.scheduler/v1", "SchedulingShard", name, spec, annotations=said or {})


def begun(*documents):
    scheduler = Scheduler(None, FakeClock(), OURS)
    around = World(scheduler)
    scheduler.reader = around
    around.defaults()
    for kind, document in documents:
        around.put(kind, document)
    return scheduler, around


def put(around, **spec):
    around.put(kinds.SCHEDULING_SHARD, shard(**spec))


def words(plan):
    return [(event.reason, event.type) for event in plan.events if event.regarding["kind"] == "SchedulingShard"]


def test_without_a_shard_our_own_policy_holds():
    scheduler, _ = begun()
    assert (scheduler.policy.name, scheduler.snapshot.shard.spec) == ("default", {"policy": "default"})


def test_a_shard_chooses_the_policy_and_what_is_refused_under_one_is_asked_again_under_the_other():
    off = {"allocate": {"enabled": False}}
    scheduler, around = begun((kinds.NODE, node("n")), (kinds.SCHEDULING_SHARD, shard(actions=off)), *gang("a", 1, "1"))
    assert not cycle(scheduler).together
    put(around)
    assert scheduler.snapshot.moved
    assert placed(cycle(scheduler)) == [["a-0"]]


def test_our_own_settings_are_annotations():
    scheduler, around = begun()
    put(around, said={labels.POLICY: "kai", labels.FEWEST_VICTIMS: "true"}, placementStrategy={"gpu": "spread"})
    policy = scheduler.policy
    assert (policy.name, policy.exact, policy.fewest_victims) == ("kai", True, True)
    assert "consolidation" not in policy.actions


def test_a_shard_that_goes_leaves_what_held_before_it():
    scheduler, around = begun((kinds.SCHEDULING_SHARD, shard(said={labels.POLICY: "kai"})))
    around.drop(kinds.SCHEDULING_SHARD, shard())
    assert scheduler.policy.name == "default"


def test_shards_of_other_names_are_nobodys():
    scheduler, around = begun()
    put(around, name="gpu-pool", said={labels.POLICY: "kai"})
    assert scheduler.policy.name == "default" and not scheduler.snapshot.shard.moved


def test_unknown_names_stop_the_start():
    bad = shard(plugins={"gpupakc": {}})
    scheduler, around = begun((kinds.NODE, node("n")), (kinds.SCHEDULING_SHARD, bad), *gang("a", 1, "1"))
    plan = cycle(scheduler)
    assert not plan.together and words(plan) == [("PolicyRefused", "Warning")]
    assert 'did you mean "gpupack"?' in plan.events[0].message
    assert not cycle(scheduler).events  # said once
    put(around)
    assert placed(cycle(scheduler)) == [["a-0"]]


def test_a_bad_edit_later_leaves_the_policy_as_it_was():
    scheduler, around = begun((kinds.NODE, node("n")), (kinds.SCHEDULING_SHARD, shard(said={labels.POLICY: "kai"})))
    cycle(scheduler)
    put(around, actions={"alocate": {}})
    for kind, document in gang("a", 1, "1"):
        around.put(kind, document)
    plan = cycle(scheduler)
    assert words(plan) == [("PolicyRefused", "Warning")] and placed(plan) == [["a-0"]]
    assert scheduler.policy.name == "kai"


def test_a_check_is_made_once_for_each_time_it_is_asked_for():
    scheduler, around = begun((kinds.NODE, node("n")), *gang("a", 2, "1"))
    put(around, said={labels.CHECK: "1"})
    assert words(cycle(scheduler)) == [("StateSound", "Normal")]
    assert words(cycle(scheduler)) == []
    put(around, said={labels.CHECK: "2"})
    assert words(cycle(scheduler)) == [("StateSound", "Normal")]


def test_a_state_that_drifted_is_told_and_replaced():
    scheduler, around = begun((kinds.NODE, node("n")), *gang("a", 2, "1"))
    cycle(scheduler)
    scheduler.snapshot.state.nodes.idle[0, 0] -= 500.0
    put(around, said={labels.CHECK: "1"})
    plan = cycle(scheduler)
    assert words(plan) == [("StateDrifted", "Warning")]
    (note,) = (event.message for event in plan.events if event.reason == "StateDrifted")
    assert "in 1 places and was replaced: node n: idle cpu is" in note
    cycle(scheduler)
    assert scheduler.snapshot.drift() == []


def test_a_saved_cycle_names_the_policy_in_force():
    scheduler, _ = begun((kinds.NODE, node("n")), (kinds.SCHEDULING_SHARD, shard(said={labels.POLICY: "kai"})))
    finished(scheduler.reconcile(CYCLE))
    saved = replay.load(replay.save(scheduler.snapshot.state, 0.0, scheduler.snapshot.shard.spec))
    assert saved.policy == {"policy": "kai"}


REFUSED = {
    "a misspelt plugin": (shard(plugins={"gpupakc": {}}), 'unknown plugin "gpupakc"; did you mean "gpupack"?'),
    "a misspelt action": (shard(actions={"alocate": {}}), 'unknown action "alocate"; did you mean "allocate"?'),
    "an unknown policy": (shard(said={labels.POLICY: "mine"}), 'unknown policy "mine"; known: default, kai'),
    "a part of the nodes": (shard(partitionLabelValue="a"), "partitionLabelValue is not supported"),
    "another name": (shard("pool-a"), 'one scheduler serves all nodes here and reads the shard "default"'),
}


@pytest.mark.parametrize(("document", "message"), REFUSED.values(), ids=REFUSED)
def test_a_shard_the_scheduler_would_not_follow_is_refused_when_it_is_written(document, message):
    verdict = Shards().validate(Asked(kinds.SCHEDULING_SHARD, document), Seen())
    assert message in str(verdict.refusal)


def test_a_shard_that_makes_sense_is_stored():
    document = shard(placementStrategy={"gpu": "spread"}, goMemLimit="1Gi", kValue=0.5)
    assert Shards().validate(Asked(kinds.SCHEDULING_SHARD, document), Seen()).refusal is None
