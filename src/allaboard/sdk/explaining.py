"""Why a job is where it is: one verdict, one reason with its numbers, and what could be done about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from allaboard.api.documents import Document, dig
from allaboard.api.meta import moment_of, name_of
from allaboard.api.quantity import BadQuantity, parse
from allaboard.sdk.jobs import Failure, Job, pod_phase
from allaboard.sdk.reading import event_time

# `pg-NAME-UID`, and the phase after it where a job has several: how gangs are called.
GANG = re.compile(r"^(?:[^/]+/)?pg-(.+?)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
UNITS = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
SMALLER = ("FairShare", "InsufficientResource", "Fragmented", "NeverFits", "TopologyUnsatisfiable", "OverLimit")
QUIET = 60.0  # seconds without a report that need no explanation
HISTORY = 6
WHOLE = ("TrainJob", "JobSet", "PodGroup")  # whose events tell about the whole job


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds what is missing."""

    job: str
    amount: str
    queue: str
    preemptible: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to `why`. `verdict` is Waiting, Blocked, Impossible, Starting, Preempted, Suspended, Slow, Failed,
    Running, Complete or Deleting; `could` are commands that exist."""

    job: str
    verdict: str
    message: str
    seconds: float
    code: str = ""
    queue: str = ""
    gang: str = ""
    needs: dict[str, str] = field(default_factory=dict)
    free: dict[str, str] = field(default_factory=dict)
    held_by: tuple[Holder, ...] = ()
    position: int = 0
    overall: int = 0
    estimate: str = ""
    unblock: tuple[str, ...] = ()
    could: tuple[str, ...] = ()
    failure: Failure | None = None
    others_failed: int = 0
    history: tuple[tuple[str, str], ...] = ()

    def document(self) -> Document:
        """The same for tools; what there is nothing to say about is left out."""
        return {name: value for name, value in asdict(self).items() if value or name in ("message", "seconds")}


def explain(job: Job, now: datetime, events: Sequence[Document] = (), groups: Sequence[Document] = ()) -> Explanation:
    """What to say about a job, from what was written about it; `groups` are the gangs that may hold what it needs."""
    facts: Document = {"job": job.name, "seconds": round(job.seconds(now), 1), "queue": job.queue}
    facts |= {"gang": f"{job.placed}/{wanted(job)}", "history": history(job, events)}
    match job.phase:
        case "Pending":
            return _pending(job, facts, events, groups)
        case "Starting":
            return Explanation(**facts, verdict="Starting", message=_what_starts(job))
        case "Suspended":
            could = (f"aboard resume {job.name}",)
            return Explanation(**facts, verdict="Suspended", message="it was taken off its nodes", could=could)
        case "Failed":
            return _failed(job, facts)
        case "Running":
            return _running(job, facts, now)
    return Explanation(**facts, verdict=job.phase, message="")


def wanted(job: Job) -> int:
    """How many pods start together: what the gang says, else the pods that are there."""
    return max([len(job.pods), *(int(dig(group, "spec", "minMember", default=0)) for group in job.groups)])


# --- pending ---


def _pending(job: Job, facts: Document, events: Sequence[Document], groups: Sequence[Document]) -> Explanation:
    why, evicted = job.why, _evicted(events)
    message = job.reason or "the scheduler has not looked at it yet"
    numbers = {name: why[name] for name in ("code", "position", "overall", "estimate") if name in why}
    needs, free = why.get("needs") or {}, why.get("free") or {}
    return Explanation(
        **facts | numbers,
        verdict="Preempted" if evicted else str(why.get("verdict") or "Waiting"),
        message=f"{evicted}; {message}" if evicted else message,
        needs={name: amount(name, number) for name, number in needs.items()},
        free={name: amount(name, number) for name, number in free.items()},
        held_by=_held_by(why) or _holders(needs, free, groups, job),
        unblock=tuple(why.get("unblock") or ()),
        could=_options(job, why),
    )


def _held_by(why: Document) -> tuple[Holder, ...]:
    said = why.get("heldBy") or []
    return tuple(
        Holder(job_of(h["gang"]), amount("gpu", h["gpus"]), h.get("queue", ""), bool(h.get("preemptible")))
        for h in said
    )


def _holders(needs: Document, free: Document, groups: Iterable[Document], job: Job) -> tuple[Holder, ...]:
    """Who holds most of the first resource there is not enough of, from what the gangs' status says."""
    short = next((name for name in needs if needs[name] > free.get(name, 0)), "")
    mine = {name_of(group) for group in job.groups}
    held = [(_holding(group, short), group) for group in groups if short and name_of(group) not in mine]
    most = sorted(((number, group) for number, group in held if number), key=lambda h: (-h[0], name_of(h[1])))
    return tuple(
        Holder(job_of(name_of(g)), amount(short, number), str(dig(g, "spec", "queue", default="")), _yields(g))
        for number, g in most[:4]
    )


def _holding(group: Document, resource: str) -> float:
    held = dig(group, "status", "resourcesStatus", "allocated", default={})
    try:
        number = float(parse(next((held[name] for name in held if resource and resource in name), 0)))
    except BadQuantity:
        return 0.0
    return number * 1000 if resource == "cpu" else number


def _yields(group: Document) -> bool:
    status = dig(group, "status", "resourcesStatus", default={})
    return not status.get("allocatedNonPreemptible")


def _options(job: Job, why: Document) -> tuple[str, ...]:
    """Commands that would help, the likeliest first."""
    code, fitting = why.get("code", ""), int(why.get("fitting") or 0)
    found = []
    if code in SMALLER and 0 < fitting < wanted(job):
        found.append(f"aboard scale {job.name} --nodes {fitting}")
    if code.startswith("Queue"):
        found.append(f"aboard move {job.name} --queue default-queue")
    if code.startswith(("Queue", "FairShare", "Over", "Parent", "NonPreemptible")):
        found.append("aboard queue")
    if code in ("InsufficientResource", "Fragmented", "NeverFits", "NodesUnready", "Tainted", "NodeSelectorMismatch"):
        found.append("aboard top nodes")
    return tuple(found)


def _evicted(events: Sequence[Document]) -> str:
    """The words of the last eviction, unless the gang got its place again since."""
    last = next((e for e in reversed(events) if e.get("reason") in ("Evict", "GangScheduled", "Scheduled")), {})
    return str(last.get("message", "")) if last.get("reason") == "Evict" else ""


# --- the other phases ---


def _what_starts(job: Job) -> str:
    """What the first pod that does not run yet is busy with."""
    for rank in job.ranks:
        if pod_phase(rank.pod) != "Pending":
            continue
        node = dig(rank.pod, "spec", "nodeName", default="")
        if not node:
            return f"{job.placed} of {len(job.pods)} pods have their node"
        return f"{rank.word} on {node}: {_busy_with(rank.pod)}"
    return "its pods are about to run"


def _busy_with(pod: Document) -> str:
    initial = dig(pod, "status", "initContainerStatuses", default=[])
    ready = sum(dig(status, "state", "terminated", "exitCode") == 0 for status in initial)
    if initial and ready < len(initial):
        return f"init container {ready + 1} of {len(initial)}"
    for status in dig(pod, "status", "containerStatuses", default=[]):
        waits = dig(status, "state", "waiting", default={})
        if waits:
            said = f": {waits['message']}" if waits.get("message") else ""
            return f"{waits.get('reason', 'waiting')}{said}"
    return "the node takes it in"


def _failed(job: Job, facts: Document) -> Explanation:
    failure = job.first_failure
    if failure is None:
        return Explanation(**facts, verdict="Failed", message=job.reason)
    place = f"{failure.pod} on {failure.node}" if failure.node else failure.pod
    message = f"{rank_words(failure.rank)} ended first with exit code {failure.code} ({place})"
    also = {str(entry.get("pod")) for entry in job.failures} - {failure.pod}
    could = (f"aboard logs {job.name} --rank {failure.rank.removeprefix('r')}", f"aboard retry {job.name}")
    return Explanation(
        **facts, verdict="Failed", message=message, code=failure.reason, failure=failure, others_failed=len(also),
        could=could,
    )  # fmt: skip


def rank_words(rank: str) -> str:
    return f"rank {rank[1:]}" if rank[:1] == "r" and rank[1:].isdigit() else rank


def _running(job: Job, facts: Document, now: datetime) -> Explanation:
    done = "" if job.progress is None else f", {job.progress} % done"
    said = f"on {', '.join(job.nodes)}{done}"
    silence, before = _silence(job, now)
    if silence > max(QUIET, before):
        words = f"{said}; no progress was reported for {silence:.0f} s, longer than all before took"
        could = (f"aboard logs {job.name} --tail 20", f"aboard exec {job.name} --rank 0 -- ps aux")
        return Explanation(**facts, verdict="Slow", message=words, could=could)
    return Explanation(**facts, verdict="Running", message=said)


def _silence(job: Job, now: datetime) -> tuple[float, float]:
    """Seconds since the last report, and from the start to that report."""
    last = dig(job.document, "status", "trainerStatus", "lastUpdatedTime")
    start = dig(job.document, "status", "aboard", "startTime", default=job.document["metadata"]["creationTimestamp"])
    if not last:
        return 0.0, 0.0
    return (now - moment_of(last)).total_seconds(), (moment_of(last) - moment_of(start)).total_seconds()


# --- words ---


def history(job: Job, events: Sequence[Document]) -> tuple[tuple[str, str], ...]:
    """What happened, as moment and reason, from what was said about the whole job; repetitions are said once."""
    told = [(str(job.document["metadata"]["creationTimestamp"]), "Created")]
    for event in events:
        reason, kind = str(event.get("reason", "")), dig(event, "involvedObject", "kind")
        if (kind in WHOLE or reason == "Evict") and told[-1][1] != reason:
            told.append((event_time(event), reason))
    return tuple(told[:1] + told[1:][-HISTORY:])


def job_of(gang: str) -> str:
    """The job a gang belongs to, by the name the grouper gave it."""
    found = GANG.match(gang)
    return found.group(1) if found else gang.rpartition("/")[2]


def amount(resource: str, number: float) -> str:
    """A number of the scheduler's (milli processors, bytes, devices) as people write it."""
    if resource == "cpu":
        return f"{number / 1000:g} cpu"
    if resource in ("memory", "ephemeral-storage"):
        unit, size = next(((u, s) for u, s in UNITS if number >= s), ("", 1))
        return f"{number / size:.3g} {unit} {resource}".replace("  ", " ")
    return f"{number:g} {resource}"
