"""Another number of nodes for a job: what its kind allows, and the way round what it does not.

A TrainJob's `spec.trainer` never changes, so a job none of whose pods runs is made anew under its name; a running one
can only grow or shrink where its JobSet is elastic (the gate ElasticJobSet).
"""

from __future__ import annotations

import asyncio

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig, replace
from allaboard.api.errors import AboardError, Invalid
from allaboard.api.kinds import JOB_SET, TRAIN_JOB
from allaboard.api.meta import annotations_of, key_of, labels_of, name_of, namespace_of, uid_of
from allaboard.kube.remote import RemoteClient
from allaboard.sdk.jobs import Job

MANAGER = "aboard"
LOOK_AGAIN = 0.05
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class CannotScale(AboardError):
    """A job that cannot have another size now; the message says the way."""

    exit_code = 5


async def scale(client: RemoteClient, job: Job, nodes: int) -> str:
    """Give a job another size; what was done, as one sentence."""
    before = size_of(job.document)
    if job.is_finished or job.phase == "Deleting":
        raise CannotScale(
            f'trainjob "{job.name}" is {job.phase.lower()}; only a job that is not over has a size to change'
        )
    if job.phase in ("Running", "Starting"):
        return await _resize(client, job, nodes)
    if before == nodes:
        return f"{job.name} has {_nodes(nodes)} already"
    await _make_anew(client, anew(job.document, nodes), uid_of(job.document))
    then = "; `aboard resume` lets it go on" if job.phase == "Suspended" else ""
    return f"{job.name} was made anew with {_nodes(nodes)} (it had {before}){then}"


async def retry(client: RemoteClient, job: Job) -> str:
    """A job that is over starts again under its name, with an account of its own."""
    if not job.is_finished:
        raise CannotScale(f'trainjob "{job.name}" is {job.phase.lower()}; only one that is over can be tried again')
    document = {**job.document, "spec": {**job.document["spec"], "suspend": False}}
    await _make_anew(client, anew(document, size_of(document)), uid_of(job.document))
    return f"{job.name} starts again; `aboard logs {job.name} -f` follows it"


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"


def size_of(job: Document) -> int:
    return int(dig(job, "spec", "trainer", "numNodes", default=1))


def anew(job: Document, nodes: int) -> Document:
    """The job as it was first written, with another number of nodes."""
    said = {k: v for k, v in annotations_of(job).items() if not k.startswith(labels.ABOARD) and k != APPLIED}
    kept = {"labels": labels_of(job), "annotations": said}
    metadata = {"name": name_of(job), "namespace": namespace_of(job)} | {k: v for k, v in kept.items() if v}
    document = {"apiVersion": TRAIN_JOB.api_version, "kind": TRAIN_JOB.kind, "metadata": metadata, "spec": job["spec"]}
    return replace(document, "spec", "trainer", "numNodes", value=nodes)


async def _make_anew(client: RemoteClient, document: Document, uid: str) -> None:
    """Tried out under another name first, so that nothing is deleted for a job that would be refused."""
    trial = replace(document, "metadata", "name", value=f"{name_of(document)[:50]}-scaled")
    await client.ask("POST", TRAIN_JOB.path(namespace_of(document)), {"dryRun": "All", "fieldManager": MANAGER}, trial)
    await client.delete(TRAIN_JOB, key_of(document), uid=uid, propagation="Foreground")
    while await client.get(TRAIN_JOB, key_of(document)) is not None:
        await asyncio.sleep(LOOK_AGAIN)
    await client.create(TRAIN_JOB, document, manager=MANAGER)


async def _resize(client: RemoteClient, job: Job, nodes: int) -> str:
    """A running job: its JobSet, where elastic ones are served."""
    key = Key(namespace_of(job.document), job.name)
    job_set = await client.get(JOB_SET, key)
    way = f"`aboard suspend {job.name}`, then scale and `aboard resume {job.name}`"
    if job_set is None:
        raise CannotScale(f'trainjob "{job.name}" runs without a JobSet; {way}')
    try:
        await client.update(JOB_SET, resized(job_set, nodes), manager=MANAGER)
    except Invalid as error:
        gate = "elastic jobs need the gate ElasticJobSet (`aboard up --feature-gates ElasticJobSet=true`)"
        raise CannotScale(f'trainjob "{job.name}" runs, and its size is fixed while it does; {way}; {gate}') from error
    return f"{job.name} goes on with {_nodes(nodes)}"


def resized(job_set: Document, nodes: int) -> Document:
    """The JobSet with another number of trainer pods."""
    jobs = [_sized(entry, nodes) if _trains(entry) else entry for entry in job_set["spec"]["replicatedJobs"]]
    return replace(job_set, "spec", "replicatedJobs", value=jobs)


def _trains(replicated: Document) -> bool:
    worn = labels_of(replicated["template"]).get(labels.TRAIN_JOB_ANCESTOR)
    return worn == "trainer" or (worn is None and replicated["name"] == "node")


def _sized(replicated: Document, nodes: int) -> Document:
    sized = replace(replicated, "template", "spec", "parallelism", value=nodes)
    return replace(sized, "template", "spec", "completions", value=nodes)
