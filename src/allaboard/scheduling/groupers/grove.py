"""Grove: a PodGang spells out its groups, and which of them must stay close."""

from __future__ import annotations

from collections.abc import Mapping

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import Kind
from allaboard.api.meta import annotations_of, labels_of, name_of, namespace_of
from allaboard.scheduling.facts import Constraint
from allaboard.scheduling.groupers.workload import CannotGroup, Group, Role, Workload, constraint_of, whole_number

POD_GANG = Kind("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs")
GANG = "grove.io/podgang"
TOPOLOGY_NAME = "grove.io/topology-name"


def needs(workload: Workload) -> list[tuple[Kind, Key]]:
    names = {(namespace_of(pod), labels_of(pod).get(GANG, "")) for pod in workload.pods}
    return [(POD_GANG, Key(*pair)) for pair in sorted(names) if pair[1]]


def pod_gang(workload: Workload) -> list[Group]:
    groups = []
    for _, key in needs(workload):
        gang = workload.related.get(key)
        if gang is None:
            raise CannotGroup(f'label {GANG}: PodGang "{key.name}" does not exist yet')
        groups.append(_gang(workload, gang))
    if not groups:
        raise CannotGroup(f"no pod has the label {GANG}, so its gang is unknown")
    return groups


def _gang(workload: Workload, gang: Document) -> Group:
    said = {**workload.annotations, **annotations_of(gang)}
    listed = dig(gang, "spec", "podgroups", default=[])
    configs = dig(gang, "spec", "topologyConstraintGroupConfigs", default=[])
    above = {name: config["name"] for config in configs for name in config.get("podGroupNames") or ()}
    parents = (Role(c["name"], 0, "", _near(c.get("topologyConstraint"), said)) for c in configs)
    roles = (*parents, *(_role(group, above.get(group["name"], ""), said) for group in listed))
    parts = {ref["name"]: group["name"] for group in listed for ref in _references(group, namespace_of(gang))}
    mine = [pod for pod in workload.pods if labels_of(pod).get(GANG) == name_of(gang)]
    owner = {"apiVersion": POD_GANG.api_version, "kind": POD_GANG.kind, **gang}
    members = {name_of(pod): parts.get(name_of(pod), "") for pod in mine}
    enough = sum(role.min_member for role in roles)
    near = _near(dig(gang, "spec", "topologyConstraint"), said) or constraint_of(workload)
    named = dig(gang, "spec", "priorityClassName", default="")
    return Group(f"pg-{name_of(gang)}-{gang['metadata']['uid']}", owner, members, enough, roles, "train", near, named)


def _role(group: Document, parent: str, said: Mapping[str, str]) -> Role:
    least = whole_number(group, "minReplicas")
    if least < 1:
        raise CannotGroup(f'group "{group.get("name", "")}": minReplicas "{least}" is too small; must be at least 1')
    return Role(group["name"], least, parent, _near(group.get("topologyConstraint"), said))


def _references(group: Document, namespace: str) -> list[Document]:
    references = group.get("podReferences") or []
    for reference in references:
        if reference.get("namespace", namespace) != namespace:
            raise CannotGroup(f'group "{group["name"]}": pod "{reference["name"]}" is in another namespace')
    return references


def _near(constraint: Document | None, said: Mapping[str, str]) -> Constraint | None:
    levels = dig(constraint or {}, "packConstraint", default={})
    required, preferred = levels.get("required") or "", levels.get("preferred") or ""
    topology = said.get(TOPOLOGY_NAME) or said.get(labels.TOPOLOGY) or ""
    if not (required or preferred):
        return None
    if not topology:
        raise CannotGroup(f"a topology constraint needs a topology; add the annotation {TOPOLOGY_NAME}")
    return Constraint(topology, required, preferred)
