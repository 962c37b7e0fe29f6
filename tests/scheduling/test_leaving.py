"""Who has to go: reclaim, preempt, consolidation, stale gangs, protection, reservation, what-if and replay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from allaboard.scheduling import policy, replay
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Queue, Share, Status, World
from allaboard.scheduling.policy import DEFAULT
from allaboard.scheduling.selfcheck import differences
from allaboard.scheduling.state import State
from allaboard.scheduling.whatif import what_if
from tests.scheduling.chance import clusters
from tests.scheduling.worlds import NOW, decide, gang, node, only, world

TWO = (Queue("q", gpu=Share(2.0)), Queue("r", gpu=Share(2.0), created=1.0))


def evicted(decisions):
    return sorted(eviction.task for eviction in decisions.evictions)


def test_a_queue_takes_back_what_is_its_own():
    gangs = (*(gang(f"run{i}", at="a", queue="r", created=float(i)) for i in range(4)), gang("x", 2, created=9.0))
    decisions = decide(World((node("a", 4.0),), TWO, gangs))
    assert evicted(decisions) == ["run2-0", "run3-0"]
    assert {promise.gang for promise in decisions.pipelined} == {"x"}
    assert decisions.evictions[0].message == 'evicted to return resources to the queue of "x"'


def test_a_queue_within_its_share_keeps_its_work():
    gangs = (gang("mine", 2, at="a a"), gang("theirs", 2, at="a a", queue="r"), gang("x", created=9.0))
    assert not decide(World((node("a", 4.0),), TWO, gangs)).evictions


def test_higher_priority_preempts_in_its_own_queue():
    queues = (Queue("q", gpu=Share(9.0)),)
    gangs = (gang("low", 2, at="a a"), gang("high", 2, priority=75, created=1.0))
    decisions = decide(World((node("a", 2.0),), queues, gangs))
    assert evicted(decisions) == ["low-0", "low-1"]
    assert decisions.evictions[0].action == "preempt"


def test_an_elastic_gang_shrinks_before_it_dies():
    queues = (Queue("q", gpu=Share(9.0)),)
    gangs = (gang("low", 3, least=1, at="a a a"), gang("high", 1, priority=75, created=1.0))
    assert len(evicted(decide(World((node("a", 3.0),), queues, gangs)))) == 1


GROWING = {
    "a gang at its minimum stays; KAI breaks it": (gang("low", 2, at="a a"), [], ["low-0", "low-1"]),
    "what another has beyond its minimum is taken": (gang("low", 2, least=1, at="a a"), ["low-1"], ["low-1"]),
}


@pytest.mark.parametrize(("low", "want", "kai"), GROWING.values(), ids=GROWING)
def test_a_gang_that_has_its_minimum_grows_without_breaking_another(low, want, kai):
    high = gang("high", 3, least=2, at="a a", priority=75, created=1.0)
    facts = replace(world("a:4"), gangs=(low, high))
    assert evicted(decide(facts)) == want
    assert evicted(decide(facts, policy.KAI)) == kai


def test_work_moves_together_to_make_room():
    gangs = (gang("one", at="a"), gang("two", at="b", created=1.0), gang("x", 1, 2.0, created=2.0))
    decisions = decide(
        World((node("a", 2.0), node("b", 2.0)), (Queue("q", gpu=Share(9.0)),), gangs), only("allocate", "consolidation")
    )
    assert len(decisions.evictions) == 1 and decisions.evictions[0].action == "consolidation"
    assert {promise.gang for promise in decisions.pipelined} >= {"x"}


def test_a_gang_below_its_minimum_goes_after_its_grace():
    half = gang("x", 2, at="a a")
    half = replace(half, tasks=(half.tasks[0], replace(half.tasks[1], status=Status.FAILED, node="")))
    state = State.build(replace(world("a:2"), gangs=(half,)))
    first = cycle(state, DEFAULT, NOW)
    assert (first.evictions, first.stale, first.deadline) == ((), {"x": NOW}, NOW + 60)
    later = cycle(state, DEFAULT, NOW + 60)
    assert evicted(later) == ["x-0"]


@pytest.mark.parametrize(("grace", "want"), [(0.0, ["x-0"]), (-1.0, []), (None, [])])
def test_a_gang_may_have_a_grace_of_its_own(grace, want):
    half = gang("x", 2, at="a a", stale_grace=grace)
    half = replace(half, tasks=(half.tasks[0], replace(half.tasks[1], status=Status.FAILED, node="")))
    assert evicted(decide(replace(world("a:2"), gangs=(half,)))) == want


def test_a_whole_gang_clears_its_clock():
    state = State.build(replace(world("a:2"), gangs=(gang("x", 1, at="a", stale_since=NOW - 5),)))
    assert cycle(state, DEFAULT, NOW).stale == {"x": None}


def protected(last_start: float, **queue: object) -> World:
    queues = (Queue("q", gpu=Share(9.0), **queue),)  # type: ignore[arg-type]
    gangs = (gang("low", 2, at="a a", last_start=last_start), gang("high", 2, priority=75, created=1.0))
    return World((node("a", 2.0),), queues, gangs)


def test_work_that_has_just_started_is_left_alone():
    decisions = decide(protected(NOW - 10, preempt_min_runtime=30.0))
    assert not decisions.evictions
    assert decisions.deadline == NOW + 20
    assert evicted(decide(protected(NOW - 40, preempt_min_runtime=30.0))) == ["low-0", "low-1"]


def test_who_waits_for_protection_to_end_is_asked_again_at_that_moment():
    """Also when cycles in between, about something else, had no need to ask it."""
    state = State.build(protected(NOW - 10, preempt_min_runtime=30.0))
    assert cycle(state, DEFAULT, NOW).deadline == NOW + 20
    state.put_gang(gang("other", 9, created=5.0))
    between = cycle(state, DEFAULT, NOW + 10)
    assert (between.evictions, between.deadline) == ((), NOW + 20)
    assert evicted(cycle(state, DEFAULT, NOW + 20)) == ["low-0", "low-1"]


def test_a_protected_elastic_gang_may_shrink_to_its_minimum():
    facts = protected(NOW - 10, preempt_min_runtime=30.0)
    elastic = (gang("low", 2, least=1, at="a a", last_start=NOW - 10), gang("high", 1, priority=75, created=1.0))
    assert len(decide(replace(facts, gangs=elastic)).evictions) == 1
    both = (elastic[0], gang("high", 2, priority=75, created=1.0))
    assert not decide(replace(facts, gangs=both)).evictions


# --- reservation and backfill ---


def starving(**small: object) -> World:
    """A large gang that has waited long behind running work, and a small one that came later."""
    long_ago = NOW - 1000
    gangs = (
        gang("run", 2, at="a a", priority=100, preemptible=False, last_start=NOW - 10, max_runtime=100.0),
        gang("large", 4, created=long_ago),
        gang("small", 1, created=NOW - 1, **small),
    )
    return World((node("a", 4.0),), (Queue("q", gpu=Share(9.0)),), gangs)


def test_nodes_are_kept_for_a_large_gang_that_waited_long():
    decisions = decide(starving())
    assert not decisions.binds
    assert decisions.reasons["large"].estimate == NOW + 90


def test_nodes_stay_kept_when_somebody_new_comes():
    facts = starving()
    state = State.build(replace(facts, gangs=facts.gangs[:2]))
    assert not cycle(state, DEFAULT, NOW).binds
    for number in range(3):
        state.put_gang(replace(gang(f"new{number}"), created=NOW))
        decisions = cycle(state, DEFAULT, NOW + number)
        assert not decisions.binds and decisions.reasons[f"new{number}"].code == "BehindOrder"


def test_nodes_are_kept_from_the_moment_a_gang_has_waited_long_enough():
    facts = starving()
    state = State.build(replace(facts, gangs=(facts.gangs[0], replace(facts.gangs[1], created=NOW - 10))))
    assert cycle(state, DEFAULT, NOW).deadline == NOW + 290
    cycle(state, DEFAULT, NOW + 290)
    state.put_gang(facts.gangs[2])
    assert not cycle(state, DEFAULT, NOW + 291).binds


def test_short_work_runs_in_the_gap():
    assert [bind.gang for bind in decide(starving(max_runtime=60.0)).binds] == ["small"]
    assert not decide(starving(max_runtime=600.0)).binds


def test_nothing_is_kept_before_its_time():
    facts = starving()
    young = replace(facts.gangs[1], created=NOW - 10)
    decisions = decide(replace(facts, gangs=(facts.gangs[0], young, facts.gangs[2])))
    assert [bind.gang for bind in decisions.binds] == ["small"]
    assert decisions.deadline == NOW + 290


def test_who_is_moved_takes_no_more_of_kept_nodes_than_he_left():
    """`small` would fit on b if all of `pair` stood on a, where one of it stands already; but a is kept for `large`."""
    stays = {"priority": 100, "preemptible": False}
    waiting = (gang("large", 1, 4.0, created=1.0), gang("small", 1, 3.0, created=2.0))
    gangs = (gang("one", at="a", **stays), gang("two", at="b", **stays), gang("pair", 2, at="a b"), *waiting)
    assert not decide(World((node("a", 4.0), node("b", 4.0)), (Queue("q", gpu=Share(9.0)),), gangs)).evictions


def test_the_search_gives_up_and_says_so():
    gangs = (*(gang(f"run{i}", at="a", queue="r", created=float(i)) for i in range(4)), gang("x", 2, created=9.0))
    facts = World((node("a", 4.0),), TWO, gangs)
    decisions = decide(facts, replace(DEFAULT, effort_per_gang=1))
    assert not decisions.evictions
    assert "gave up looking for victims after 1 trials" in decisions.reasons["x"].message


def test_the_fewest_tasks_are_disturbed_when_that_is_asked_for():
    small = tuple(gang(f"small{i}", at="a", queue="r", created=10.0 + i) for i in range(4))
    facts = World(
        (node("a", 4.0), node("b", 4.0)),
        (Queue("q", gpu=Share(4.0, weight=0.0)), Queue("r", gpu=Share(0.0), created=1.0)),
        (*small, gang("large", 1, 4.0, at="b", queue="r"), gang("x", 1, 4.0, created=99.0)),
    )
    assert len(evicted(decide(facts))) == 4
    assert evicted(decide(facts, policy.read({"fewestVictims": True}))) == ["large-0"]


@pytest.mark.parametrize("count", [1, 2])
def test_nobody_leaves_for_a_pod_that_could_not_start_anyway(count):
    wants = gang("x", count, priority=75, created=9.0)
    broken = replace(wants.tasks[-1], demand=replace(wants.tasks[-1].demand, obstacle='configmap "c" not found'))
    wants = replace(wants, tasks=(*wants.tasks[:-1], broken))
    gangs = (*(gang(f"run{i}", at="a", queue="r", created=float(i)) for i in range(3)), gang("low", at="a"), wants)
    decisions = decide(World((node("a", 4.0),), TWO, gangs))
    assert not decisions.evictions and not decisions.pipelined
    assert decisions.reasons["x"].code == "SecretMissing"


NEITHER = {"plugins": {name: {"enabled": False} for name in policy.GENERATORS}}


@pytest.mark.parametrize("only", policy.GENERATORS)
def test_either_way_to_look_for_victims_will_do_here(only):
    others = {"plugins": {name: {"enabled": False} for name in policy.GENERATORS if name != only}}
    gangs = (*(gang(f"run{i}", at="a", queue="r", created=float(i)) for i in range(4)), gang("x", created=9.0))
    facts = World((node("a", 4.0),), TWO, gangs)
    assert evicted(decide(facts, policy.read(others))) == evicted(decide(facts)) == ["run3-0"]
    assert evicted(decide(facts, policy.read(NEITHER))) == []


@pytest.mark.parametrize(("multiplier", "want"), [("1", ["run5-0"]), ("2", [])])
def test_how_much_better_off_a_queue_stays_that_is_reclaimed_from(multiplier, want):
    """The parent would use 3 of its share 2, the other queue still 5 of 2: better off, but not twice as much."""
    queues = (
        Queue("p", gpu=Share(2.0, weight=0.0)),
        Queue("q", "p", gpu=Share(4.0, weight=0.0)),
        Queue("r", gpu=Share(2.0, weight=0.0), created=1.0),
    )
    theirs = (gang(f"run{i}", at="a", queue="r", created=float(i)) for i in range(6))
    gangs = (*theirs, gang("mine", 2, at="a a"), gang("x", created=9.0))
    spec = {"plugins": {"proportion": {"arguments": {"relcaimerSaturationMultiplier": multiplier}}}}
    assert evicted(decide(World((node("a", 8.0),), queues, gangs), policy.read(spec))) == want


# --- what if ---


def test_what_if_it_fits():
    state = State.build(world("a:2"))
    assert what_if(state, DEFAULT, gang("new", 2), NOW).places == (("new-0", "a"), ("new-1", "a"))


def test_what_if_somebody_must_go():
    gangs = tuple(gang(f"run{i}", at="a", queue="r", created=float(i)) for i in range(4))
    state = State.build(World((node("a", 4.0),), TWO, gangs))
    answer = what_if(state, DEFAULT, gang("new", 2), NOW)
    assert (answer.action, answer.evicted) == ("reclaim", ("run2-0", "run3-0"))
    assert len(answer.places) == 2


def test_what_if_it_never_could():
    answer = what_if(State.build(world("a:2")), DEFAULT, gang("new", 3), NOW)
    assert answer.reason is not None and answer.reason.code == "NeverFits"


def test_what_if_others_hold_what_is_not_ours_to_claim():
    """The same words, holders and moment as if it were submitted."""
    mine, theirs = gang("mine", 4, at="a a a a"), gang("theirs", 4, at="b b b b", queue="r")
    theirs = replace(theirs, max_runtime=600.0, last_start=NOW)
    state = State.build(World((node("a", 4.0), node("b", 4.0)), TWO, (mine, theirs)))
    reason = what_if(state, DEFAULT, gang("new", 2), NOW).reason
    assert reason is not None and reason.code == "FairShare"
    assert [holder.gang for holder in reason.held_by] == ["mine", "theirs"]
    assert reason.estimate == NOW + 600.0


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_a_question_changes_nothing(facts):
    state = State.build(facts)
    plain = State.build(facts)
    what_if(state, DEFAULT, gang("new", 2, queue="q0"), NOW)
    assert differences(state) == []
    assert replay.told(cycle(state, DEFAULT, NOW)) == replay.told(cycle(plain, DEFAULT, NOW))


# --- replay ---


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_a_saved_cycle_runs_again_byte_for_byte(facts):
    state = State.build(facts)
    saved = replay.save(state, NOW, {})
    decisions = cycle(state, policy.read({}), NOW)
    again = replay.load(saved)
    assert replay.told(replay.run(again)) == replay.told(decisions)
    assert replay.save(State.build(again.world), again.now, again.policy) == saved


def test_another_format_is_refused():
    saved = b'{"format": 7, "world": "of another shape"}'
    with pytest.raises(ValueError, match="format 7 is not supported"):
        replay.load(saved)
