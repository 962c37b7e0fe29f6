"""What may change in a JobSet that exists: sleeping, and the pods' surroundings while it sleeps."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.jobs.complaints import invalid
from allaboard.jobs.story import ELASTIC

_IMMUTABLE = "field is immutable"
_STRUCTS = ("metadata", "resources", "status")


def causes(new: Document, old: Document, gates: frozenset[str]) -> list[Cause]:
    """replicatedJobs and managedBy stay; a suspended JobSet may change where its pods will run."""
    found = []
    wanted, present = new["spec"].get("replicatedJobs") or [], old["spec"].get("replicatedJobs") or []
    asleep = bool(new["spec"].get("suspend") or old["spec"].get("suspend"))
    munged = [_munged(*pair, asleep=asleep) for pair in zip(wanted, present)]
    if ELASTIC in gates and not dig(old, "status", "terminalState"):
        munged = [_resized(*pair) for pair in zip(munged, present)]
    if _bare(munged) != _bare(present) or len(wanted) != len(present):
        found.append(invalid("spec.replicatedJobs", wanted, _IMMUTABLE))
    if new["spec"].get("managedBy") != old["spec"].get("managedBy"):
        found.append(invalid("spec.managedBy", new["spec"].get("managedBy"), _IMMUTABLE))
    return found


def _bare(value: object) -> object:
    """A value as Go compares it: structs that are empty and lists that are empty are as good as absent."""
    if isinstance(value, list):
        return [_bare(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    bare = {key: _bare(entry) for key, entry in value.items()}
    return {
        key: entry for key, entry in bare.items() if entry not in (None, []) and (entry != {} or key not in _STRUCTS)
    }


def _munged(new: Document, old: Document, *, asleep: bool) -> Document:
    """The new entry with what may change taken from the old, so that the rest can be compared."""
    if not asleep:
        return new
    pod, before = new["template"]["spec"]["template"], old["template"]["spec"]["template"]
    metadata = _taken(pod.get("metadata"), before.get("metadata"), ("labels", "annotations"))
    spec = _taken(pod["spec"], before["spec"], ("nodeSelector", "tolerations", "schedulingGates"))
    template = {**pod, "spec": spec} | ({"metadata": metadata} if metadata is not None else {})
    return _with_job(new, {"template": template})


def _taken(new: Document | None, old: Document | None, keys: Sequence[str]) -> Document | None:
    if new is None and old is None:
        return None
    kept = {key: value for key, value in (new or {}).items() if key not in keys}
    return kept | {key: (old or {})[key] for key in keys if key in (old or {})}


def _resized(new: Document, old: Document) -> Document:
    """An Indexed Job may change both its sizes together."""
    job, before = new["template"]["spec"], old["template"]["spec"]
    size = job.get("parallelism")
    if job.get("completionMode") != "Indexed" or size != job.get("completions") or not size or size < 1:
        return new
    return _with_job(new, {key: before[key] for key in ("parallelism", "completions") if key in before})


def _with_job(entry: Document, fields: Document) -> Document:
    return {**entry, "template": {**entry["template"], "spec": {**entry["template"]["spec"], **fields}}}
