"""What may change in a JobSet that exists: sleeping, and the pods' surroundings while it sleeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.jobs.complaints import forbidden, invalid, shown
from allaboard.jobs.story import ELASTIC
from allaboard.jobs.success import is_finished

_IMMUTABLE = "field is immutable"
_STRUCTS = ("metadata", "resources", "status")
_SIZES = ("parallelism", "completions")
_OVER = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)"


def causes(new: Document, old: Document, gates: frozenset[str]) -> list[Cause]:
    """replicatedJobs and managedBy stay; a suspended JobSet may change where its pods will run."""
    found: list[Cause] = []
    wanted, present = new["spec"].get("replicatedJobs") or [], old["spec"].get("replicatedJobs") or []
    known = {entry["name"]: entry for entry in present}
    asleep = bool(new["spec"].get("suspend") or old["spec"].get("suspend"))
    munged = [_munged(entry, known.get(entry["name"]), asleep=asleep) for entry in wanted]
    if ELASTIC in gates:
        for number, entry in enumerate(wanted):
            if _is_elastic(entry, known):
                found += _sizes(number, entry["template"]["spec"], known[entry["name"]], over=is_finished(old))
                munged[number] = _resized(munged[number], known[entry["name"]])
    if _bare(munged) != _bare(present):
        found.append(invalid("spec.replicatedJobs", [shown(entry) for entry in wanted], _IMMUTABLE))
    if new["spec"].get("managedBy") != old["spec"].get("managedBy"):
        found.append(invalid("spec.managedBy", new["spec"].get("managedBy"), _IMMUTABLE))
    return found


def _is_elastic(entry: Document, known: dict[str, Document]) -> bool:
    return entry["name"] in known and entry["template"]["spec"].get("completionMode") == "Indexed"


def _sizes(number: int, job: Document, old: Document, *, over: bool) -> Iterable[Cause]:
    """An Indexed Job may change both its sizes, together, while it is not over."""
    field = f"spec.replicatedJobs[{number}].template.spec"
    before = old["template"]["spec"]
    changed = [key for key in _SIZES if job.get(key) != before.get(key)]
    if changed and over:
        yield forbidden(field, _OVER)
        return
    for key in changed:
        if job.get(key) is not None and job[key] < 1:
            yield invalid(f"{field}.{key}", job[key], f"{key} must be >= 1")
    sizes = [job[key] for key in _SIZES if job.get(key) is not None]
    if changed and len(set(sizes)) > 1:
        words = "completions must be equal to parallelism for Elastic Indexed Jobs"
        yield invalid(f"{field}.completions", job["completions"], words)


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


def _munged(new: Document, old: Document | None, *, asleep: bool) -> Document:
    """The new entry with what may change taken from the old, so that the rest can be compared."""
    if not asleep or old is None:
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
    """The sizes were judged already."""
    job, before = new["template"]["spec"], old["template"]["spec"]
    kept = {key: value for key, value in job.items() if key not in _SIZES}
    sizes = {key: before[key] for key in _SIZES if key in before}
    return {**new, "template": {**new["template"], "spec": kept | sizes}}


def _with_job(entry: Document, fields: Document) -> Document:
    return {**entry, "template": {**entry["template"], "spec": {**entry["template"]["spec"], **fields}}}
