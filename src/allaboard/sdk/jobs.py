"""A job as people see it: its phase, its ranks, why it waits, what failed first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from allaboard.api import labels
from allaboard.api.documents import Document, dig
from allaboard.api.meta import annotations_of, condition_of, is_leaving, is_true, labels_of, moment_of, name_of
from allaboard.api.quantity import parse

FINISHED = ("Complete", "Failed")


@dataclass(frozen=True, slots=True)
class Rank:
    """One pod of a job, by the word people use for it: `r0`, `r1`, `launcher`, `dataset-initializer`."""

    word: str
    order: tuple[int, str, int]
    pod: Document


@dataclass(frozen=True, slots=True)
class Failure:
    """Who failed first, and how; `words` is what it said last, where somebody kept that."""

    rank: str
    pod: str
    node: str
    code: int
    reason: str
    moment: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A TrainJob with what belongs to it; `failures` are those its JobSet remembers, the first one first."""

    document: Document
    pods: Sequence[Document] = ()
    groups: Sequence[Document] = ()
    failures: Sequence[Document] = ()

    @property
    def name(self) -> str:
        return name_of(self.document)

    @property
    def phase(self) -> str:
        """Complete, Failed, Deleting, Suspended, Running, Starting or Pending."""
        if is_leaving(self.document):
            return "Deleting"
        for finished in FINISHED:
            if is_true(self.document, finished):
                return finished
        if dig(self.document, "spec", "suspend"):
            return "Suspended"
        live = [pod for pod in self.pods if not is_leaving(pod)]
        if live and all(pod_phase(pod) != "Pending" for pod in live):
            return "Running"
        return "Starting" if any(is_placed(pod) for pod in live) else "Pending"

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def born(self) -> str:
        return str(self.document["metadata"].get("creationTimestamp") or "")

    @property
    def queue(self) -> str:
        given = [labels_of(d).get(labels.QUEUE) or dig(d, "spec", "queue") for d in (self.document, *self.groups)]
        return next((queue for queue in given if queue), "default-queue")

    @property
    def placed(self) -> int:
        return sum(is_placed(pod) for pod in self.pods)

    @property
    def gpus(self) -> int:
        return sum(int(pod_gpus(pod)) for pod in self.pods)

    @property
    def progress(self) -> int | None:
        percent = dig(self.document, "status", "trainerStatus", "progressPercentage")
        return None if percent is None else int(percent)

    @property
    def ranks(self) -> list[Rank]:
        return ranks(self.pods)

    @property
    def first_failure(self) -> Failure | None:
        """What the controllers remember counts; each account of that pod may know what the others left out."""
        told = [_told(entry) for entry in self.failures]
        first = next((f for f in (_remembered(self.document), *told) if f), None) or first_failure(self.pods)
        if first is None:
            return None
        seen = [failure for pod in self.pods for failure in _failures(pod)]
        return _united(first, [failure for failure in (*seen, *told) if failure.pod == first.pod])

    @property
    def nodes(self) -> list[str]:
        return sorted({dig(pod, "spec", "nodeName", default="") for pod in self.pods} - {""})

    @property
    def why(self) -> Document:
        """What the scheduler wrote about the gang that waits: code, verdict, message and numbers."""
        said: list[Document] = [dig(group, "status", "aboard", "why", default={}) for group in self.groups]
        return next((why for why in said if why), {})

    @property
    def reason(self) -> str:
        """Why it is not further, in one sentence; empty when nothing holds it up."""
        if self.phase == "Failed":
            return str((condition_of(self.document, "Failed") or {}).get("message", ""))
        if self.phase != "Pending":
            return ""
        said = annotations_of(self.document).get(f"{labels.ABOARD}why", "")
        return said or next((text for text in map(_objection, self.groups) if text), "") or _pod_objection(self.pods)

    def seconds(self, now: datetime) -> float:
        """How long it has been there, or how long it took."""
        created = moment_of(self.born)
        ended = [condition_of(self.document, finished) for finished in FINISHED]
        ends = [moment_of(c["lastTransitionTime"]) for c in ended if c and c.get("status") == "True"]
        return ((ends[0] if ends else now) - created).total_seconds()


def ranks(pods: Iterable[Document]) -> list[Rank]:
    """The pods of a job in rank order: trainer nodes by index, then everything else by name."""
    return sorted((_rank(pod) for pod in pods), key=lambda rank: rank.order)


def standing(pods: Iterable[Document]) -> list[Document]:
    """The pods without those that others came in place of, as after a preemption: one for each rank."""
    found: dict[object, Document] = {}
    for pod in sorted(pods, key=lambda pod: (pod_phase(pod) != "Failed", pod["metadata"].get("creationTimestamp", ""))):
        found[_rank(pod).order if labels.COMPLETION_INDEX in labels_of(pod) else name_of(pod)] = pod
    return sorted(found.values(), key=name_of)


def choose(ranks: list[Rank], which: str) -> list[Rank]:
    """`all`, `last`, or a list of ranks by number or word."""
    if which == "all":
        return ranks
    if which == "last":
        return ranks[-1:]
    wanted = {f"r{word}" if word.isdigit() else word for word in which.split(",")}
    return [rank for rank in ranks if rank.word in wanted]


def is_reached(job: Job, what: str) -> bool:
    if what.startswith("condition="):
        return is_true(job.document, what.partition("=")[2])
    return job.phase.lower() == what.lower()


def _rank(pod: Document) -> Rank:
    job = labels_of(pod).get(labels.REPLICATED_JOB, "")
    index = int(labels_of(pod).get(labels.COMPLETION_INDEX, 0)) + _before(pod)
    if job in ("node", ""):
        return Rank(f"r{index}", (0, job, index), pod)
    return Rank(job if index == 0 else f"{job}-{index}", (1, job, index), pod)


def _before(pod: Document) -> int:
    """How many pods earlier Jobs of the same replicated job have: a job index counts whole Jobs."""
    return int(labels_of(pod).get(labels.JOB_INDEX, 0))


def pod_phase(pod: Document) -> str:
    return str(dig(pod, "status", "phase", default="Pending"))


def is_placed(pod: Document) -> bool:
    return bool(dig(pod, "spec", "nodeName"))


def pod_gpus(pod: Document) -> float:
    """GPUs of every vendor a pod asks for."""
    containers = dig(pod, "spec", "containers", default=[])
    asked = [dig(c, "resources", "requests", default={}) for c in containers]
    return sum(float(parse(amount)) for requests in asked for name, amount in requests.items() if "gpu" in name)


def first_failure(pods: Iterable[Document]) -> Failure | None:
    """The container that ended badly before all others, among pods that are still there."""
    failures = [failure for pod in pods if not is_leaving(pod) for failure in _failures(pod)]
    return min(failures, key=lambda failure: (failure.moment, failure.rank), default=None)


def _remembered(job: Document) -> Failure | None:
    """The first failure as the TrainJob keeps it, for when the pods are gone."""
    said = dig(job, "status", "aboard", "firstFailure", default={})
    if not said:
        return None
    word = f"r{said['rank']}" if said.get("job") in ("node", None) and "rank" in said else str(said.get("job", ""))
    message = str(said.get("message", ""))
    reason, words = (message, "") if message.isalpha() else ("Error", message)  # one word is a reason, more are a story
    code, node = int(said.get("exitCode", 0)), str(said.get("node", ""))
    return Failure(word, str(said.get("pod", "")), node, code, reason, str(said.get("time", "")), words)


def _told(entry: Document) -> Failure:
    """A failure as a JobSet keeps it."""
    texts = {name: str(entry.get(name) or "") for name in ("pod", "node", "reason", "at", "message")}
    rank = f"r{entry['index']}" if "index" in entry else ""
    code = int(entry.get("exitCode") or 0)
    return Failure(rank, texts["pod"], texts["node"], code, texts["reason"] or "Error", texts["at"], texts["message"])


def _united(first: Failure, others: Iterable[Failure]) -> Failure:
    """One account of a failure, each gap filled from the next account that has something to say."""
    for other in others:
        gaps = {name: getattr(other, name) for name in ("rank", "node", "words") if not getattr(first, name)}
        first = replace(first, **gaps)
    return first


def _failures(pod: Document) -> Iterable[Failure]:
    statuses = [
        *dig(pod, "status", "initContainerStatuses", default=[]),
        *dig(pod, "status", "containerStatuses", default=[]),
    ]
    for status in statuses:
        for state in (dig(status, "state", "terminated"), dig(status, "lastState", "terminated")):
            if state and state.get("exitCode"):
                yield Failure(
                    _rank(pod).word,
                    name_of(pod),
                    dig(pod, "spec", "nodeName", default=""),
                    int(state["exitCode"]),
                    str(state.get("reason", "Error")),
                    str(state.get("finishedAt", "")),
                )


def _objection(group: Document) -> str:
    """What the scheduler last said about a gang that waits."""
    conditions = [
        *dig(group, "status", "schedulingConditions", default=[]),
        *dig(group, "status", "conditions", default=[]),
    ]
    said = [c.get("message", "") for c in conditions if c.get("message") and c.get("status", "True") == "True"]
    return str(said[-1]) if said else ""


def _pod_objection(pods: Iterable[Document]) -> str:
    for pod in pods:
        condition = condition_of(pod, "PodScheduled")
        if condition and condition.get("status") == "False" and condition.get("message"):
            return str(condition["message"])
    return ""
