"""What the node knows about one pod: its containers, what became of each attempt, and how healthy it looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from allaboard.api.documents import Document, dig


class Role(StrEnum):
    """How a container takes part in its pod: before the others, beside them, or as one of them."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class Member:
    """One container of a pod, as the life table needs it."""

    name: str
    role: Role
    policy: str  # Always, OnFailure or Never, for this container
    rules: tuple[Document, ...]
    spec: Document

    @property
    def grace_probe(self) -> int | None:
        seconds: int | None = dig(self.spec, "livenessProbe", "terminationGracePeriodSeconds")
        return seconds


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of one container. `streak` counts the quick ends in a row that came before it."""

    attempt: int
    id: str
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    code: int = 0
    reason: str = ""
    message: str = ""
    streak: int = 0

    @property
    def alive(self) -> bool:
        return self.ended is None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a container cannot be made yet, in Kubernetes' reason and in words."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes of the running attempt say; a container without probes is well as soon as it runs."""

    started: bool = True
    ready: bool = True
    sick: str = ""  # why a liveness or startup probe wants it restarted


WELL = Health()


@dataclass(frozen=True, slots=True)
class Doom:
    """A pod that must end for a reason of its own: evicted, or refused by the node."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the life table looks at besides the pod document."""

    host: str
    address: str = ""  # of the sandbox; "" while there is none
    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)  # oldest first; the last two matter
    troubles: Mapping[str, Trouble] = field(default_factory=dict)
    health: Mapping[str, Health] = field(default_factory=dict)
    stopping: Mapping[str, datetime] = field(default_factory=dict)  # until when each may still tidy up
    doom: Doom | None = None

    def last(self, name: str) -> Run | None:
        runs = self.runs.get(name)
        return runs[-1] if runs else None

    def alive(self, name: str) -> bool:
        run = self.last(name)
        return run is not None and run.alive


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait between restarts. Kubernetes waits ten times longer (ruling 18)."""

    first: timedelta = timedelta(seconds=1)
    most: timedelta = timedelta(seconds=30)
    forgotten: timedelta = timedelta(seconds=60)

    def delay(self, run: Run) -> timedelta:
        """How long after this attempt's end the next may start; the first restart is immediate."""
        return timedelta(0) if run.streak == 0 else min(self.most, self.first * 2 ** min(run.streak - 1, 20))

    def streak(self, run: Run) -> int:
        """The streak of the attempt that follows this one."""
        lasted = (run.ended or run.created) - (run.started or run.created)
        return 0 if lasted > self.forgotten else run.streak + 1


def members(pod: Document) -> list[Member]:
    """The containers of a pod in the order they start."""
    spec = pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    # An init container that ended well is done, whatever the pod's policy says.
    first = [_init(container, "OnFailure" if policy == "Always" else policy) for container in _inits(spec)]
    return first + [_member(container, Role.MAIN, policy) for container in spec.get("containers", [])]


def _inits(spec: Document) -> list[Document]:
    return spec.get("initContainers") or []


def _init(container: Document, policy: str) -> Member:
    if container.get("restartPolicy") == "Always":
        return _member(container, Role.SIDECAR, "Always")
    return _member(container, Role.INIT, policy)


def _member(container: Document, role: Role, policy: str) -> Member:
    own = container.get("restartPolicy") or policy
    rules = tuple(container.get("restartPolicyRules") or ())
    return Member(container["name"], role, own, rules, container)


def may_restart(member: Member, run: Run) -> bool:
    """Whether an ended attempt is followed by another, by exit-code rules first, then by policy."""
    for rule in member.rules:
        codes = rule.get("exitCodes") or {}
        listed = run.code in (codes.get("values") or [])
        if listed == (codes.get("operator", "In") == "In"):
            return bool(rule.get("action", "Restart") == "Restart")
    return member.policy == "Always" or (member.policy == "OnFailure" and run.code != 0)


def succeeded(run: Run | None) -> bool:
    return run is not None and run.ended is not None and run.code == 0
