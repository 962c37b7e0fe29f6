"""The pod document that a Job makes from its template."""

from __future__ import annotations

from allaboard.api import labels
from allaboard.api.documents import Document
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
        **_bonds(job),
    }
    spec = template["spec"]
    if index is not None:
        spec = {**_told_spec(spec), "hostname": f"{name_of(job)}-{index}"}
        metadata["labels"][labels.COMPLETION_INDEX] = str(index)
        metadata["annotations"][labels.COMPLETION_INDEX] = str(index)
        if order.per_index is not None:
            metadata["annotations"] |= _failures(order, replaced)
    if not metadata["annotations"]:
        del metadata["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@made_once
def _bonds(job: Document) -> Document:
    """What ties every pod of a Job to it."""
    inherited = job["spec"]["template"].get("metadata") or {}
    finalizers = [*(inherited.get("finalizers") or ()), TRACKING]
    return {"finalizers": finalizers, "ownerReferences": [owner_reference(job)]}


def _prefix(job: str, index: int | None) -> str:
    if index is None:  # as long as it comes: only the name made of it is cut
        return f"{job}-"
    tail = f"-{index}-"
    return job[: _LONGEST_PREFIX - len(tail)] + tail


@made_once
def _told_spec(spec: Document) -> Document:
    """The template's spec with the variable that tells a pod its index: the same for every pod of the Job."""
    told = {key: [_told(container) for container in spec[key]] for key in _CONTAINERS if spec.get(key)}
    return {**spec, **told}


_CONTAINERS = ("initContainers", "containers")


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
