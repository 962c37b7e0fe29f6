"""A JobSet's status while a pass writes it: conditions with the words said about them, saved once at the end."""

from __future__ import annotations

from datetime import datetime

from allaboard.api.documents import Document
from allaboard.api.meta import asks_the_same, with_condition
from allaboard.kube.plan import Event

ACTION = "Reconciling"
COUNTS = ("ready", "succeeded", "failed", "active", "suspended")
# Setting one of these True makes the other False; it keeps its reason and message.
_EXCLUSIVE = {
    "StartupPolicyInProgress": "StartupPolicyCompleted",
    "StartupPolicyCompleted": "StartupPolicyInProgress",
}


class Draft:
    """The status to be, and the events to be written after it."""

    def __init__(self, jobset: Document, now: datetime) -> None:
        self.jobset, self.now = jobset, now
        self.status: Document = dict(jobset.get("status") or {})
        self.status.setdefault("restarts", 0)
        self.events: list[Event] = []

    def condition(self, type_: str) -> Document | None:
        return next((c for c in self.status.get("conditions") or () if c["type"] == type_), None)

    def set(self, type_: str, reason: str, message: str, *, true: bool = True, warning: bool = False) -> bool:
        """Write a condition and say so. What was never True is not worth a False; what stands is not said twice."""
        new = {"type": type_, "status": str(true), "reason": reason, "message": message}
        old = self.condition(type_)
        if old is None and not true:
            return False
        if old is not None and all(old.get(key) == value for key, value in new.items()):
            return False
        conditions = with_condition(self.status.get("conditions") or (), new, self.now)
        other = self.condition(_EXCLUSIVE.get(type_, ""))
        if true and other is not None and other["status"] == "True":
            conditions = with_condition(conditions, {**other, "status": "False", "lastTransitionTime": None}, self.now)
        self.status["conditions"] = conditions
        self.say(reason, message, warning=warning)
        return True

    def say(self, reason: str, message: str, *, warning: bool = False) -> None:
        kind = "Warning" if warning else "Normal"
        self.events.append(Event(self.jobset, reason, message, kind, ACTION))

    def no_longer_restarting(self, reason: str, message: str) -> None:
        """A restart ends when all are ready, or when something larger comes over it."""
        self.set("RestartingJobSet", reason, message, true=False)

    @property
    def is_changed(self) -> bool:
        return self.status != {"restarts": 0, **(self.jobset.get("status") or {})}


def only_counts(old: Document, new: Document) -> bool:
    """Whether a JobSet changed in nothing but the counts of its Jobs, which are told to others and not to itself."""
    return asks_the_same(old, new) and _uncounted(old) == _uncounted(new)


def _uncounted(jobset: Document) -> Document:
    status = {"restarts": 0, **(jobset.get("status") or {})}
    # Restarts of single Jobs are counted there too, and those the next pass goes by.
    rows = [{key: row[key] for key in row if key not in COUNTS} for row in status.pop("replicatedJobsStatus", ())]
    return {**status, "restarted": [row for row in rows if len(row) > 1]}
