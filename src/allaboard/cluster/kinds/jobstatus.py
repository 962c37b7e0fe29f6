"""What a Job's status may say next: each rule is asked only about what changed. Upstream: batch/job strategy."""

from __future__ import annotations

from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds.indexes import Malformed, overlap, read_indexes

COUNTS = ("active", "succeeded", "failed", "ready", "terminating")
TERMINAL = ("Failed", "Complete", "FailureTarget")
NONE = complaints.OMITTED


def is_true(job: Document, kind: str) -> bool:
    conditions = dig(job, "status", "conditions", default=[])
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def is_over(job: Document) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def is_false(job: Document, kind: str) -> bool:
    conditions = dig(job, "status", "conditions", default=[])
    return any(c.get("type") == kind and c.get("status") == "False" for c in conditions)


def causes(new: Document, old: Document) -> list[Cause]:
    status, before = new.get("status") or {}, old.get("status") or {}
    changed = {key for key in status.keys() | before.keys() if status.get(key) != before.get(key)}
    flipped = {kind for kind in KINDS if is_true(new, kind) != is_true(old, kind)}
    if is_over(new) != is_over(old):
        flipped.add("finished")
    found = [cause for key in COUNTS for cause in complaints.not_negative(f"status.{key}", status.get(key))]
    found += _conditions(new, flipped, changed) + _times(new, old, flipped, changed)
    found += _finished(new, flipped, changed) + _indexes(new, changed)
    return found + _backwards(new, old)


KINDS = ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "Suspended")


def _both(new: Document, one: str, other: str) -> Cause:
    return complaints.invalid("status.conditions", NONE, f"cannot set {one}=True and {other}=true conditions")


def _conditions(new: Document, flipped: set[str], changed: set[str]) -> list[Cause]:
    complete, failed, target, met = (is_true(new, kind) for kind in KINDS[:4])
    found: list[Cause] = []
    if complete and failed and flipped & {"Complete", "Failed"}:
        found.append(_both(new, "Complete", "Failed"))
    if complete and target and flipped & {"Complete", "FailureTarget"}:
        found.append(_both(new, "Complete", "FailureTarget"))
    if failed and not target and ("Failed" in flipped or "failedIndexes" in changed):
        why = "cannot set Failed=True condition without the FailureTarget=true condition"
        found.append(complaints.invalid("status.conditions", NONE, why))
    if complete and not met and flipped & {"Complete", "SuccessCriteriaMet"}:
        why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        found.append(complaints.invalid("status.conditions", NONE, why))
    if met and failed:
        found.append(_both(new, "SuccessCriteriaMet", "Failed"))
    if met and target:
        found.append(_both(new, "SuccessCriteriaMet", "FailureTarget"))
    return found


def _times(new: Document, old: Document, flipped: set[str], changed: set[str]) -> list[Cause]:
    status, before, found = new.get("status") or {}, old.get("status") or {}, list[Cause]()
    start, end, complete = status.get("startTime"), status.get("completionTime"), is_true(new, "Complete")
    if "Complete" in flipped or "completionTime" in changed:
        if end is not None and not complete:
            why = "cannot set completionTime when there is no Complete=True condition"
            found.append(complaints.invalid("status.completionTime", end, why))
        if end is None and complete:
            found.append(complaints.required("status.completionTime", "completionTime is required for Complete jobs"))
    if changed & {"startTime", "completionTime"} and start and end and end < start:
        found.append(complaints.invalid("status.completionTime", end, "must be equal to or after `startTime`"))
    if end is not None and before.get("completionTime") not in (None, end):
        found.append(complaints.invalid("status.completionTime", end, complaints.IMMUTABLE))
    resuming = is_true(old, "Suspended") and is_false(new, "Suspended")
    moved = before.get("startTime") is not None and "startTime" in changed
    if moved and not resuming and not dig(new, "spec", "suspend", default=False):
        why = "startTime cannot be removed for unsuspended job"
        found.append(complaints.required("status.startTime", why))
    return found


def _finished(new: Document, flipped: set[str], changed: set[str]) -> list[Cause]:
    status, found = new.get("status") or {}, list[Cause]()
    over = is_over(new)
    ended = "finished" in flipped
    if over and (ended or "active" in changed) and (status.get("active") or 0) > 0:
        found.append(complaints.invalid("status.active", status["active"], "active>0 is invalid for finished job"))
    empty = dig(new, "spec", "suspend", default=False) and dig(new, "spec", "completions") == 0
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


def _indexes(new: Document, changed: set[str]) -> list[Cause]:
    status, spec, found = new.get("status") or {}, new["spec"], list[Cause]()
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


def _backwards(new: Document, old: Document) -> list[Cause]:
    """What may never be taken back."""
    status, before, found = new.get("status") or {}, old.get("status") or {}, list[Cause]()
    for kind in TERMINAL:
        if is_true(old, kind) and not is_true(new, kind):
            why = f"cannot disable the terminal {kind}=True condition"
            found.append(complaints.invalid("status.conditions", NONE, why))
    if (status.get("failed") or 0) < (before.get("failed") or 0):
        found.append(
            complaints.invalid("status.failed", status.get("failed") or 0, "cannot decrease the failed counter")
        )
    spec = new["spec"]
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not elastic and (status.get("succeeded") or 0) < (before.get("succeeded") or 0):
        why = "cannot decrease the succeeded counter"
        found.append(complaints.invalid("status.succeeded", status.get("succeeded") or 0, why))
    if is_true(old, "SuccessCriteriaMet") and not is_true(new, "SuccessCriteriaMet"):
        why = "cannot disable the SuccessCriteriaMet=True condition"
        found.append(complaints.invalid("status.conditions", NONE, why))
    if is_true(old, "Complete") and not is_true(old, "SuccessCriteriaMet") and is_true(new, "SuccessCriteriaMet"):
        why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        found.append(complaints.invalid("status.conditions", NONE, why))
    return found
