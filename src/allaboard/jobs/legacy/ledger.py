"""The status of a legacy job while a pass writes it: its conditions, its replica counts, and the words about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from allaboard.api.documents import Document
from allaboard.api.kinds import POD, SERVICE, Kind
from allaboard.api.meta import is_leaving, key_of, moment_of, name_of, stamp, uid_of
from allaboard.kube.plan import NOTHING, Delete, Event, Plan, Status

CREATED, RUNNING, RESTARTING = "Created", "Running", "Restarting"
SUCCEEDED, FAILED, SUSPENDED = "Succeeded", "Failed", "Suspended"
# Only one of these is there at a time; what ends a job also ends its running.
_RIVALS = {RUNNING: (RESTARTING,), RESTARTING: (RUNNING,)}


@dataclass(slots=True)
class Ledger:
    """What is known about one job, and what will be written."""

    kind: Kind
    job: Document
    now: datetime
    status: Document = field(init=False)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.status = dict(self.job.get("status") or {})

    @property
    def policy(self) -> Document:
        policy: Document = self.job["spec"].get("runPolicy") or {}
        return policy

    def condition(self, type_: str) -> Document | None:
        return next((c for c in self.status.get("conditions") or () if c["type"] == type_), None)

    def has(self, type_: str) -> bool:
        return (self.condition(type_) or {}).get("status") == "True"

    @property
    def is_finished(self) -> bool:
        return self.has(SUCCEEDED) or self.has(FAILED)

    @property
    def is_suspended(self) -> bool:
        return bool(self.policy.get("suspend"))

    def set(self, type_: str, reason: str, message: str, *, true: bool = True) -> bool:
        """Write a condition once per change of heart; rivals step back. Whether anything changed."""
        old = self.condition(type_)
        if old is not None and old["status"] == str(true) and old["reason"] == reason:
            return False
        moment = stamp(self.now)
        new = {"type": type_, "status": str(true), "reason": reason, "message": message, "lastUpdateTime": moment}
        same = old is not None and old["status"] == str(true)
        new["lastTransitionTime"] = old["lastTransitionTime"] if same and old is not None else moment
        rest = [c for c in self.status.get("conditions") or () if c["type"] not in (type_, *_RIVALS.get(type_, ()))]
        if type_ in (SUCCEEDED, FAILED):
            rest = [{**c, "status": "False"} if c["type"] == RUNNING else c for c in rest]
        self.status["conditions"] = [*rest, new]
        return True

    def say(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.events.append(Event(self.job, reason, message, "Warning" if warning else "Normal"))

    def end(self, type_: str, reason: str, message: str, *, warning: bool = False) -> None:
        """The last condition, with its moment and its word."""
        self.say(reason, message, warning=warning)
        self.status.setdefault("completionTime", stamp(self.now))
        self.set(type_, reason, message)

    def started(self) -> None:
        self.status.setdefault("startTime", stamp(self.now))

    def is_overdue(self) -> bool:
        moment = self.deadline()
        return moment is not None and self.now >= moment

    def deadline(self) -> datetime | None:
        seconds, start = self.policy.get("activeDeadlineSeconds"), self.status.get("startTime")
        return moment_of(start) + timedelta(seconds=seconds) if seconds is not None and start else None

    def settle(self) -> None:
        """Whoever still works when a job has succeeded is counted as having done so."""
        if not self.has(SUCCEEDED):
            return
        rows = self.status.get("replicaStatuses") or {}
        self.status["replicaStatuses"] = {name: _settled(row) for name, row in rows.items()}

    def saved(self) -> Plan:
        """Words are only said with a change; a pass that changes nothing repeats nothing."""
        if self.status == (self.job.get("status") or {}):
            return NOTHING
        document = {**self.job, "status": self.status}
        return Plan(status=(Status(self.kind, document),), events=tuple(self.events))

    def expire(self) -> Plan:
        """A finished job is removed when its time has passed."""
        seconds, end = self.policy.get("ttlSecondsAfterFinished"), self.status.get("completionTime")
        if seconds is None or end is None:
            return NOTHING
        moment = moment_of(end) + timedelta(seconds=seconds)
        if moment > self.now:
            return Plan(again=moment)
        gone = Event(self.job, "SuccessfulDeletePod", f"Deleted job: {name_of(self.job)}")
        return Plan(delete=(Delete(self.kind, key_of(self.job), uid_of(self.job)),), events=(gone,))


def _settled(row: Document) -> Document:
    done = row.get("succeeded", 0) + row.get("active", 0)
    return {key: value for key, value in row.items() if key != "active"} | ({"succeeded": done} if done else {})


def phase_of(pod: Document) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def count(pods: Iterable[Document]) -> Document:
    """A replica's row in the status: who runs, who ended and how; one torn from its node has failed."""
    row = {"active": 0, "succeeded": 0, "failed": 0}
    for pod in pods:
        phase = phase_of(pod)
        word = {"Succeeded": "succeeded", "Failed": "failed", "Running": "active"}.get(phase)
        if word:
            row["failed" if phase == "Running" and is_leaving(pod) else word] += 1
    return {key: value for key, value in row.items() if value}


_WORDS = {POD: ("SuccessfulDeletePod", "Deleted pod"), SERVICE: ("SuccessfulDeleteService", "Deleted service")}


def removed(kind: Kind, documents: Iterable[Document], job: Document | None = None) -> Plan:
    """These go; their job, where one is given, says so."""
    going = [document for document in documents if not is_leaving(document)]
    if not going:
        return NOTHING
    deletions = tuple(Delete(kind, key_of(document), uid_of(document)) for document in going)
    if job is None:
        return Plan(delete=deletions)
    reason, word = _WORDS[kind]
    return Plan(delete=deletions, events=tuple(Event(job, reason, f"{word}: {name_of(one)}") for one in going))


def to_clean(policy: str, pods: Iterable[Document]) -> list[Document]:
    """Which pods of a finished job go: `All`, those that are not over (`Running`), or `None`."""
    if policy == "All":
        return list(pods)
    if policy != "Running":
        return []
    return [pod for pod in pods if phase_of(pod) in ("Running", "Pending")]


def by_name(documents: Iterable[Document]) -> dict[str, Document]:
    return {name_of(document): document for document in documents}
