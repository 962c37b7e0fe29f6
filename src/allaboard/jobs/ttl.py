"""Time to live: what finished is removed when its time has passed."""

from __future__ import annotations

from datetime import datetime, timedelta

from allaboard.api.documents import Document
from allaboard.api.kinds import Kind
from allaboard.api.meta import condition_of, is_leaving, key_of, moment_of, uid_of
from allaboard.kube.plan import NOTHING, Delete, Plan


def is_mortal(document: Document) -> bool:
    return document["spec"].get("ttlSecondsAfterFinished") is not None


def finish_time(document: Document, *types: str) -> datetime | None:
    """When the first of these conditions became True."""
    for type_ in types:
        condition = condition_of(document, type_)
        if condition and condition["status"] == "True":
            return moment_of(condition["lastTransitionTime"])
    return None


def expire(kind: Kind, document: Document, finished: datetime | None, now: datetime) -> Plan:
    """Remove a finished object with everything it owns, or come back when it is time."""
    seconds = document["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or finished is None or is_leaving(document):
        return NOTHING
    moment = finished + timedelta(seconds=seconds)
    if moment > now:
        return Plan(again=moment)
    return Plan(delete=(Delete(kind, key_of(document), uid_of(document), "Foreground"),))
