"""So many calls a second: a burst at once, then one turn after another."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.kube.pacing import Pace

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("qps", "burst", "delays"),
    [
        (10, 1, [0, 0.1, 0.2, 0.3]),
        (10, 3, [0, 0, 0, 0.1, 0.2]),
        (0, 1, [0, 0, 0]),
        (2, 2, [0, 0, 0.5, 1.0]),
    ],
    ids=["no burst", "a burst of three", "no limit", "slow"],
)
def test_calls_at_once_wait_for_their_turn(qps, burst, delays):
    pace = Pace(qps, burst)
    assert [(pace.turn(START) - START).total_seconds() for _ in delays] == pytest.approx(delays)


def test_a_pause_fills_the_bucket_again_but_no_further():
    pace = Pace(10, 2)
    for _ in range(5):
        pace.turn(START)
    later = START + timedelta(seconds=60)
    assert [(pace.turn(later) - later).total_seconds() for _ in range(3)] == pytest.approx([0, 0, 0.1])
