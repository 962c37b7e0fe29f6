"""A workload and the gangs it wants: the values every grouper reads and returns, and the rules they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.meta import name_of, uid_of
from allaboard.scheduling.facts import Constraint

TRAIN, BUILD, INFERENCE = "train", "build", "inference"
DEFAULT_QUEUE = "default-queue"


class CannotGroup(ValueError):
    """A workload whose gang cannot be told; the message goes to its pods as an event."""


@dataclass(frozen=True, slots=True)
class Role:
    """A named part of a gang (a sub-group of its PodGroup), and how many pods of it are required."""

    name: str
    min_member: int = 0
    parent: str = ""
    constraint: Constraint | None = None

    def document(self) -> Document:
        body: Document = {"name": self.name}
        if self.min_member:
            body["minMember"] = self.min_member
        if self.parent:
            body["parent"] = self.parent
        return body | ({"topologyConstraint": constraint_document(self.constraint)} if self.constraint else {})


def constraint_document(constraint: Constraint) -> Document:
    levels = {"requiredTopologyLevel": constraint.required, "preferredTopologyLevel": constraint.preferred}
    return {"topology": constraint.topology} | {name: level for name, level in levels.items() if level}


@dataclass(frozen=True, slots=True)
class Group:
    """One gang: its name, whose it is, how many pods it needs, and which pod plays which role ("" is none)."""

    name: str
    owner: Document
    members: Mapping[str, str]
    min_member: int = 1
    roles: tuple[Role, ...] = ()
    priority_class: str = TRAIN  # where nobody names another
    constraint: Constraint | None = None
    named_class: str = ""  # a class this family's own objects name; must exist, like every named class


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods that share an owner, the chain of owners above them, and what else their grouper asked for.

    `chain` goes from the pods' own owner upwards; `owner` is the one the gang belongs to. `labels` and
    `annotations` are the owner's, with those of a skipped top owner where the owner has none.
    """

    owner: Document
    pods: tuple[Document, ...]
    chain: tuple[Document, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    related: Mapping[Key, Document] = field(default_factory=dict)

    @property
    def spec(self) -> Document:
        return self.owner.get("spec") or {}

    @property
    def group_name(self) -> str:
        return group_name(self.owner)

    def members(self) -> dict[str, str]:
        """Every pod, none with a role."""
        return {name_of(pod): "" for pod in self.pods}


def group_name(owner: Document) -> str:
    return f"pg-{name_of(owner)}-{uid_of(owner)}"


def whole(workload: Workload) -> list[Group]:
    """All pods of the workload in one group that any one pod satisfies: what an unknown owner gets."""
    return [Group(workload.group_name, workload.owner, workload.members(), constraint=constraint_of(workload))]


def apart(workload: Workload, priority_class: str = TRAIN) -> list[Group]:
    """Every pod its own group, named after the pod and the owner."""
    return [_alone(workload, pod, priority_class) for pod in workload.pods]


def _alone(workload: Workload, pod: Document, priority_class: str) -> Group:
    name, owner = name_of(pod), workload.owner
    title, constraint = f"pg-{name}-{uid_of(owner)}", constraint_of(workload)
    return Group(title, owner, {name: ""}, priority_class=priority_class, constraint=constraint)


def constraint_of(workload: Workload) -> Constraint | None:
    """The topology constraint the workload's annotations ask for."""
    return constraint_from(workload.annotations)


def constraint_from(annotations: Mapping[str, str]) -> Constraint | None:
    topology = annotations.get(labels.TOPOLOGY, "")
    required, preferred = annotations.get(labels.TOPOLOGY_REQUIRED, ""), annotations.get(labels.TOPOLOGY_PREFERRED, "")
    return Constraint(topology, required, preferred) if topology and (required or preferred) else None


def segment_constraint(*sources: Mapping[str, str]) -> Constraint | None:
    """The constraint each segment of a worker role gets; the first source that says something wins."""

    def say(key: str) -> str:
        return next((source[key] for source in sources if source.get(key)), "")

    topology, required = say(labels.TOPOLOGY), say(labels.SEGMENT_REQUIRED)
    preferred = say(labels.SEGMENT_PREFERRED)
    return Constraint(topology, required, preferred) if topology and (required or preferred) else None


def segment_size(*sources: Mapping[str, str]) -> int:
    """How many pods make a segment, as the first source says; 0 is no segments."""
    text = next((source[labels.SEGMENT_SIZE] for source in sources if source.get(labels.SEGMENT_SIZE)), "")
    if not text:
        return 0
    if not text.isdigit() or int(text) < 1:
        raise CannotGroup(f'annotation {labels.SEGMENT_SIZE}: "{text}" is not a size; must be a whole number above 0')
    return int(text)


def whole_number(document: Document, *path: str | int, default: int = 0) -> int:
    """The integer at a path; a document that says something else there cannot be grouped."""
    value = dig(document, *path, default=default)
    if isinstance(value, bool) or not isinstance(value, int):
        where = ".".join(str(step) for step in path)
        raise CannotGroup(f'{where}: "{value}" is not a whole number')
    return value
