"""One pass over a TrainJob, decided: what exists and what time it is go in, a plan comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.errors import AboardError
from allaboard.api.kinds import kind_of
from allaboard.api.labels import ABOARD
from allaboard.api.meta import (
    annotations_of,
    asks_the_same,
    is_controlled_by,
    is_leaving,
    is_true,
    name_of,
    stamp,
    uid_of,
)
from allaboard.kube.plan import NOTHING, Apply, Create, Delete, Event, Patch, Plan, Status
from allaboard.training import deadline, names, runtime, status
from allaboard.training.facts import Case, Facts
from allaboard.training.framework import Framework
from allaboard.training.job import TrainJob
from allaboard.training.problems import told

FAILED = "TrainJobResourcesCreationFailed"
WHY = ABOARD + "why"
LONGEST_NOTE = 950
LOOK_AGAIN = timedelta(minutes=1)
SOON = timedelta(seconds=1)
WAITS = {"phase": "Pending"}


@dataclass(frozen=True)
class World:
    """What was found for one job."""

    job: TrainJob
    job_set: Document | None = None
    snapshot: Document | None = None
    # The live runtime, asked for only where there is no snapshot yet.
    runtime: Document | None = None
    # The first container that ended badly, as far as this process saw it.
    failure: Document | None = None
    facts: Facts = field(default_factory=Facts)
    get: Callable[[kinds.Kind, Key], Document | None] = lambda kind, key: None
    # Built from these very facts before, and nothing was missing: see `essence`.
    stands: bool = False


def essence(world: World) -> tuple[object, ...]:
    """All that objects are built from, to be compared: where it is the same and nothing was missing, nothing is."""
    facts, metadata = world.facts, world.job.document["metadata"]
    known = {key: _version(found["metadata"]) for key, found in facts.existing.items()}
    job = (metadata.get("uid"), metadata.get("generation"), metadata.get("labels"), metadata.get("annotations"))
    frozen = _version(world.snapshot["metadata"]) if world.snapshot else None
    return job, frozen, known, facts.authority, facts.overheads, facts.limit_ranges


def _version(metadata: Document) -> tuple[object, ...]:
    """What changes with an object, its status left aside where it has one."""
    return metadata.get("uid"), metadata.get("generation") or metadata.get("resourceVersion")


def with_written(world: World, written: Iterable[tuple[kinds.Kind, Document]]) -> World:
    """The world after a pass, as far as it is known from what the server answered."""
    made = {(kind, name_of(document)): document for kind, document in written if kind != kinds.TRAIN_JOB}
    snapshot = made.pop((kinds.CONFIG_MAP, world.job.snapshot_name), world.snapshot)
    job_set = made.get((kinds.JOB_SET, world.job.name), world.job_set)
    facts = replace(world.facts, existing={**world.facts.existing, **made})
    return replace(world, snapshot=snapshot, job_set=job_set, facts=facts)


def only_counts(old: Document, new: Document) -> bool:
    """Whether a TrainJob changed in nothing but what its status counts, which no pass goes by."""
    before, after = ((job.get("status") or {}).get("conditions") or [] for job in (old, new))
    return before == after and asks_the_same(old, new)


def is_whole(world: World, plan: Plan) -> bool:
    """Whether nothing is missing: all that a job needs is there, and a pass had nothing to say against it."""
    there = world.snapshot is not None and world.job_set is not None and not world.job.suspended
    return there and not (plan.patch or plan.events)


def decide(world: World, framework: Framework, now: datetime) -> Plan:
    """The story of a pass; the first that has the last word ends it."""
    job = world.job
    if is_leaving(job.document) or not job.is_ours:
        return NOTHING
    if not job.runtime.is_supported:
        return _give_up(world, "TrainingRuntimeNotSupported", f"unsupported runtime: {job.runtime}", now)
    if job.runtime_missing and _was_changed(job):
        return _try_again(world, now)
    if job.finished:
        return _clean_up(world) + _settle(world, status.synced(job, world.job_set, now), now)
    ends = deadline.deadline_of(job)
    if ends is not None and now > ends:
        return _expire(world, now)
    if world.snapshot is None and world.runtime is None:
        return _give_up(world, "RuntimeNotFound", _missing(job), now)
    plan = NOTHING if world.stands else _objects(world, framework, now)
    # A verdict has written its status; where nothing could be made there is none to write yet.
    if not plan.status and (world.job_set is not None or not plan.events):
        plan += _settle(world, status.synced(job, world.job_set, now), now)
    return plan + Plan(again=max(ends, now + SOON)) if ends is not None else plan


def _objects(world: World, framework: Framework, now: datetime) -> Plan:
    """Freeze the runtime on the first pass, then build what is missing."""
    job = world.job
    try:
        frozen = runtime.thaw(job, world.snapshot) if world.snapshot else world.runtime or {}
        info = runtime.info(frozen, job)
        if world.snapshot is None and (words := _refusal(Case(job, None, frozen, info, world.get), framework)):
            return _give_up(world, "Invalid", words, now)
        documents = framework.objects(info, job, world.facts)
    except AboardError as error:
        said = Plan(events=(complaint(job.document, str(error)),), again=now + LOOK_AGAIN)
        return said + _reason(job, str(error)[:LONGEST_NOTE])
    if world.snapshot is None:
        documents = [runtime.snapshot(job, frozen), *documents]
    secrets = tuple(Create(kinds.SECRET, found) for found in documents if found["kind"] == "Secret")
    rest = tuple(Apply(kind_of(found), found) for found in documents if not _is_there(found, world))
    return Plan(apply=rest, create=secrets) + _reason(job, None)


def _reason(job: TrainJob, words: str | None) -> Plan:
    """Why a job does not go on, where `why` finds it (ruling 7); taken away when it does."""
    if annotations_of(job.document).get(WHY) == words:
        return NOTHING
    return Plan(patch=(Patch(kinds.TRAIN_JOB, job.key, {"metadata": {"annotations": {WHY: words}}}),))


def _is_there(document: Document, world: World) -> bool:
    """Secrets are created, and a ConfigMap that says the same already need not be written again."""
    if document["kind"] != "ConfigMap":
        return bool(document["kind"] == "Secret")
    found = world.facts.find(kinds.CONFIG_MAP, document["metadata"]["name"])
    return found is not None and found.get("data") == document["data"] and is_controlled_by(found, world.job.document)


def _refusal(case: Case, framework: Framework) -> str:
    """The runtime may have changed since the job was let in: what is frozen is what is checked (defect 41)."""
    causes = [*names.problems(case), *framework.problems(case)]
    return told(causes) if causes else ""


def complaint(job: Document, words: str) -> Event:
    """Why nothing was made, as a person reads it; the words are never taken for a format (defect 39)."""
    cut = words if len(words) <= LONGEST_NOTE else words[:LONGEST_NOTE] + " ..."
    note = f"TrainJob resources reconciliation failed: {cut}"
    return Event(job, FAILED, note, type="Warning", action="Reconciling")


def _missing(job: TrainJob) -> str:
    kind = kinds.TRAINING_RUNTIME if job.runtime.kind == "TrainingRuntime" else kinds.CLUSTER_TRAINING_RUNTIME
    return f'{kind.resource} "{job.runtime.name}" not found; create it, then change the TrainJob to try again'


def _give_up(world: World, reason: str, message: str, now: datetime) -> Plan:
    """Nothing can be made, and trying again would not help: say so in the status and stop."""
    job = world.job
    if job.finished:
        return _settle(world, dict(job.document.get("status") or {}), now)
    synced = status.synced(job, world.job_set, now)
    generation = job.document["metadata"].get("generation")
    told_why = Plan(events=(complaint(job.document, message),))
    return _settle(world, status.failed(synced, reason, message, generation, now), now) + told_why


def _was_changed(job: TrainJob) -> bool:
    verdict = next(found for found in job.document["status"]["conditions"] if found["type"] == "Failed")
    seen, now = verdict.get("observedGeneration"), job.document["metadata"].get("generation")
    return seen is not None and now is not None and now > seen


def _try_again(world: World, now: datetime) -> Plan:
    """A changed wish takes RuntimeNotFound back (ruling 5); the next pass looks for the runtime."""
    old = world.job.document["status"]
    conditions = [found for found in old["conditions"] if found["type"] != "Failed"]
    fresh = {name: value for name, value in old.items() if name not in ("conditions", "aboard")}
    return _write(world.job, {**fresh, "conditions": conditions} if conditions else fresh) + Plan(again=now)


def _expire(world: World, now: datetime) -> Plan:
    """Past the deadline: nothing is built any more (defect 45), the JobSet goes, the verdict stays."""
    synced = status.synced(world.job, world.job_set, now)
    verdict = status.failed(synced, **status.DEADLINE, generation=None, now=now)
    return _delete_job_set(world) + _settle(world, verdict, now)


def _clean_up(world: World) -> Plan:
    """A JobSet that outlived its deadline is deleted as often as it takes (defect 12)."""
    found = world.job_set
    over = found is None or is_true(found, "Completed") or is_true(found, "Failed")
    return _delete_job_set(world) if world.job.deadline_exceeded and not over else NOTHING


def _delete_job_set(world: World) -> Plan:
    if world.job_set is None or is_leaving(world.job_set):
        return NOTHING
    return Plan(delete=(Delete(kinds.JOB_SET, world.job.key, uid=uid_of(world.job_set)),))


def _settle(world: World, new: Document, now: datetime) -> Plan:
    """Write the status if it changed, our own story with it; see a finished job off when its time is over."""
    job = world.job
    story = status.story(job, new, world.job_set, world.failure)
    if story["phase"] == "Running" and "startTime" not in story:
        story["startTime"] = stamp(now)
    plan = _write(job, new, story) + _annotate(job, story)
    ends = deadline.kept_until(job, new)
    if ends is None:
        return plan
    if now < ends:
        return plan + Plan(again=ends)
    return Plan(delete=(Delete(kinds.TRAIN_JOB, job.key, uid=job.uid, propagation="Background"),))


def _write(job: TrainJob, new: Document, story: Document | None = None) -> Plan:
    """The status with our story; a job about which there is nothing to tell but that it waits has none yet."""
    if not new and story == WAITS:
        return NOTHING
    status = {**new, "aboard": story} if story is not None else new
    if status == (job.document.get("status") or {}):
        return NOTHING
    return Plan(status=(Status(kinds.TRAIN_JOB, {**job.document, "status": status}),))


def _annotate(job: TrainJob, story: Document) -> Plan:
    """Once a job has run: before that, waiting is all there is to tell, and a write per job is saved."""
    if "startTime" not in story and "completionTime" not in story:
        return NOTHING
    words, old = status.as_annotations(story), annotations_of(job.document)
    if all(old.get(key) == value for key, value in words.items()):
        return NOTHING
    return Plan(patch=(Patch(kinds.TRAIN_JOB, job.key, {"metadata": {"annotations": words}}),))


def runtime_priorities(frozen: Document) -> list[str]:
    """The priority classes a runtime's pods name, to be looked up before it is checked."""
    jobs: Documents = dig(frozen, "spec", "template", "spec", "replicatedJobs", default=[])
    named = {runtime.pod_spec_of(job).get("priorityClassName") for job in jobs}
    return sorted(name for name in named if name)
