"""What a real cluster is given before our controllers work there: kinds, a namespace, queues, priorities, runtimes."""

from __future__ import annotations

import asyncio
import copy
import logging

from allaboard.api import crds, kinds
from allaboard.api.documents import Document, dig
from allaboard.api.errors import AlreadyExists
from allaboard.api.kinds import kind_of
from allaboard.api.meta import is_true, key_of
from allaboard.kube.remote import RemoteClient
from allaboard.main.heart import public_version
from allaboard.scheduling import defaults
from allaboard.training import runtimes
from allaboard.training.facts import Settings as TrainingSettings

log = logging.getLogger("allaboard")

MANAGER = "aboard"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TrainingSettings().namespace}}


async def make_namespace(client: RemoteClient) -> None:
    """Where our Lease, our Secret and what everybody may read live."""
    if await client.get(kinds.NAMESPACE, key_of(NAMESPACE)) is None:
        try:
            await client.create(kinds.NAMESPACE, NAMESPACE, manager=MANAGER)
        except AlreadyExists:
            return


async def install_kinds(client: RemoteClient) -> None:
    """Our definitions, until each is served."""
    for document in crds.documents():
        await _put(client, document)
    for document in crds.documents():
        while not is_true(await client.get(kinds.CRD, key_of(document)) or {}, "Established"):
            await asyncio.sleep(0.1)


async def install_objects(client: RemoteClient, scheduler: str = "") -> None:
    """Queues, priority classes and the shipped runtimes: after the hooks that check them are there.

    Where our scheduler works beside another, the runtimes name it, so that their jobs are gangs there, too.
    """
    shipped = [scheduled_by(runtime, scheduler) for runtime in runtimes.shipped_runtimes()]
    for document in [*public_version(), *(found for _, found in defaults.OBJECTS), *shipped]:
        await _put(client, document)


def scheduled_by(runtime: Document, scheduler: str) -> Document:
    """A runtime whose pods ask for this scheduler, unless they ask for one already."""
    if not scheduler:
        return runtime
    runtime = copy.deepcopy(runtime)
    for job in dig(runtime, "spec", "template", "spec", "replicatedJobs", default=()):
        dig(job, "template", "spec", "template", "spec", default={}).setdefault("schedulerName", scheduler)
    return runtime


async def _put(client: RemoteClient, document: Document) -> None:
    """Write it as this version has it, unless somebody else's stands there."""
    kind = kind_of(document)
    found = await client.get(kind, key_of(document))
    if found is not None and not _is_ours(found):
        log.warning('msg="Left as it is: another manages it" %s=%s', kind.singular, key_of(document))
        return
    await client.apply(kind, document, manager=MANAGER, force=True)


def _is_ours(document: Document) -> bool:
    managers = dig(document, "metadata", "managedFields", default=[])
    return any(entry.get("manager") == MANAGER for entry in managers)
