"""Delete: ask an object to go; finalizers and a grace period may hold it for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from allaboard.api.documents import Document, Key
from allaboard.api.errors import Conflict
from allaboard.api.kinds import CRD, NAMESPACE
from allaboard.api.meta import is_leaving, moment_of, stamp
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.definitions import ending
from allaboard.cluster.draft import request_for
from allaboard.cluster.plane import Cluster
from allaboard.cluster.registry import table_of
from allaboard.cluster.rules import Rules, at_once
from allaboard.cluster.store import Happening, Item, encode
from allaboard.cluster.update import held
from allaboard.cluster.versions import ready, served, shown, stored

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class Wish:
    """How to delete: what dependents shall do, how long to wait, and which object exactly is meant."""

    propagation: str = ""  # Background, Foreground, Orphan; "" is the kind's own way
    grace: int | None = None
    uid: str = ""
    revision: str = ""
    options: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a deletion led to: the object as it is or last was, and whether it is gone."""

    item: Item
    gone: bool


async def delete(cluster: Cluster, place: Place, wish: Wish, ask: Ask) -> Outcome:
    """Ask one object to go."""
    before, changes = await begin_delete(cluster, place, wish, ask)
    last = changes[-1] if changes else None
    if not ask.dry_run:
        await cluster.store.commit(*changes)
    gone, item = last is not None and last.type == "DELETED", last.item if last else before
    await ready(place.rules, (item,), cluster.store)
    return Outcome(served(place.rules, item, cluster.store), gone)


async def begin_delete(cluster: Cluster, place: Place, wish: Wish, ask: Ask) -> tuple[Item, Sequence[Happening]]:
    """The object as it is and what its deletion changes; that is not committed yet, which the caller does at once."""
    before = cluster.latest(place)
    if before is None:
        raise refusals.not_found(place.rules.kind, place.key.name)
    old = cluster.store.document(before)
    check(place, wish, old)
    await ready(place.rules, (before,), cluster.store)
    await cluster.chain.deleting(request_for(place, ask, None, shown(place.rules, old)))
    if place.rules.orphan_warning and not wish.propagation and "orphanDependents" not in wish.options:
        ask.warnings.append(place.rules.orphan_warning)
    latest = cluster.latest(place)
    if latest is not before:  # a webhook took its time: what it agreed to is no longer there
        return await begin_delete(cluster, place, wish, ask)
    return before, steps(cluster, place, before, wish, ask)


def check(place: Place, wish: Wish, old: Document) -> None:
    """Refuse a deletion that was meant for another object or revision."""
    metadata = old["metadata"]
    if wish.uid and wish.uid != metadata["uid"]:
        why = f"the UID in the precondition ({wish.uid}) does not match the UID in record ({metadata['uid']}). "
        raise _precondition(place, why)
    if wish.revision and wish.revision != metadata["resourceVersion"]:
        why = f"the ResourceVersion in the precondition ({wish.revision}) does not match the ResourceVersion in record "
        raise _precondition(place, f"{why}({metadata['resourceVersion']}). ")


def _precondition(place: Place, why: str) -> Conflict:
    """Upstream names the kind here, not the resource."""
    again = "been deleted and then recreated" if "UID" in why else "been modified"
    kind = place.rules.kind
    details = {"name": place.key.name} | ({"group": kind.group} if kind.group else {}) | {"kind": kind.kind}
    what = f'Operation cannot be fulfilled on {refusals.title(kind)} "{place.key.name}"'
    return Conflict(f"{what}: {why}The object might have {again}", details=details)


def steps(cluster: Cluster, place: Place, before: Item, wish: Wish, ask: Ask) -> tuple[Happening, ...]:
    """The changes a deletion makes: mark, remove, or mark and remove."""
    rules, old = place.rules, cluster.store.document(before)
    marked = mark(rules, old, wish, cluster.world.now())
    stays = held(marked)
    waits = (marked["metadata"].get("deletionGracePeriodSeconds") or 0) > 0
    table = table_of(rules)
    if ask.dry_run:
        return _rehearsed(marked, before, gone=not stays and not waits, table=table)
    if stays or waits:
        return (cluster.store.put(table, stored(rules, marked), before),) if marked != old else ()
    if graceful(rules) and marked != old:
        # Upstream: a graceful kind is always marked first, also when nothing is left to wait for.
        first = cluster.store.put(table, stored(rules, marked), before)
        return first, cluster.store.remove(table, first.item)
    return (cluster.store.remove(table, before),)


def _rehearsed(marked: Document, before: Item, *, gone: bool, table: str) -> tuple[Happening, ...]:
    item = Item(before.key, before.revision, encode(marked), marked)
    return (Happening("DELETED" if gone else "MODIFIED", table, item, before),)


def mark(rules: Rules, old: Document, wish: Wish, now: datetime) -> Document:
    """The document as a deletion leaves it: when it must be gone, and what still holds it."""
    metadata = dict(old["metadata"])
    finalizers = holding(rules, metadata.get("finalizers") or [], wish)
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    if not is_leaving(old):
        grace = rules.grace(old, wish.grace) if graceful(rules) else 0
        metadata["deletionTimestamp"] = stamp(now + timedelta(seconds=grace))
        if rules.kind == NAMESPACE:
            return {**old, "metadata": metadata, "status": {**(old.get("status") or {}), "phase": "Terminating"}}
        if rules.kind == CRD:
            return ending({**old, "metadata": metadata}, now)
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif wish.grace is not None and graceful(rules):
        _hurry(metadata, max(0, rules.grace(old, wish.grace)))
    return {**old, "metadata": metadata}


def _hurry(metadata: Document, grace: int) -> None:
    """A grace period may only become shorter."""
    was = metadata.get("deletionGracePeriodSeconds") or 0
    if grace < was:
        deadline = moment_of(metadata["deletionTimestamp"]) - timedelta(seconds=was - grace)
        metadata["deletionTimestamp"] = stamp(deadline)
        metadata["deletionGracePeriodSeconds"] = grace


def holding(rules: Rules, finalizers: list[str], wish: Wish) -> list[str]:
    """The finalizers after a wish about dependents: at most one of ours, by what was asked, else by what stands."""
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}.get(wish.propagation)
    if wanted is None:
        ours = [name for name in (ORPHAN, FOREGROUND) if name in finalizers]
        wanted = ours[0] if ours else ORPHAN if rules.orphans else ""
    others = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
    if wanted and wanted in finalizers and len(others) == len(finalizers) - 1:
        return finalizers
    return [*others, wanted] if wanted else others


def graceful(rules: Rules) -> bool:
    """Whether objects of a kind are given time to end."""
    return rules.grace is not at_once


async def delete_collection(cluster: Cluster, place: Place, keys: list[Key], wish: Wish, ask: Ask) -> list[Outcome]:
    """Ask each of these to go; what is gone already is passed over."""
    outcomes = []
    for key in keys:
        if cluster.latest(place._replace(key=key)) is not None:
            outcomes.append(await delete(cluster, place._replace(key=key), wish, ask))
    return outcomes
