"""Sets of field paths, in the very form that managedFields stores them.

A set is the FieldsV1 object itself: `{"f:data": {"f:a": {}}}` holds the path `.data.a`. A step is `f:<field>`,
`k:<keys of a list item>`, `v:<member of a set>` or `i:<index>`. A place is a member when it is empty or has the mark
`"."`; otherwise only what stands below it is. The empty object at the top is the empty set. Sets are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

Fields = dict[str, Any]
LEAF: Fields = {}
_DOT: Fields = {}


def is_member(place: Fields) -> bool:
    return not place or "." in place


def marked(place: Fields) -> Fields:
    """The same place, itself a member too."""
    return place if not place or "." in place else {".": _DOT, **place}


def below(place: Fields) -> Fields:
    """What a place contains, without the mark."""
    return {step: child for step, child in place.items() if step != "."} if "." in place else place


def union(left: Fields, right: Fields) -> Fields:
    if not left or not right or left is right:
        return left or right
    out = dict(left)
    for step, place in right.items():
        out[step] = _joined(out[step], place) if step in out else place
    return out


def _joined(left: Fields, right: Fields) -> Fields:
    if left is right:
        return left
    if not left:
        return marked(right)
    return union(left, right) if right else marked(left)


def intersection(left: Fields, right: Fields) -> Fields:
    out: Fields = {}
    for step, place in left.items():
        other = right.get(step)
        if other is not None and (step != "." or place is not None):
            both = _built(intersection(below(place), below(other)), member=is_member(place) and is_member(other))
            if both is not None and step != ".":
                out[step] = both
    return out


def difference(left: Fields, right: Fields) -> Fields:
    """The members of the left set that are no members of the right one; a member does not cover what is below it."""
    if left.keys().isdisjoint(right):
        return left
    out: Fields = {}
    for step, place in left.items():
        other = right.get(step)
        if other is None:
            out[step] = place
        elif step != ".":
            rest = _built(difference(below(place), below(other)), member=is_member(place) and not is_member(other))
            if rest is not None:
                out[step] = rest
    return out


def without_trees(left: Fields, right: Fields) -> Fields:
    """The left set without the members of the right one *and everything below them*."""
    if left.keys().isdisjoint(right):
        return left
    out: Fields = {}
    for step, place in left.items():
        other = right.get(step)
        if other is None:
            out[step] = place
        elif not is_member(other):
            rest = _built(without_trees(below(place), below(other)), member=is_member(place))
            if rest is not None:
                out[step] = rest
    return out


def _built(inside: Fields, *, member: bool) -> Fields | None:
    if inside:
        return {".": _DOT, **inside} if member else inside
    return LEAF if member else None


def is_subset(left: Fields, right: Fields) -> bool:
    """Whether every member of the left set is a member of the right one."""
    for step, place in left.items():
        other = right.get(step)
        if other is None:
            return False
        if place is other or step == ".":
            continue
        if (is_member(place) and not is_member(other)) or not is_subset(below(place), below(other)):
            return False
    return True


def contains(fields: Fields, path: Iterable[str]) -> bool:
    place: Fields | None = fields
    for step in path:
        place = place.get(step) if place else None
        if place is None:
            return False
    return place is not None and is_member(place)


def from_paths(paths: Iterable[Iterable[str]]) -> Fields:
    """A set from plain field names: `from_paths([("metadata", "name"), ("status",)])`."""
    found: Fields = {}
    for path in paths:
        place: Fields = LEAF
        for name in reversed(list(path)):
            place = {f"f:{name}": place}
        found = union(found, place)
    return found


def members(fields: Fields, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every path of the set as Kubernetes orders them: a level's members first, fields before keys before values."""
    steps = sorted((step for step in fields if step != "."), key=_order)
    yield from ((*path, step) for step in steps if is_member(fields[step]))
    for step in steps:
        yield from members(below(fields[step]), (*path, step))


def _order(step: str) -> tuple[int, Any]:
    kind, text = step[0], step[2:]
    if kind == "i":
        return 3, int(text)
    return "fkv".index(kind), text


def spelled(path: Iterable[str]) -> str:
    """A path as conflicts print it: `.spec.containers[name="main"].image`."""
    return "".join(_STEPS[step[0]](step[2:]) for step in path)


def _spelled_keys(text: str) -> str:
    keys: dict[str, Any] = msgspec.json.decode(text)
    return "[" + ",".join(f"{name}={spelled_value(keys[name])}" for name in sorted(keys)) + "]"


def spelled_value(value: Any) -> str:
    """A scalar inside a path: texts quoted, numbers and booleans plain."""
    return msgspec.json.encode(value).decode()


_STEPS: dict[str, Callable[[str], str]] = {
    "f": lambda text: f".{text}",
    "k": _spelled_keys,
    "v": lambda text: f"[={text}]",
    "i": lambda text: f"[{text}]",
}


def is_well_formed(fields: Any) -> bool:
    """Whether a value can be read as a set at all."""
    if not isinstance(fields, dict):
        return False
    return all(step == "." or (_is_step(step) and is_well_formed(f)) for step, f in fields.items())


def _is_step(step: str) -> bool:
    """Whether a step can be read: a field, the keys or the value of an element as JSON, or an index."""
    kind, rest = step[:2], step[2:]
    if kind == "i:":
        return rest.isdecimal()
    if kind not in ("k:", "v:"):
        return kind == "f:"
    try:
        value = msgspec.json.decode(rest)
    except (msgspec.DecodeError, RecursionError):
        return False
    return kind == "v:" or isinstance(value, dict)
