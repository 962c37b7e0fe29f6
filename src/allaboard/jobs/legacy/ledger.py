"""The status of a legacy job while a pass writes it: its conditions, its replica counts, and the words about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from allaboard.api.documents import Document
from allaboard.api.kinds import Kind
from allaboard.api.meta import key_of, moment_of, name_of, stamp, uid_of
from allaboard.kube.plan import NOTHING, Delete, Event, Plan, Status

CREATED, RUNNING, RESTARTING = "Created", "Running", "Restarting"
SUCCEEDED, FAILED, SUSPENDED = "Succeeded", "Failed", "Suspended"
# Only one of these is true at a time; what ends a job also ends its running.
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

    def has(self, type_: str) -> bool:
        return any(c["type"] == type_ and c["status"] == "True" for c in self.status.get("conditions") or ())

    @property
    def is_finished(self) -> bool:
        return self.has(SUCCEEDED) or self.has(FAILED)

    @property
    def is_suspended(self) -> bool:
        return bool(self.policy.get("suspend"))

    def set(self, type_: str, reason: str, message: str, *, true: bool = True) -> None:
        """Write a condition once per change of heart; rivals step back."""
        old = next((c for c in self.status.get("conditions") or () if c["type"] == type_), None)
        if old is None and not true:
            return
        if old is not None and old["status"] == str(true) and old["reason"] == reason:
            return
        moment = stamp(self.now)
        moved = old is None or old["status"] != str(true)
        new = {"type": type_, "status": str(true), "reason": reason, "message": message, "lastUpdateTime": moment}
        new["lastTransitionTime"] = moment if moved or old is None else old["lastTransitionTime"]
        rest = [c for c in self.status.get("conditions") or () if c["type"] not in (type_, *_RIVALS.get(type_, ()))]
        if true and type_ in (SUCCEEDED, FAILED, SUSPENDED):
            rest = [self._stopped(condition) for condition in rest]
        self.status["conditions"] = [*rest, new]
        self.say(reason, message, warning=type_ in (FAILED, RESTARTING) and true)

    def _stopped(self, condition: Document) -> Document:
        if condition["type"] != RUNNING or condition["status"] == "False":
            return condition
        return {**condition, "status": "False", "lastTransitionTime": stamp(self.now)}

    def say(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.events.append(Event(self.job, reason, message, "Warning" if warning else "Normal"))

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
        if self.status == (self.job.get("status") or {}):
            return Plan(events=tuple(self.events)) if self.events else NOTHING
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
        return Plan(delete=(Delete(self.kind, key_of(self.job), uid_of(self.job), "Foreground"),))


def _settled(row: Document) -> Document:
    done = row.get("succeeded", 0) + row.get("active", 0)
    return {key: value for key, value in row.items() if key != "active"} | ({"succeeded": done} if done else {})


def count(pods: Iterable[Document]) -> Document:
    """A replica's row in the status: who works, who ended and how."""
    row = {"active": 0, "succeeded": 0, "failed": 0}
    for pod in pods:
        phase = (pod.get("status") or {}).get("phase", "Pending")
        word = {"Succeeded": "succeeded", "Failed": "failed"}.get(phase, "active")
        row[word] += 1
    return {key: value for key, value in row.items() if value}


def removed(kind: Kind, documents: Iterable[Document]) -> Plan:
    going = [document for document in documents if not document["metadata"].get("deletionTimestamp")]
    return Plan(delete=tuple(Delete(kind, key_of(document), uid_of(document)) for document in going))


def to_clean(policy: str, pods: Iterable[Document]) -> list[Document]:
    """Which pods of a finished job go: `All`, those still `Running`, or `None`."""
    if policy == "All":
        return list(pods)
    if policy != "Running":
        return []
    over = ("Succeeded", "Failed")
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in over]


def by_name(documents: Iterable[Document]) -> dict[str, Document]:
    return {name_of(document): document for document in documents}
