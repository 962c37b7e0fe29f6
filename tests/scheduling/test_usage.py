"""Past use: it fades, and who used more gets less of the surplus."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.facts import Queue, Share, World
from allaboard.scheduling.policy import DEFAULT, read
from allaboard.scheduling.state import State
from allaboard.scheduling.usage import Ledger
from tests.scheduling.worlds import NOW, gang, node

FULL = (8.0, 8.0, 8.0)


def test_a_queue_that_holds_half_has_used_half():
    ledger = Ledger().after(0.0, {}, FULL, 60.0).after(10.0, {"q": (4.0, 4.0, 4.0)}, FULL, 60.0)
    assert ledger.part("q") == pytest.approx((0.5, 0.5, 0.5))
    assert ledger.part("other") == (0.0, 0.0, 0.0)


def test_old_use_fades_by_half_in_a_half_life():
    busy = Ledger().after(0.0, {}, FULL, 60.0).after(600.0, {"q": FULL}, FULL, 60.0)
    later = busy.after(660.0, {"q": (0.0, 0.0, 0.0)}, FULL, 60.0)
    assert later.part("q")[2] == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 8)), min_size=1, max_size=6))
def test_counting_in_steps_equals_counting_at_once(steps):
    ledger, now, held = Ledger().after(0.0, {}, FULL, 30.0), 0.0, 3.0
    once = ledger.after(sum(seconds for seconds, _ in steps), {"q": (held,) * 3}, FULL, 30.0)
    for seconds, _ in steps:
        now += seconds
        ledger = ledger.after(now, {"q": (held,) * 3}, FULL, 30.0)
    assert ledger.part("q") == pytest.approx(once.part("q"))


def test_who_used_more_gets_less_of_the_surplus():
    queues = (Queue("greedy", gpu=Share(0.0)), Queue("modest", gpu=Share(0.0), created=1.0))
    busy = gang("run", 8, at="a " * 8, queue="greedy")
    policy = replace(DEFAULT, usage_half_life=3600.0)
    state = State.build(World((node("a", 8.0),), queues, (busy,)))
    cycle(state, policy, NOW)
    state.put_gang(gang("more", 8, least=1, queue="modest", created=1.0))
    shares = cycle(state, policy, NOW + 1800).fair_shares
    assert shares["modest"][2] > shares["greedy"][2]


def test_who_waits_is_asked_again_as_shares_move_with_time():
    """After an hour in which one queue held everything, the other may take back what it could not at first."""
    queues = (Queue("greedy", gpu=Share(0.0)), Queue("modest", gpu=Share(0.0, weight=0.1), created=1.0))
    runs = tuple(gang(f"run{number}", at="a", queue="greedy", created=float(number)) for number in range(4))
    waits = gang("waits", 1, queue="modest", created=9.0)
    policy = replace(DEFAULT, usage_half_life=3600.0)
    state = State.build(World((node("a", 4.0),), queues, (*runs, waits)))
    first = cycle(state, policy, NOW)
    assert (first.evictions, first.deadline) == ((), NOW + 60)
    assert len(cycle(state, policy, NOW + 3600).evictions) == 1


def test_the_half_life_is_read_and_other_databases_are_refused():
    spec = {"usageDBConfig": {"usageParams": {"halfLifePeriod": "12h"}}}
    assert read(spec).usage_half_life == 43200.0
    with pytest.raises(ValueError, match=r"only usageParams\.halfLifePeriod is supported"):
        read({"usageDBConfig": {"clientType": "prometheus", "connectionString": "http://prometheus"}})


def test_flags_are_read_or_refused_by_name():
    chosen = read({"args": {"default-staleness-grace-period": "5m", "max-consolidation-preemptees": "4"}})
    assert (chosen.stale_grace, chosen.consolidation_victims) == (300.0, 4)
    with pytest.raises(ValueError, match='flag "qps" is not supported'):
        read({"args": {"qps": "5"}})
