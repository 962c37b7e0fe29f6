"""Loading a job with everything that belongs to it."""

from __future__ import annotations

import json

from allaboard.api import labels
from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import Forbidden, NotFound
from allaboard.api.kinds import EVENT, JOB_SET, POD, POD_GROUP, TRAIN_JOB
from allaboard.api.meta import annotations_of, labels_of, name_of, namespace_of, owners_of, uid_of
from allaboard.kube.client import Reader, Select
from allaboard.sdk.jobs import Job, standing
from allaboard.sdk.line import in_line


async def read_job(reader: Reader, key: Key) -> Job:
    """One TrainJob, its pods and its gangs; where there is none, the names that do exist."""
    document = await reader.get(TRAIN_JOB, key)
    if document is None:
        others = [name_of(other) for other in await reader.list(TRAIN_JOB, Select(key.namespace))]
        has = f'namespace "{key.namespace}" has: {", ".join(others[:8])}' if others else "there are no trainjobs"
        raise NotFound(f'trainjob "{key.name}" not found; {has}')
    pods = await reader.list(POD, Select(key.namespace, labels=f"{labels.JOBSET_NAME}={key.name}"))
    groups = await read_gangs(reader, key.namespace)
    job_set = await reader.get(JOB_SET, key)
    return Job(document, standing(pods), _gangs_of(document, groups, pods), remembered_failures(job_set or {}))


async def read_gangs(reader: Reader, namespace: str) -> Documents:
    """The PodGroups of a namespace; none where nobody serves our kind, or where it is not ours to see.

    Those of other namespaces may stand in the same line: where they may be seen, they count.
    """
    for seen in ("", namespace):
        try:
            found = in_line(await reader.list(POD_GROUP, Select(seen)))
        except (Forbidden, NotFound):
            continue
        return [group for group in found if not namespace or namespace_of(group) == namespace]
    return []


async def read_events(reader: Reader, job: Job) -> Documents:
    """What was said about a job, its gangs and its pods (also those that are gone), oldest first."""
    return events_about(job, await reader.list(EVENT, Select(namespace_of(job.document))))


def events_about(job: Job, events: Documents) -> Documents:
    """Those of a namespace's events that tell about one job, oldest first."""
    about = {uid_of(document) for document in (job.document, *job.groups, *job.pods)}
    return sorted((e for e in events if _concerns(e, job, about)), key=event_time)


def event_time(event: Document) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _concerns(event: Document, job: Job, about: set[str]) -> bool:
    about_whom = event.get("involvedObject") or {}
    if about_whom.get("uid") in about:
        return True
    if about_whom.get("kind") not in ("Pod", "Job", "JobSet") or event_time(event)[:_SECONDS] < job.born[:_SECONDS]:
        return False  # what is older than the job was said about another one of its name
    return _is_child(str(about_whom.get("name", "")), job.name)


_SECONDS = len("2026-01-01T12:00:00")  # some stamps go on from there


def _is_child(child: str, name: str) -> bool:
    """Whether a name reads as one the job's controllers give: the job's own, or `NAME-node-0…`."""
    return child == name or (child.startswith(f"{name}-") and "-0" in child.removeprefix(name))


def remembered_failures(job_set: Document) -> Documents:
    """What a JobSet keeps of pods that failed; words of somebody else under our key are none."""
    try:
        found = json.loads(annotations_of(job_set).get(labels.FAILURES) or "[]")
    except ValueError:
        return []
    return [entry for entry in found if isinstance(entry, dict) and entry.get("pod")] if isinstance(found, list) else []


async def read_jobs(reader: Reader, namespace: str) -> list[Job]:
    """Every TrainJob of a namespace (all for ""), oldest first, with three reads in all."""
    documents = await reader.list(TRAIN_JOB, Select(namespace))
    pods = await reader.list(POD, Select(namespace))
    groups = await read_gangs(reader, namespace)
    of_job: dict[Key, Documents] = {}
    for pod in pods:
        of_job.setdefault(Key(namespace_of(pod), labels_of(pod).get(labels.JOBSET_NAME, "")), []).append(pod)
    found = []
    for document in sorted(documents, key=lambda d: (d["metadata"]["creationTimestamp"], name_of(d))):
        mine = of_job.get(Key(namespace_of(document), name_of(document)), [])
        found.append(Job(document, standing(mine), _gangs_of(document, groups, mine)))
    return found


def _gangs_of(job: Document, groups: Documents, pods: Documents) -> Documents:
    """Gangs are owned by the job or by something it owns; its pods name them."""
    named = {pod["metadata"].get("annotations", {}).get(labels.POD_GROUP) for pod in pods}
    return [
        group
        for group in groups
        if namespace_of(group) == namespace_of(job)
        and (name_of(group) in named or any(owner.get("name") == name_of(job) for owner in owners_of(group)))
    ]
