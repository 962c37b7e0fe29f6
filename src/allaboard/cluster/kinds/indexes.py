"""Index lists as Jobs write them (`1,3-5`): read, checked, counted."""

from __future__ import annotations

TWO_PARTS = "an index interval can have at most two parts separated by '-'"


class Malformed(Exception):
    """A text that is no list of indexes; the message says why, in upstream's words."""


def read_indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """The intervals of a list, in order; Malformed where it is not one below `completions`."""
    if not text:
        return []
    found: list[tuple[int, int]] = []
    last = -1
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if "-" in high:
            raise Malformed(f'the fragment "{part}" violates the requirement that {TWO_PARTS}')
        first = _number(low, completions)
        end = _number(high, completions) if dash else first
        if dash and first >= end:
            raise Malformed(f"non-increasing order, previous: {first}, current: {end}")
        if first <= last:
            raise Malformed(f"non-increasing order, previous: {last}, current: {first}")
        found.append((first, end))
        last = end
    return found


def _number(text: str, completions: int) -> int:
    if not text.isdigit():
        raise Malformed(f'cannot convert string to integer for index: "{text}"')
    value = int(text)
    if value >= completions:
        raise Malformed(f'too large index: "{text}"')
    return value


def count_indexes(text: str, completions: int) -> int:
    return sum(end - first + 1 for first, end in read_indexes(text, completions))


def overlap(one: str, other: str, completions: int) -> int | None:
    """The first index that both lists name."""
    mine = {i for first, end in read_indexes(one, completions) for i in range(first, end + 1)}
    theirs = {i for first, end in read_indexes(other, completions) for i in range(first, end + 1)}
    return min(mine & theirs, default=None)
