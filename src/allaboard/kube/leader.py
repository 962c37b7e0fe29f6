"""One writer at a time: of several copies of a controller, the one that holds a Lease works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import AlreadyExists, ApiError, Conflict
from allaboard.api.kinds import LEASE
from allaboard.api.meta import micro_stamp, moment_of
from allaboard.kube.client import Client
from allaboard.kube.clock import Clock

# The intervals every Kubernetes controller uses.
TERM = timedelta(seconds=15)
RENEW_BEFORE = timedelta(seconds=10)
ASK_AGAIN = timedelta(seconds=2)


class Deposed(Exception):
    """The lease went to another: whoever worked under it must stop at once."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who wants to lead what."""

    identity: str
    lease: Key
    term: timedelta = TERM
    renew_before: timedelta = RENEW_BEFORE
    ask_again: timedelta = ASK_AGAIN


def claim(candidate: Candidate, lease: Document | None, now: datetime) -> Document | None:
    """The lease as this candidate would write it, or None while another holds it."""
    spec = dig(lease or {}, "spec", default={})
    holder = spec.get("holderIdentity") or ""
    if holder not in ("", candidate.identity) and not _is_over(spec, now):
        return None
    taken = holder != candidate.identity
    wanted = {
        "holderIdentity": candidate.identity,
        "leaseDurationSeconds": int(candidate.term.total_seconds()),
        "acquireTime": micro_stamp(now) if taken else spec.get("acquireTime"),
        "renewTime": micro_stamp(now),
        "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (1 if taken and lease else 0),
    }
    metadata = (lease or {}).get("metadata") or {"name": candidate.lease.name, "namespace": candidate.lease.namespace}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": wanted}


def _is_over(spec: Document, now: datetime) -> bool:
    renewed = spec.get("renewTime")
    return not renewed or now >= moment_of(renewed) + timedelta(seconds=int(spec.get("leaseDurationSeconds") or 15))


async def lead(client: Client, candidate: Candidate, clock: Clock, work: Callable[[], Awaitable[None]]) -> None:
    """Wait for the lease, work while it is ours, stop the moment it is not (by raising `Deposed`)."""
    while not await _try(client, candidate, clock):
        await clock.sleep_until(clock.now() + candidate.ask_again)
    working = asyncio.ensure_future(work())
    renewing = asyncio.ensure_future(_renew(client, candidate, clock))
    try:
        done, _ = await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (working, renewing):
            task.cancel()
        await asyncio.gather(working, renewing, return_exceptions=True)


async def _renew(client: Client, candidate: Candidate, clock: Clock) -> None:
    good_until = clock.now() + candidate.renew_before
    while clock.now() < good_until:
        await clock.sleep_until(clock.now() + candidate.ask_again)
        if await _try(client, candidate, clock):
            good_until = clock.now() + candidate.renew_before
    raise Deposed(f'lease "{candidate.lease}" could not be renewed by {candidate.identity}')


async def _try(client: Client, candidate: Candidate, clock: Clock) -> bool:
    """Take or renew the lease once; a lost race or a server that does not answer is a no."""
    try:
        current = await client.get(LEASE, candidate.lease)
        wanted = claim(candidate, current, clock.now())
        if wanted is None:
            return False
        write = client.create if current is None else client.update
        await write(LEASE, wanted, manager=candidate.identity)
    except (AlreadyExists, Conflict, ApiError, OSError):
        return False
    return True
