"""Why not: a refusal is a value with a stable code, numbers, and what would help."""

from __future__ import annotations

from dataclasses import dataclass, field

WAITING, BLOCKED, IMPOSSIBLE = "Waiting", "Blocked", "Impossible"


@dataclass(frozen=True, slots=True)
class Holder:
    """A gang that holds what is missing."""

    gang: str
    queue: str
    gpus: float
    preemptible: bool


@dataclass(frozen=True, slots=True)
class Reason:
    """One dominant cause. `needs` and `free` are per resource name; `verdict` is Waiting, Blocked or Impossible.

    Two reasons are equal when they say the same to a user; who holds what and the place in the queue change all the
    time.
    """

    code: str
    message: str
    verdict: str = WAITING
    needs: dict[str, float] = field(default_factory=dict)
    free: dict[str, float] = field(default_factory=dict)
    held_by: tuple[Holder, ...] = field(default=(), compare=False)
    unblock: tuple[str, ...] = ()
    queue: str = ""
    tasks_wanted: int = 0
    tasks_fitting: int = 0
    position: int = field(default=0, compare=False)
    """Place among those who wait in the same queue; the first is 1."""
    overall: int = field(default=0, compare=False)
    """Place among all who wait."""
    priority: int = field(default=0, compare=False)
    """Its rank, by which its place in the queue can be told at any later moment."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Objection of nodes, in kube-scheduler's words → how many nodes raise it."""
    estimate: float | None = field(default=None, compare=False)
    """When it could start at the earliest, as far as declared run times tell."""
