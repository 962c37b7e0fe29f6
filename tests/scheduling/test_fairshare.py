"""Fair share: worked examples, the plain-Python reading as a twin, and what must always hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.scheduling.fairshare import Siblings, divide

EXAMPLES = {
    # total; then per queue: priority, quota, limit, weight, request, usage; then the shares
    "surplus goes by weight":
        (10, (100, 100, 100), (4, 2, 0), (-1, 3, -1), (1, 1, 2), (6, 5, 9), (0, 0, 0), (5, 3, 2)),
    "a higher priority is served first":
        (10, (100, 100, 200), (4, 2, 0), (-1, 3, -1), (1, 1, 2), (6, 5, 9), (0, 0, 0), (4, 2, 4)),
    "history weighs":
        (10, (100, 100, 100), (4, 2, 0), (-1, 3, -1), (1, 1, 2), (6, 5, 9), (0.5, 0, 0.1), (4, 3, 3)),
    "nobody gets more than they ask": (10, (100, 100), (5, 5), (-1, -1), (1, 1), (1, 9), (0, 0), (1, 9)),
    "no weight, no surplus": (10, (100, 100), (2, 0), (-1, -1), (0, 1), (9, 3), (0, 0), (2, 3)),
    "quotas may exceed the cluster": (4, (100, 100), (4, 4), (-1, -1), (1, 1), (4, 4), (0, 0), (4, 4)),
    "a limit of zero is nothing": (4, (100,), (2,), (0,), (1,), (4,), (0,), (0,)),
}  # fmt: skip


def siblings(*columns):
    return Siblings(*([float(number) for number in column] for column in columns))


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_examples(example):
    total, *columns, want = example
    assert divide(total, siblings(*columns)) == list(want)


def plain(total, rows, k):
    """The rule word by word, one queue at a time. Rows: priority, quota, limit, weight, request, usage."""
    most = [row[4] if row[2] == -1 else min(row[2], row[4]) for row in rows]
    share = [min(total if row[1] == -1 else row[1], cap) for row, cap in zip(rows, most)]
    left = total - math.fsum(share)
    if left <= 0:
        return share
    rest = {}
    for priority in sorted({row[0] for row in rows}, reverse=True):
        group = [i for i, row in enumerate(rows) if row[0] == priority]
        again = True
        while again and left > 0:
            again, start = False, left
            hungry = [i for i in group if rows[i][4] > share[i] and (rows[i][2] == -1 or rows[i][2] > share[i])]
            weights = sum(rows[i][3] for i in group if most[i] > share[i])
            if not weights:
                break
            parts = {i: max(0, rows[i][3] / weights + k * (rows[i][3] / weights - rows[i][5])) for i in hungry}
            if not sum(parts.values()):
                break
            for i in hungry:
                offer, missing = start * (parts[i] / sum(parts.values())), most[i] - share[i]
                if not rows[i][3]:
                    continue
                given_now = missing if missing <= offer else math.floor(offer)
                rest.pop(i, None)
                if missing > offer and offer > given_now:
                    rest[i] = offer - given_now
                share[i] += given_now
                left -= given_now
                again = again or (given_now > 0 and missing < offer)
    for i in sorted(rest, key=lambda i: (-rows[i][0], -rest[i], i)):
        if left > 0:
            share[i] += min(1, left)
            left -= min(1, left)
    return share


amounts = st.integers(0, 20)
queue_rows = st.lists(
    st.tuples(
        st.sampled_from([100, 200]), st.one_of(st.just(-1), amounts), st.one_of(st.just(-1), amounts),
        st.integers(0, 3),
        amounts, st.sampled_from([0.0, 0.25]),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@given(st.integers(0, 40), queue_rows, st.sampled_from([0.0, 1.0]))
@settings(max_examples=150, deadline=None)
def test_lists_agree_with_the_plain_reading(total, rows, k):
    ours = divide(float(total), siblings(*zip(*rows)), k)
    assert ours == pytest.approx(plain(float(total), rows, k), abs=1e-6)


@given(st.integers(0, 40), queue_rows, st.integers(1, 10))
@settings(max_examples=150, deadline=None)
def test_a_share_never_falls_when_only_the_own_request_grows(total, rows, more):
    before = divide(float(total), siblings(*zip(*rows)))
    grown = [(*row[:4], row[4] + more, row[5]) if i == 0 else row for i, row in enumerate(rows)]
    assert divide(float(total), siblings(*zip(*grown)))[0] >= before[0] - 1e-9
