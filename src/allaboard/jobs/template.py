"""The pod document that a Job makes from its template."""

from __future__ import annotations

from allaboard.api import labels
from allaboard.api.documents import Document, Documents
from allaboard.api.meta import name_of, namespace_of, owner_reference
from allaboard.api.twins import made_once
from allaboard.jobs import podfailure
from allaboard.jobs.members import INDEX_FAILURES, INDEX_IGNORED, TRACKING, Member, counted_failures, ignored_failures
from allaboard.jobs.tally import Order

_LONGEST_PREFIX = 58  # of a generated name, whose random part is five characters
_INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{labels.COMPLETION_INDEX}']"}},
}


def pod_of(order: Order, index: int | None, suffix: str, replaced: Member | None = None) -> Document:
    """A new pod of this Job; `suffix` makes its name its own."""
    job, template = order.job, order.spec["template"]
    inherited = template.get("metadata") or {}
    prefix = _prefix(name_of(job), index)
    metadata: Document = {
        "name": prefix[:_LONGEST_PREFIX] + suffix,
        "generateName": prefix,
        "namespace": namespace_of(job),
        "labels": dict(inherited.get("labels") or {}),
        "annotations": dict(inherited.get("annotations") or {}),
        "finalizers": [*(inherited.get("finalizers") or ()), TRACKING],
        "ownerReferences": [owner_reference(job)],
    }
    spec = template["spec"]
    if index is not None:
        spec = _placed(spec, job, index)
        metadata["labels"][labels.COMPLETION_INDEX] = str(index)
        metadata["annotations"][labels.COMPLETION_INDEX] = str(index)
        if order.per_index is not None:
            metadata["annotations"] |= _failures(order, replaced)
    if not metadata["annotations"]:
        del metadata["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _prefix(job: str, index: int | None) -> str:
    if index is None:  # as long as it comes: only the name made of it is cut
        return f"{job}-"
    tail = f"-{index}-"
    return job[: _LONGEST_PREFIX - len(tail)] + tail


def _placed(spec: Document, job: Document, index: int) -> Document:
    """The template's spec with the host name and the variable that tell a pod its index."""
    placed = {**spec, "hostname": f"{name_of(job)}-{index}"}
    for key in ("initContainers", "containers"):
        if spec.get(key):
            placed[key] = _all_told(spec[key])
    return placed


@made_once
def _all_told(containers: Documents) -> Documents:
    """The same for every pod of the Job."""
    return [_told(container) for container in containers]


def _told(container: Document) -> Document:
    env = container.get("env") or []
    if any(entry["name"] == _INDEX_VARIABLE["name"] for entry in env):
        return container
    return {**container, "env": [*env, _INDEX_VARIABLE]}


def _failures(order: Order, replaced: Member | None) -> dict[str, str]:
    """The failures this index had before, which only its pods remember."""
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    pod = replaced.document
    counted, ignored = counted_failures(pod), ignored_failures(pod)
    if podfailure.judge(order.spec.get("podFailurePolicy"), pod).counts:
        counted += 1
    else:
        ignored += 1
    return {INDEX_FAILURES: str(counted)} | ({INDEX_IGNORED: str(ignored)} if ignored else {})
