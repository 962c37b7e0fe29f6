"""Documents seen through their schema: which fields they hold, how two differ, how one is laid over the other.

The rules are those of structured-merge-diff: atomic places are leaves, maps unite key by key, sets by member, keyed
lists by their keys; an absent value differs from null. Nothing is changed in place, and what is equal stays shared.
"""

from __future__ import annotations

import sys
from collections.abc import Container
from typing import Any, NamedTuple

import msgspec

from allaboard.merge.fields import LEAF, Fields, is_member, marked
from allaboard.schema.nodes import ANY, DEDUCED, LIST, MAP, Node, is_closed

_MOST_STEPS = 4096
_SAFE = frozenset({str, int})
_MARKS = frozenset({str, tuple})
_MAPS = frozenset({MAP, ANY})
_LEAVES: dict[str, type] = {"string": str, "boolean": bool, "integer": int, "number": int}
_ACCEPTED: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int, float}),
    "number": frozenset({int, float}),
    "int-or-string": frozenset({int, float, str, bool}),
}
# Where a struct declares nothing: whatever stands there is leaf by leaf its own.
_NOWHERE = Node({"x-kubernetes-preserve-unknown-fields": True})
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()


class Comparison(NamedTuple):
    """What changed between two documents, as sets."""

    removed: Fields
    modified: Fields
    added: Fields


_NESTED = (dict, list)


def is_same(left: Any, right: Any) -> bool:
    """Equality as JSON means it: 1 and 1.0 are one number, true is no number."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _granular(node: Node, value: Any) -> str:
    """How a value is taken apart here: as a map, as an associative list, or not at all ("")."""
    if isinstance(value, dict):
        return MAP if node.shape in _MAPS and not node.atomic else ""
    if isinstance(value, list):
        return LIST if node.shape == LIST and node.list_type != "atomic" else ""
    return ""


def step_of(node: Node, item: Any) -> str:
    """How an item of an associative list is named in a path."""
    steps = node.merging
    if steps is None:
        steps = node.merging = {}
    mark = item.get(node.keys[0]) if type(item) is dict and len(node.keys) == 1 else _mark(node, item)
    known: str | None = steps.get(mark) if type(mark) in _MARKS else None
    if known is None:
        known = _spelled_step(node, item)
        if type(mark) in _MARKS:
            if len(steps) >= _MOST_STEPS:  # owners' uids come and go: the young ones are asked for
                steps.clear()
            steps[mark] = known
    return known


def _mark(node: Node, item: Any) -> Any:
    """What a step is remembered by; None where only spelling it out tells (true and 1 are one key of a dict)."""
    if node.list_type == "set":
        return item if type(item) is str else None
    if type(item) is not dict:
        return None
    marks = tuple(map(item.get, node.keys))
    return marks if all(type(mark) in _SAFE for mark in marks) else None


def _spelled_step(node: Node, item: Any) -> str:
    if node.list_type == "set":
        return "v:" + msgspec.json.encode(item).decode()
    keys = {}
    for key in sorted(node.keys):
        value = item.get(key, ABSENT) if isinstance(item, dict) else ABSENT
        if value is ABSENT:
            value = node.key_defaults.get(key, ABSENT)
        if value is not ABSENT:
            keys[key] = value
    return "k:" + msgspec.json.encode(keys).decode()


def child_of(node: Node, name: str) -> Node:
    return node.fields.get(name) or node.values or DEDUCED


class Misfit(Exception):
    """A value that its schema does not describe; `conform.complaints` finds the words."""


def field_set(value: Any, node: Node, *, strict: bool = False) -> Fields:
    """The fields a document states, as a set. Strictly: raises `Misfit` where it does not fit its schema."""
    return _held(value, node, strict) or {} if value else {}


def _held(value: Any, node: Node, strict: bool) -> Fields | None:
    """The set at one place; None where it holds nothing that could be owned (an empty associative list)."""
    kind = type(value)
    if kind is dict and node.shape in _MAPS:
        if strict and node.atomic:
            for name, item in value.items():
                _held(item, node.child(name) or _undeclared(strict), strict)
        return LEAF if node.atomic or not value else _held_map(value, node, strict)
    if kind is list and node.shape == LIST:
        if node.list_type != "atomic":
            return _held_list(value, node, strict)
        if strict and node.items.type != "string":
            for item in value:
                _held(item, node.items, strict)
        elif strict and not all(type(item) is str or item is None for item in value):
            raise Misfit
        return LEAF
    if strict and value is not None and not _fits(kind, node):
        raise Misfit
    return LEAF


def _fits(kind: type, node: Node) -> bool:
    if node.shape == ANY:
        return True
    accepted = _ACCEPTED.get(node.type)
    return accepted is not None and kind in accepted


def _undeclared(strict: bool) -> Node:
    if strict:
        raise Misfit
    return DEDUCED


class _Plan(dict[str, tuple[str, type | None, Node, bool]]):
    """What is known of the fields of a struct: step, the type that settles a leaf, node, and whether it is declared."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node

    def __missing__(self, name: str) -> tuple[str, type | None, Node, bool]:
        child = self.node.fields.get(name)
        if child is not None:
            self[name] = found = (sys.intern(f"f:{name}"), _LEAVES.get(child.type), child, True)
            return found
        values = self.node.values
        if values is None:
            return f"f:{name}", None, _NOWHERE, False
        return f"f:{name}", _LEAVES.get(values.type), values, False


def _held_map(value: dict[str, Any], node: Node, strict: bool) -> Fields | None:
    plan = node.merging
    if plan is None:
        plan = node.merging = _Plan(node)
    out: Fields = {}
    for name, item in value.items():
        step, plain, child, declared = plan[name]
        if type(item) is plain or (item is None and child is not _NOWHERE):
            out[step] = LEAF
            continue
        if item and type(item) is dict and child.shape == MAP and not child.atomic:
            held = _held_map(item, child, strict)
        else:
            held = _held(item, child, strict)
        if not declared:
            if child is _NOWHERE and strict:
                raise Misfit
            held = marked(held) if held else LEAF
        if held is not None:
            out[step] = held
    return out or None


def _held_list(value: list[Any], node: Node, strict: bool) -> Fields | None:
    items, is_map = node.items, node.list_type == "map"
    plain = is_map and items.shape == MAP and not items.atomic
    out: Fields = {}
    for item in value:
        if strict and ((type(item) is dict) is not is_map or item is None):
            raise Misfit
        step = step_of(node, item)
        if step in out or step == "k:{}":
            if strict:
                raise Misfit
            # Items that share their keys are owned together, as one leaf.
            out[step] = LEAF
            continue
        held = _held_map(item, items, strict) if plain and item else _held(item, items, strict)
        out[step] = {".": LEAF, **held} if held else LEAF
    return out or None


def compare(old: Any, new: Any, node: Node) -> Comparison:
    """What an update from one document to the other removes, modifies and adds."""
    removed, modified, added = _compared(old, new, node) or _SAME
    return Comparison(removed or {}, modified or {}, added or {})


_Parts = tuple[Fields | None, Fields | None, Fields | None]
_SAME: _Parts = (None, None, None)


def _compared(old: Any, new: Any, node: Node) -> _Parts | None:
    if old is new or is_same(old, new):
        return None
    if old is ABSENT:
        return None, None, _whole(new, node)
    if new is ABSENT:
        return _whole(old, node), None, None
    how = _granular(node, new) or (_granular(node, old) if new is None else "")
    if not how or (not old and not new):
        return None, LEAF, None
    if how == MAP and isinstance(old, dict | None) and isinstance(new, dict | None):
        return _compared_maps(old or {}, new or {}, node)
    if how == LIST and isinstance(old, list | None) and isinstance(new, list | None):
        if not old:
            return None, None, _whole_items(new or [], node)
        return _compared_lists(old, new or [], node)
    return None, LEAF, None


def _whole(value: Any, node: Node) -> Fields:
    """Every place of a value that came or went as a whole, itself included."""
    if not value or not _granular(node, value):
        return LEAF
    if isinstance(value, dict):
        out: Fields = {".": LEAF}
        _add_whole(out, value, node)
        return out
    return {".": LEAF, **_whole_items(value, node)}


def _whole_items(items: list[Any], node: Node) -> Fields:
    """Every place of the items of an associative list."""
    out: Fields = {}
    for item in items:
        step = step_of(node, item)
        out[step] = LEAF if step in out else _whole(item, node.items)
    return out


def _add_whole(out: Fields, value: dict[str, Any], node: Node, known: Container[str] = ()) -> None:
    """Every place of the entries of a map that were not known, put into `out`."""
    plan = node.merging
    if plan is None:
        plan = node.merging = _Plan(node)
    for name, item in value.items():
        if name in known:
            continue
        # Most of a document is scalars: they are told here, without another call.
        if item and type(item) in _NESTED:
            step, _, child, _ = plan[name]
            out[step] = _whole(item, DEDUCED if child is _NOWHERE else child)
        else:
            out[plan[name][0] if name in plan else f"f:{name}"] = LEAF


def _compared_maps(old: dict[str, Any], new: dict[str, Any], node: Node) -> _Parts | None:
    out: tuple[Fields, Fields, Fields] = ({}, {}, {})
    for name, before in old.items():
        after = new.get(name, ABSENT)
        parts = _compared(before, after, child_of(node, name)) if before is not after else None
        if parts:
            _collect(out, f"f:{name}", parts)
    _add_whole(out[2], new, node, old)
    return _filled(out)


def _filled(parts: tuple[Fields, Fields, Fields]) -> _Parts | None:
    """Parts that collected nothing are None: an empty set one level up would be a leaf."""
    removed, modified, added = parts
    return (removed or None, modified or None, added or None) if removed or modified or added else None


def _collect(out: tuple[Fields, Fields, Fields], step: str, parts: _Parts) -> None:
    for whole, part in zip(out, parts):
        if part is not None:
            whole[step] = part


def _compared_lists(old: list[Any], new: list[Any], node: Node) -> _Parts | None:
    before, after = _grouped(old, node), _grouped(new, node)
    out: tuple[Fields, Fields, Fields] = ({}, {}, {})
    for step in (*before, *(step for step in after if step not in before)):
        parts = _compared_items(before.get(step, []), after.get(step, []), node.items)
        if parts:
            _collect(out, step, parts)
    return _filled(out)


def _grouped(items: list[Any], node: Node) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(step_of(node, item), []).append(item)
    return found


def _compared_items(old: list[Any], new: list[Any], node: Node) -> _Parts | None:
    """Items of the same key; several on one side count as one leaf."""
    if len(old) <= 1 and len(new) <= 1:
        return _compared(old[0] if old else ABSENT, new[0] if new else ABSENT, node)
    if len(old) > 1 and len(new) > 1:
        return None if old == new else (None, LEAF, None)
    if len(old) > 1:
        return LEAF, None, _whole(new[0], node) if new else None
    return _whole(old[0], node) if old else None, None, LEAF


def merge(live: Any, config: Any, node: Node) -> Any:
    """The live document with the configuration laid over it; the very same live object where that changes nothing."""
    if config is ABSENT or config is live:
        return live
    if live is ABSENT:
        return config
    if live == config and (node.closed or is_closed(node)):
        return live
    how = _granular(node, live) if config is None else _granular(node, config)
    if how and (live or config):
        if how == MAP and isinstance(live, dict | None):
            return _merged_maps(live or {}, config or {}, node)
        if how == LIST and isinstance(live, list | None):
            return _merged_lists(live or [], config or [], node)
    return live if is_same(live, config) else config


def _merged_maps(live: dict[str, Any], config: dict[str, Any], node: Node) -> dict[str, Any]:
    plan = node.merging
    if plan is None:
        plan = node.merging = _Plan(node)
    out = live
    for name, item in config.items():
        known = live.get(name, ABSENT)
        if known is not ABSENT:
            _, plain, child, _ = plan[name]
            if type(item) is plain and type(known) is plain and item == known:
                continue
            item = merge(known, item, child)
        if item is not known:
            out = dict(live) if out is live else out
            out[name] = item
    return out


def _merged_lists(live: list[Any], config: list[Any], node: Node) -> list[Any]:
    if not live:
        return config
    ours, theirs = [step_of(node, item) for item in live], [step_of(node, item) for item in config]
    if ours == theirs and len(set(ours)) == len(ours):
        out = [merge(known, item, node.items) for known, item in zip(live, config)]
        return live if all(a is b for a, b in zip(out, live)) else out
    # A key that occurs twice in the live list has no item to merge with; the configuration has none twice.
    single: dict[str, Any] = {}
    for step, item in zip(ours, live):
        single[step] = ABSENT if step in single else item
    wanted = dict(zip(theirs, config))
    order = _interleaved(ours, theirs)
    out = [
        live[index] if step not in wanted else merge(single.get(step, ABSENT), wanted[step], node.items)
        for step, index in order
    ]
    return live if len(out) == len(live) and all(a is b for a, b in zip(out, live)) else out


def _interleaved(ours: list[str], theirs: list[str]) -> list[tuple[str, int]]:
    """The merged order: shared items as the configuration has them, live items where they stood between them.

    Upstream: structured-merge-diff, mergingWalker.visitListItems.
    """
    live, config = set(ours), set(theirs)
    shared = iter([step for step in theirs if step in live])
    next_shared = next(shared, None)
    out: list[tuple[str, int]] = []
    taken: set[str] = set()
    left = right = 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours) and right < len(theirs):
            if ours[left] == theirs[right]:
                out.append((ours[left], left))
                taken.add(ours[left])
                left, right, next_shared = left + 1, right + 1, next(shared, None)
                continue
            if ours[left] in config and next_shared is not None and next_shared != ours[left]:
                left += 1
                continue
        if left < len(ours):
            if ours[left] not in config:
                out.append((ours[left], left))
                left += 1
                continue
            if ours[left] in taken:
                left += 1
        if right < len(theirs):
            out.append((theirs[right], -1))
            taken.add(theirs[right])
            if next_shared == theirs[right]:
                next_shared = next(shared, None)
            right += 1
    return out


def remove(value: Any, fields: Fields, node: Node) -> Any:
    """The value without the members of a set; a container left empty becomes null, as upstream leaves it."""
    how = _granular(node, value)
    if not how or not value:
        return None if isinstance(value, dict | list) else value
    return _without_keys(value, fields, node) if how == MAP else _without_items(value, fields, node)


def _without_keys(value: dict[str, Any], fields: Fields, node: Node) -> dict[str, Any] | None:
    out = value
    for name, item in value.items():
        place = fields.get(f"f:{name}")
        if place is None:
            continue
        rest = ABSENT if is_member(place) else remove(item, place, child_of(node, name))
        if rest is not item:
            out = dict(value) if out is value else out
            if rest is ABSENT:
                del out[name]
            else:
                out[name] = rest
    return out or None


def _without_items(value: list[Any], fields: Fields, node: Node) -> list[Any] | None:
    out = []
    for item in value:
        place = fields.get(step_of(node, item))
        if place is None:
            out.append(item)
        elif not is_member(place):
            out.append(remove(item, place, node.items))
    unchanged = len(out) == len(value) and all(a is b for a, b in zip(out, value))
    return value if unchanged else out or None


def with_structs(fields: Fields, node: Node) -> Fields:
    """The set with every struct that holds a member made a member itself, so that an emptied struct goes too."""
    out: Fields = {}
    for step, place in fields.items():
        if not place or step == ".":
            out[step] = place
            continue
        if step[0] == "f":
            declared = node.fields.get(step[2:])
            child = declared or node.values or DEDUCED
        else:
            declared, child = None, node.items if step[0] == "k" and node.shape == LIST else DEDUCED
        inside = with_structs(place, child)
        out[step] = marked(inside) if declared is not None else inside
    return out
