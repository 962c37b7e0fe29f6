"""What a cycle decided, as values: binds, evictions, promises, reasons, shares; the loop turns them into a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from allaboard.scheduling.reasons import Reason


@dataclass(frozen=True, slots=True)
class Bind:
    """A task gets its node now; `portion` and `gpu_groups` when it shares devices."""

    task: str
    gang: str
    node: str
    gpu_groups: tuple[str, ...] = ()
    portion: float = 0.0
    gpus: float = 0.0
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Eviction:
    """A task must leave; `action` says under which rule, `by` for whom."""

    task: str
    gang: str
    action: str
    by: str
    message: str


@dataclass(frozen=True, slots=True)
class Promise:
    """A task will get this node when room there is released; asked anew in the next cycle."""

    task: str
    gang: str
    node: str


@dataclass(frozen=True, slots=True)
class Decisions:
    """One cycle's outcome; binds of one gang are adjacent."""

    binds: tuple[Bind, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    pipelined: tuple[Promise, ...] = ()
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    fair_shares: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    started: tuple[str, ...] = ()
    stale: Mapping[str, float | None] = field(default_factory=dict)
    deadline: float | None = None
