"""Why a job is where it is: one verdict, one reason with its numbers, and what could be done about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from allaboard.api import labels
from allaboard.api.documents import Document, dig
from allaboard.api.meta import condition_of, labels_of, moment_of, name_of, namespace_of
from allaboard.api.quantity import BadQuantity, parse
from allaboard.sdk.jobs import Failure, Job, pod_phase
from allaboard.sdk.reading import event_time

# `pg-NAME-UID`, and the phase after it where a job has several: how gangs are called.
GANG = re.compile(r"^(?:[^/]+/)?pg-(.+?)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
UNITS = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
SMALLER = ("FairShare", "InsufficientResource", "Fragmented", "NeverFits", "TopologyUnsatisfiable", "OverLimit")
# What a queue may use stands in the way, whatever the nodes have: `free` is what the queue may still use.
BOUNDS = ("OverLimit", "ParentOverLimit", "NonPreemptibleOverQuota")
# The phase a gang is named after, behind the uid of its owner.
PHASE = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(.+)$")
NUMBERS = ("code", "position", "waiting", "overall", "estimate")
QUIET = 60.0  # seconds without a report that need no explanation
SHOWN_HOLDERS = 4
HISTORY = 6
WHOLE = ("TrainJob", "JobSet", "PodGroup")  # whose events tell about the whole job
MAKERS = ("TrainJob", "JobSet", "Job")  # whose controllers make what comes next


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
    waiting: int = 0
    overall: int = 0
    waiting_overall: int = 0
    ahead: tuple[str, ...] = ()
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
            code, words = _step(job)
            message = "; ".join(filter(None, (_what_starts(job), words)))
            return Explanation(**facts, verdict="Starting", code=code, message=message)
        case "Suspended":
            could = (f"aboard resume {job.name}",)
            return Explanation(**facts, verdict="Suspended", code="Suspended", message=_suspended(job), could=could)
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
    hindrance = hindered(job, events)
    if hindrance is not None:
        code, message = hindrance
        return Explanation(**facts, verdict="Blocked", code=code, message=message)
    why, evicted = job.why, _evicted(events)
    message = job.reason or "the scheduler has not looked at it yet"
    numbers: Document = {name: why[name] for name in NUMBERS if name in why}
    numbers |= {"waiting_overall": why.get("waitingOverall", 0), "ahead": tuple(map(job_of, why.get("ahead") or ()))}
    needs, free = why.get("needs") or {}, why.get("free") or {}
    return Explanation(
        **facts | numbers,
        verdict="Preempted" if evicted else str(why.get("verdict") or "Waiting"),
        message=f"{evicted}; {message}" if evicted else message,
        needs={name: amount(name, number) for name, number in needs.items()},
        free={name: amount(name, number) for name, number in free.items()},
        held_by=(*_holders(needs, free, _in_question(why, groups, job), job), *_held_by(why, groups))[:SHOWN_HOLDERS],
        unblock=tuple(why.get("unblock") or ()),
        could=_options(job, why),
    )


def hindered(job: Job, events: Sequence[Document]) -> tuple[str, str] | None:
    """Reason and words of the controller that could not make what comes next: no scheduler places what is not there."""
    if job.pods and len(job.pods) >= wanted(job):
        return None
    said = [event for event in events if dig(event, "involvedObject", "kind") in MAKERS]
    last: Document = said[-1] if said else {}
    return (str(last.get("reason", "")), str(last.get("message", ""))) if last.get("type") == "Warning" else None


def _held_by(why: Document, groups: Iterable[Document]) -> tuple[Holder, ...]:
    """Who held most when the job was refused, of those whose gangs may not be seen: of the others one sees it now."""
    seen = {f"{namespace_of(group)}/{name_of(group)}" for group in groups}
    said = [holder for holder in why.get("heldBy") or [] if holder["gang"] not in seen]
    return tuple(
        Holder(job_of(h["gang"]), amount("gpu", h["gpus"]), h.get("queue", ""), bool(h.get("preemptible")))
        for h in said
    )


def _in_question(why: Document, groups: Sequence[Document], job: Job) -> Sequence[Document]:
    """The gangs that may hold what is missing: only those of its own queue where that has all it may use."""
    if why.get("code") not in BOUNDS or why.get("queue") != job.queue:
        return groups
    return [group for group in groups if dig(group, "spec", "queue") == job.queue]


def _holders(needs: Document, free: Document, groups: Iterable[Document], job: Job) -> tuple[Holder, ...]:
    """Who holds most of the first resource there is not enough of, from what the gangs' status says."""
    short = next((name for name in needs if needs[name] > free.get(name, 0)), "")
    mine = {name_of(group) for group in job.groups}
    held = [(_holding(group, short), group) for group in groups if short and name_of(group) not in mine]
    most = sorted(((number, group) for number, group in held if number), key=lambda h: (-h[0], name_of(h[1])))
    return tuple(
        Holder(job_of(name_of(g)), amount(short, number), str(dig(g, "spec", "queue", default="")), _yields(g))
        for number, g in most[:SHOWN_HOLDERS]
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


def _suspended(job: Job) -> str:
    said: Document = condition_of(job.document, "Suspended") or {}
    since = f" since {said['lastTransitionTime']}" if said.get("lastTransitionTime") else ""
    return f"it was taken off its nodes{since}: spec.suspend is true"


def _step(job: Job) -> tuple[str, str]:
    """The code and the words of a job whose training waits for an earlier step; empty where nothing does."""
    made = {labels_of(pod).get(labels.REPLICATED_JOB, "") for pod in job.pods} - {""}
    phases = [found[1] for group in job.groups if (found := PHASE.search(name_of(group)))]
    later = [phase for phase in phases if phase not in made]
    if not made or not later:
        return "", ""
    code = "WaitingForInitializer" if all("initializer" in name for name in made) else "DependsOn"
    return (
        code,
        f"{later[0]} waits until {' and '.join(sorted(made))} {'has' if len(made) == 1 else 'have'} done its part",
    )


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
    if (step := _step(job))[0]:
        return Explanation(**facts, verdict="Starting", code=step[0], message=f"{step[1]}; {said}")
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
        step = (event_time(event), reason)
        # A gang and its job are told the same in the same moment.
        if (kind in WHOLE or reason == "Evict") and told[-1][1] != reason and step not in told:
            told.append(step)
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
