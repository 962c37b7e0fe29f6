"""Services and their relatives: Knative revisions, inference requests, and jobs of other platforms."""

from __future__ import annotations

from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import Kind
from allaboard.api.meta import annotations_of, labels_of, name_of, namespace_of, uid_of
from allaboard.scheduling.groupers.workload import (
    INFERENCE,
    CannotGroup,
    Group,
    Workload,
    apart,
    constraint_of,
    group_name,
)

REVISION = Kind("serving.knative.dev", "v1", "Revision", "revisions")
REVISION_LABEL = "serving.knative.dev/revision"
MIN_SCALE = "autoscaling.knative.dev/min-scale"
NODE_COUNT = "AZUREML_NODE_COUNT"


def knative_needs(workload: Workload) -> list[tuple[Kind, Key]]:
    return [(REVISION, Key(namespace_of(pod), name)) for name, pod in _revisions(workload).items()]


def _revisions(workload: Workload) -> dict[str, Document]:
    """The revisions the pods belong to, each with one of its pods."""
    return {name: pod for pod in workload.pods if (name := labels_of(pod).get(REVISION_LABEL))}


def knative(workload: Workload) -> list[Group]:
    """One gang per revision, as large as its least scale; pods of a revision that cannot be read stand alone."""
    found = {name: workload.related.get(Key(namespace_of(pod), name)) for name, pod in _revisions(workload).items()}
    known = {name: revision for name, revision in found.items() if revision is not None}
    rest = tuple(pod for pod in workload.pods if labels_of(pod).get(REVISION_LABEL) not in known)
    lonely = Workload(workload.owner, rest, workload.chain, workload.labels, workload.annotations)
    return [_revision(workload, name, revision) for name, revision in known.items()] + apart(lonely, INFERENCE)


def _revision(workload: Workload, name: str, revision: Document) -> Group:
    members = {name_of(pod): "" for pod in workload.pods if labels_of(pod).get(REVISION_LABEL) == name}
    text = annotations_of(revision).get(MIN_SCALE, "")
    least = int(text) if text.isdigit() and int(text) > 0 else 1
    owner = {"apiVersion": REVISION.api_version, "kind": REVISION.kind, **revision}
    return Group(group_name(revision), owner, members, least, (), INFERENCE, constraint_of(workload))


def spot_request(workload: Workload) -> list[Group]:
    members, constraint = workload.members(), constraint_of(workload)
    return [Group(workload.group_name, workload.owner, members, priority_class=INFERENCE, constraint=constraint)]


def aml_job(workload: Workload) -> list[Group]:
    """Azure's job says in its environment how many nodes it trains on."""
    text = str(dig(workload.spec, "job", "options", "envs", NODE_COUNT, default=""))
    if not text.isdigit() or int(text) < 1:
        raise CannotGroup(f'spec.job.options.envs.{NODE_COUNT}: "{text}" is not a number of nodes')
    members, constraint = workload.members(), constraint_of(workload)
    return [Group(workload.group_name, workload.owner, members, int(text), constraint=constraint)]


def runai_job(workload: Workload) -> list[Group]:
    """Each attempt of a run has its own group, named after the pod without its random end."""
    constraint = constraint_of(workload)
    return [
        Group(
            f"pg-{name_of(pod).rpartition('-')[0] or name_of(pod)}-{uid_of(workload.owner)}",
            workload.owner,
            {name_of(pod): ""},
            constraint=constraint,
        )
        for pod in workload.pods
    ]
