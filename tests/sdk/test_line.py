"""The line as it stands when somebody asks: what is written may be old, the places are not."""

from __future__ import annotations

import pytest

from allaboard.api.documents import dig
from allaboard.sdk.line import in_line


def group(name, queue="q", *, priority=50, created="01", verdict="Waiting", **why):
    told = {"verdict": verdict, "priority": priority, **why}
    metadata = {"name": name, "namespace": "ns", "creationTimestamp": f"2026-01-01T00:00:{created}Z"}
    return {"metadata": metadata, "spec": {"queue": queue}, "status": {"aboard": {"why": told}}}


def places(*groups):
    told = {g["metadata"]["name"]: dig(g, "status", "aboard", "why", default={}) for g in in_line(groups)}
    return {name: (why.get("position"), why.get("overall")) for name, why in told.items()}


LINES = {
    "who stood before has left":
        ((group("b", created="02", position=2, overall=2), group("c", created="03", position=3, overall=3)),
         {"b": (1, 1), "c": (2, 2)}),
    "two that were both told to be first":
        ((group("b", created="02", position=1, overall=1), group("a", created="01", position=1, overall=1)),
         {"a": (1, 1), "b": (2, 2)}),
    "rank before age": ((group("old", overall=1), group("urgent", priority=75, created="09", overall=2)),
         {"urgent": (1, 1), "old": (2, 2)}),
    "queues take turns as the scheduler saw it":
        ((group("a", overall=3), group("b", created="02", overall=4), group("x", "r", overall=1),
          group("y", "r", created="02", overall=9)), {"x": (1, 1), "a": (1, 2), "b": (2, 3), "y": (2, 4)}),
    "who does not wait has no place": ((group("done", verdict="Impossible"), group("a", overall=7)),
         {"done": (None, None), "a": (1, 1)}),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "want"), LINES.values(), ids=LINES)
def test_lines(groups, want):
    assert places(*groups) == want


def test_those_ahead_are_named_and_counted():
    told = in_line([group(name, created=f"0{i}") for i, name in enumerate("abcde", start=1)])[-1]
    why = dig(told, "status", "aboard", "why")
    assert (why["ahead"], why["waiting"], why["waitingOverall"]) == (["b", "c", "d"], 5, 5)


def test_groups_without_words_are_left_as_they_are():
    silent = {"metadata": {"name": "x", "namespace": "ns"}, "spec": {"queue": "q"}}
    assert in_line([silent]) == [silent]
