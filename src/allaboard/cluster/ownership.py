"""Who owns which field of a document: managedFields kept up to date with every write."""

from __future__ import annotations

from datetime import datetime

from allaboard.api.documents import Document
from allaboard.api.meta import stamp
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.rules import Rules
from allaboard.merge import apply as merging
from allaboard.merge.apply import STATUS, Actor
from allaboard.merge.fields import Fields, from_paths

# The status door of a built-in kind leaves these alone; that of a custom kind leaves all metadata alone.
_BUILT_IN_DOOR = from_paths([("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")])
_CUSTOM_DOOR = from_paths([("spec",), ("metadata",)])
_NOTHING: Fields = {}


def track(place: Place, new: Document, old: Document | None, ask: Ask, now: datetime) -> Document:
    """The document after a write other than apply: the manager owns what it changed."""
    return merging.track(old, new, place.rules.structure, actor_of(place, ask, now))


def applied(place: Place, config: Document, live: Document | None, ask: Ask, now: datetime) -> Document:
    """The document after an apply of a configuration."""
    actor = actor_of(place, ask, now)
    return merging.apply(live, config, place.rules.structure, actor, force=ask.force)


def track_as(place: Place, new: Document, old: Document, ask: Ask) -> Document:
    """The document after a write through a door that shows something else, as `scale` does; the entry has no time."""
    actor = Actor(ask.manager, place.rules.kind.api_version, "", place.subresource)
    return merging.track(old, new, place.rules.structure, actor)


def actor_of(place: Place, ask: Ask, now: datetime) -> Actor:
    rules = place.rules
    return Actor(ask.manager, rules.kind.api_version, stamp(now), place.subresource, ignored(place), rules.versions)


def ignored(place: Place) -> Fields:
    """The fields that a write to this door does not touch, whatever it says about them."""
    if place.subresource == "status":
        return _CUSTOM_DOOR if place.rules.custom else _BUILT_IN_DOOR
    return STATUS if has_status(place.rules) and not place.subresource else _NOTHING


def has_status(rules: Rules) -> bool:
    return "status" in rules.subresources
