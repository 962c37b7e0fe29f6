"""ResourceQuota status: what a namespace may use at most, and what its objects use now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.kinds import (
    CLAIM,
    CONFIG_MAP,
    JOB,
    JOB_SET,
    LEASE,
    POD,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE,
    TRAIN_JOB,
    Kind,
)
from allaboard.api.meta import key_of, namespace_of
from allaboard.api.quantity import Resources, parse, resource_list, total
from allaboard.api.usage import NONE, OLD_NAMES, in_scope, is_counted, usage
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch
from allaboard.kube.pauses import Pauses
from allaboard.kube.plan import NOTHING, Plan, Status

PAUSE, RECOUNT, GLANCE = timedelta(milliseconds=50), timedelta(minutes=5), timedelta(seconds=5)
FOLLOWED = (POD, SERVICE, CLAIM, CONFIG_MAP, SECRET, JOB, JOB_SET, TRAIN_JOB, LEASE)

WATCHED = frozenset(kind.resource for kind in (RESOURCE_QUOTA, *FOLLOWED))  # of others no event tells
Objects = Mapping[str, Documents]  # by resource, as `count/…` writes it: "pods", "jobs.batch"


def used(quota: Document, objects: Objects, now: datetime) -> Document:
    """The amount of each limited thing that is in use; what nobody here counts is not mentioned."""
    hard = dig(quota, "spec", "hard", default={})
    sums: Resources = {}
    for resource in objects:
        sums |= {name: NONE for name in hard if is_counted(name, resource)}
    for resource, documents in objects.items():
        counts = [usage(resource, one, now) for one in documents if in_scope(quota, resource, one)]
        for name, amount in total(counts).items():
            sums[name] = amount
    return resource_list({name: sums[_key(name, sums)] for name in hard if name in sums})


def _key(name: str, sums: Resources) -> str:
    """Where an amount stands: what has an old name is counted under its new one, if there was anything to count."""
    return OLD_NAMES[name] if OLD_NAMES.get(name) in sums else name


def counted_resources(quota: Document, resources: Iterable[str]) -> set[str]:
    """Which of these resources have to be listed to know what is used."""
    hard = dig(quota, "spec", "hard", default={})
    return {resource for resource in resources if any(is_counted(name, resource) for name in hard)}


def grew(quota: Document, status: Document) -> bool:
    """Whether a quota that was counted before uses more now."""
    old, new = quota.get("status") or {}, status
    same = old.get("hard") == new["hard"] and (old.get("used") or {}).keys() == new["used"].keys()
    return same and any(parse(amount) > parse(old["used"][name]) for name, amount in new["used"].items())


class Quotas:
    """Counts again whenever something in a namespace with a quota changed, and every five minutes; every five seconds
    where a quota counts a kind that no watch follows."""

    name = "resourcequota-controller"
    manager = "kube-controller-manager"

    def __init__(self, reader: Reader, clock: Clock, live: Reader, kinds: Callable[[], Sequence[Kind]]) -> None:
        self.reader, self.clock, self.live, self.kinds = reader, clock, live, kinds
        self.watches = tuple(Watch(kind, self._quotas_of) for kind in (RESOURCE_QUOTA, *FOLLOWED))
        self._quotas: dict[str, set[Key]] = {}
        self._pauses = Pauses(PAUSE)

    def observe(self, kind: Kind, old: Document | None, new: Document | None) -> bool:
        if kind == RESOURCE_QUOTA:
            document = new or old or {}
            keys = self._quotas.setdefault(namespace_of(document), set())
            keys.add(key_of(document)) if new is not None else keys.discard(key_of(document))
        return True

    def _quotas_of(self, document: Document) -> Iterable[Key]:
        return [key for key in sorted(self._quotas.get(namespace_of(document), ())) if not self._pauses.waits(key)]

    async def reconcile(self, key: Key) -> Plan:
        now = self.clock.now()
        if (due := self._pauses.until(key, now)) is not None:
            return Plan(again=due)
        if (quota := await self.reader.get(RESOURCE_QUOTA, key)) is None:
            return NOTHING
        wanted = counted_resources(quota, (kind.resource for kind in self.kinds()))
        counts = used(quota, await self._objects(key.namespace, wanted), now)
        status = {"hard": dig(quota, "spec", "hard", default={}), "used": counts}
        mine = quota.get("status") != status and self.is_mine(quota, status)
        write = (Status(RESOURCE_QUOTA, {**quota, "status": status}),) if mine else ()
        return Plan(status=write, again=now + (RECOUNT if wanted <= WATCHED else GLANCE))

    def is_mine(self, quota: Document, status: Document) -> bool:
        """The controller sets what is new and what shrank; what grew was admitted, and admission says so."""
        return not grew(quota, status)

    async def _objects(self, namespace: str, wanted: set[str]) -> Objects:
        """The objects to count; what no watch follows is asked for."""
        inside = Select(namespace=namespace)
        found: dict[str, Documents] = {}
        for kind in self.kinds():
            if kind.resource in wanted:
                source = self.reader if kind.resource in WATCHED else self.live
                found[kind.resource] = await source.list(kind, inside)
        return found


class QuotaUse(Quotas):
    """Writes what grew in the name of the API server, whose admission does it on a real cluster."""

    name = "resourcequota-admission"
    manager = "kube-apiserver"

    def is_mine(self, quota: Document, status: Document) -> bool:
        return grew(quota, status)
