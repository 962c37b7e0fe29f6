"""Completion indexes as the API writes them: `0,2,4-6` is a set of numbers."""

from __future__ import annotations

from collections.abc import Collection


def parse(text: str, completions: int) -> frozenset[int]:
    """The indexes a text names, below the number of completions (a Job that shrank forgets the rest)."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return frozenset(found)


def render(indexes: Collection[int]) -> str:
    """The text of a set: runs of three and more are written with a dash."""
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(indexes), -1]:
        if run and index != run[-1] + 1:
            parts += _run(run)
            run = []
        run.append(index)
    return ",".join(parts)


def _run(run: list[int]) -> list[str]:
    return [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(index) for index in run]


def first_free(taken: Collection[int | None], count: int, completions: int) -> list[int]:
    """The lowest `count` indexes that nobody has taken."""
    free: list[int] = []
    for index in range(completions):
        if len(free) == count:
            break
        if index not in taken:
            free.append(index)
    return free
