"""Ownership after a schema changed: what became one piece is owned as one. Upstream: structured-merge-diff."""

from __future__ import annotations

from msgspec.structs import replace

from allaboard.api.twins import made_once
from allaboard.merge.fields import LEAF, Fields
from allaboard.merge.managers import Owners
from allaboard.schema.nodes import Node


def reconciled(owners: Owners, node: Node) -> Owners:
    """The owners as the schema divides documents now; the schemas of built-in kinds do not change."""
    if node.builtin:
        return owners
    changed = {key: _divided(owner.fields, node) for key, owner in owners.items()}
    if all(changed[key] is owner.fields for key, owner in owners.items()):
        return owners
    return {key: replace(owner, fields=changed[key]) for key, owner in owners.items()}


def _whole(fields: Fields, node: Node) -> Fields:
    """The set with every place that is atomic now as a member, and nothing below it; itself where nothing changes."""
    out = fields
    for step, place in fields.items():
        child = _child(node, step) if place else None
        if child is None:
            continue
        whole = LEAF if child.atomic else _whole(place, child)
        if whole is not place:
            out = dict(out) if out is fields else out
            out[step] = whole
    return out


# A document is written a few times in its youth; its owners are still the very sets that were looked through then.
_divided = made_once(_whole, most=1024)


def _child(node: Node, step: str) -> Node | None:
    if step.startswith("f:"):
        return node.child(step[2:])
    return node.items if step.startswith(("k:", "i:")) else None
