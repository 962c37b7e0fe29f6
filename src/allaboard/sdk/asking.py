"""What the blocking face asks of a cluster, as coroutines: each opens nothing and keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from allaboard.api.documents import Document, Documents, Key, replace
from allaboard.api.errors import NotFound
from allaboard.api.kinds import TRAIN_JOB, Kind
from allaboard.api.meta import namespace_of
from allaboard.kube.client import Select
from allaboard.kube.clock import SystemClock
from allaboard.kube.remote import RemoteClient
from allaboard.sdk import words
from allaboard.sdk.connection import Connection, open_connection
from allaboard.sdk.explaining import Explanation, explain
from allaboard.sdk.follow import Follower, Line, log_lines
from allaboard.sdk.jobs import Job, choose, is_reached
from allaboard.sdk.reading import read_events, read_gangs, read_job
from allaboard.sdk.scaling import MANAGER, scale

LOOK_AGAIN = 0.05


async def connected(kubeconfig: str, context: str) -> Connection:
    """A connection belongs to the loop that opens it."""
    return open_connection(kubeconfig, context, strict=True)


async def until(client: RemoteClient, key: Key, what: str, timeout: float | None) -> Job:
    """Follow a job until it is where it should be, or over; it is read once more, with all that belongs to it."""
    await read_job(client, key)
    follower = Follower(client, key, SystemClock())
    try:
        async with asyncio.timeout(timeout):
            async for _ in follower.happenings():
                if follower.job is not None and is_reached(follower.job, what):
                    break
    except TimeoutError:
        reason = follower.job.reason if follower.job else ""
        raise TimeoutError(f"{key.name} is not {what} after {timeout:g} s{f': {reason}' if reason else ''}") from None
    return await read_job(client, key)


async def lines(client: RemoteClient, key: Key, rank: str, *, follow: bool) -> AsyncIterator[Line]:
    """What ranks print; followed as it comes, else rank by rank."""
    job = await read_job(client, key)
    if follow:
        async for happening in Follower(client, key, SystemClock()).happenings():
            if isinstance(happening, Line) and (rank == "all" or happening.rank.removeprefix("r") in rank.split(",")):
                yield happening
        return
    for each in choose(job.ranks, rank):
        async for text in log_lines(client, each.pod):
            yield Line(each.word, text)


async def explained(client: RemoteClient, key: Key) -> Explanation:
    job = await read_job(client, key)
    events = await read_events(client, job)
    return explain(job, datetime.now(UTC), events, await read_gangs(client, key.namespace))


async def scaled(client: RemoteClient, key: Key, nodes: int) -> str:
    return await scale(client, await read_job(client, key), nodes)


async def applied(client: RemoteClient, documents: Documents, namespace: str) -> Documents:
    """Server-side apply, one after the other; what names no namespace goes to ours."""
    found = []
    for document in documents:
        kind = await words.kind_of_document(client, document, "document")
        if kind.namespaced and not namespace_of(document):
            document = replace(document, "metadata", "namespace", value=namespace)
        found.append(await client.apply(kind, document, manager=MANAGER, force=False))
    return found


async def found(client: RemoteClient, word: str, key: Key) -> Document:
    kind, place = await _place(client, word, key)
    document = await client.get(kind, place)
    if document is None:
        raise NotFound(f'{kind.resource} "{key.name}" not found')
    return document


async def listed(client: RemoteClient, word: str, select: Select) -> Documents:
    kind = await words.kind_named(client, word)
    return await client.list(kind, select if kind.namespaced else Select(labels=select.labels))


async def deleted(client: RemoteClient, word: str, key: Key) -> None:
    kind, place = await _place(client, word, key)
    await ended(client, kind, place)


async def ended(client: RemoteClient, kind: Kind, key: Key) -> None:
    """Gone with everything it owns when this returns."""
    await client.delete(kind, key, propagation="Foreground")
    while await client.get(kind, key) is not None:
        await asyncio.sleep(LOOK_AGAIN)


async def submitted(client: RemoteClient, document: Document) -> Document:
    return await client.create(TRAIN_JOB, document, manager=MANAGER)


async def _place(client: RemoteClient, word: str, key: Key) -> tuple[Kind, Key]:
    kind = await words.kind_named(client, word)
    return kind, key if kind.namespaced else Key("", key.name)
