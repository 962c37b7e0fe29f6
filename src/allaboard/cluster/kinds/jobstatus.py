"""What a Job's status may say next: each rule is asked only about what changed. Upstream: batch/job strategy."""

from __future__ import annotations

from typing import NamedTuple

from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds.indexes import Malformed, overlap, read_indexes

COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
TERMINAL = ("Failed", "Complete", "FailureTarget")
NONE = complaints.OMITTED


KINDS = frozenset({"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended"})
ENDINGS = frozenset({"Complete", "Failed"})


class _Turn(NamedTuple):
    """A status and the one before it: which of its keys changed, which conditions are true and were."""

    spec: Document
    status: Document
    before: Document
    changed: set[str]
    now: set[str]
    then: set[str]
    flipped: set[str]


def conditions_of(status: Document, value: str) -> set[str]:
    """The types of all conditions with this status."""
    return {c["type"] for c in status.get("conditions") or () if c.get("status") == value and c.get("type")}


def causes(new: Document, old: Document) -> list[Cause]:
    status, before = new.get("status") or {}, old.get("status") or {}
    changed = {key for key in status.keys() | before.keys() if status.get(key) != before.get(key)}
    now, then = conditions_of(status, "True"), conditions_of(before, "True")
    flipped = (now ^ then) & KINDS
    if now.isdisjoint(ENDINGS) != then.isdisjoint(ENDINGS):
        flipped.add("finished")
    turn = _Turn(new["spec"], status, before, changed, now, then, flipped)
    found: list[Cause] = []
    for key in COUNTS:
        found += complaints.not_negative(f"status.{key}", status.get(key))
    return found + _conditions(turn) + _times(turn) + _finished(turn) + _indexes(turn) + _backwards(turn)


def _both(one: str, other: str) -> Cause:
    return complaints.invalid("status.conditions", NONE, f"cannot set {one}=True and {other}=true conditions")


def _conditions(turn: _Turn) -> list[Cause]:
    now, flipped, found = turn.now, turn.flipped, list[Cause]()
    complete, failed = "Complete" in now, "Failed" in now
    target, met = "FailureTarget" in now, "SuccessCriteriaMet" in now
    if complete and failed and flipped & {"Complete", "Failed"}:
        found.append(_both("Complete", "Failed"))
    if complete and target and flipped & {"Complete", "FailureTarget"}:
        found.append(_both("Complete", "FailureTarget"))
    if failed and not target and ("Failed" in flipped or "failedIndexes" in turn.changed):
        why = "cannot set Failed=True condition without the FailureTarget=true condition"
        found.append(complaints.invalid("status.conditions", NONE, why))
    if complete and not met and flipped & {"Complete", "SuccessCriteriaMet"}:
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        found.append(complaints.invalid("status.conditions", NONE, why))
    if met and failed:
        found.append(_both("SuccessCriteriaMet", "Failed"))
    if met and target:
        found.append(_both("SuccessCriteriaMet", "FailureTarget"))
    return found


def _times(turn: _Turn) -> list[Cause]:
    status, before, changed, found = turn.status, turn.before, turn.changed, list[Cause]()
    start, end, complete = status.get("startTime"), status.get("completionTime"), "Complete" in turn.now
    if "Complete" in turn.flipped or "completionTime" in changed:
        if end is not None and not complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            found.append(complaints.invalid("status.completionTime", end, why))
        if end is None and complete:
            found.append(complaints.required("status.completionTime", "completionTime is required for Complete jobs"))
    if changed & {"startTime", "completionTime"} and start and end and end < start:
        found.append(complaints.invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    if end is not None and before.get("completionTime") not in (None, end):
        found.append(complaints.invalid("status.completionTime", end, complaints.IMMUTABLE))
    moved = before.get("startTime") is not None and "startTime" in changed
    resuming = "Suspended" in turn.then and "Suspended" in conditions_of(status, "False")
    if moved and not resuming and not turn.spec.get("suspend"):
        why = "startTime cannot be removed for unsuspended job"
        found.append(complaints.required("status.startTime", why))
    return found


def _finished(turn: _Turn) -> list[Cause]:
    status, changed, found = turn.status, turn.changed, list[Cause]()
    over, ended = not turn.now.isdisjoint(ENDINGS), "finished" in turn.flipped
    if over and (ended or "active" in changed) and (status.get("active") or 0) > 0:
        found.append(complaints.invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    empty = turn.spec.get("suspend") and turn.spec.get("completions") == 0
    if over and (ended or "startTime" in changed) and status.get("startTime") is None and not empty:
        found.append(complaints.required("status.startTime", "startTime is required for finished job"))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if over and (ended or "uncountedTerminatedPods" in changed) and any(uncounted.values()):
        # Upstream prints the Go struct.
        go = complaints.Ordered({"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")})
        found.append(complaints.invalid("status.uncountedTerminatedPods", go, "must be empty for finished job"))
    if over and (ended or "terminating" in changed) and (status.get("terminating") or 0) > 0:
        why = "terminating>0 is invalid for finished job"
        found.append(complaints.invalid("status.terminating", status["terminating"], why))
    if changed & {"ready", "active"} and (status.get("ready") or 0) > max(status.get("active") or 0, 0):
        ready = status.get("ready") or 0
        found.append(complaints.invalid("status.ready", ready, "cannot set more ready pods than active"))
    seen = set[str]()
    for side in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(side) or ()):
            if uid in seen:
                found.append(complaints.duplicate(f"status.uncountedTerminatedPods.{side}[{index}]", uid))
            seen.add(uid)
    return found


def _indexes(turn: _Turn) -> list[Cause]:
    status, spec, changed, found = turn.status, turn.spec, turn.changed, list[Cause]()
    done, failed, completions = (
        status.get("completedIndexes") or "",
        status.get("failedIndexes"),
        spec.get("completions"),
    )
    each = spec.get("backoffLimitPerIndex") is not None
    if "completedIndexes" in changed and done and spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.append(complaints.invalid("status.completedIndexes", done, why))
    if "failedIndexes" in changed and failed is not None and not each:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.append(complaints.invalid("status.failedIndexes", failed, why))
    if completions is None:
        return found
    if "completedIndexes" in changed:
        found += _readable("completedIndexes", done, completions)
    if "failedIndexes" in changed and each:
        found += _readable("failedIndexes", failed or "", completions)
    if failed and changed & {"completedIndexes", "failedIndexes"}:
        found += _apart(done, failed, completions)
    return found


def _readable(key: str, text: str, completions: int) -> list[Cause]:
    try:
        read_indexes(text, completions)
    except Malformed as error:
        return [complaints.invalid(f"status.{key}", text, f"error parsing {key}: {error}")]
    return []


def _apart(done: str, failed: str, completions: int) -> list[Cause]:
    """No index has both failed and succeeded; what cannot be read is complained about elsewhere."""
    try:
        both = overlap(done, failed, completions)
    except Malformed:
        return []
    if both is None:
        return []
    why = f"failedIndexes and completedIndexes overlap at index: {both}"
    return [complaints.invalid("status.failedIndexes", failed, why)]


def _backwards(turn: _Turn) -> list[Cause]:
    """What may never be taken back."""
    status, before, now, then, found = turn.status, turn.before, turn.now, turn.then, list[Cause]()
    for kind in TERMINAL:
        if kind in then and kind not in now:
            why = f"cannot disable the terminal {kind}=True condition"
            found.append(complaints.invalid("status.conditions", NONE, why))
    if (status.get("failed") or 0) < (before.get("failed") or 0):
        found.append(
            complaints.invalid("status.failed", status.get("failed") or 0, "cannot decrease the failed counter")
        )
    spec = turn.spec
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic and (status.get("succeeded") or 0) < (before.get("succeeded") or 0):
        why = "cannot decrease the succeeded counter"
        found.append(complaints.invalid("status.succeeded", status.get("succeeded") or 0, why))
    if "SuccessCriteriaMet" in then and "SuccessCriteriaMet" not in now:
        why = "cannot disable the SuccessCriteriaMet=True condition"
        found.append(complaints.invalid("status.conditions", NONE, why))
    if "Complete" in then and "SuccessCriteriaMet" not in then and "SuccessCriteriaMet" in now:
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        found.append(complaints.invalid("status.conditions", NONE, why))
    return found
