"""Why not: a refusal is a value with a stable code, numbers, and what would help."""

from __future__ import annotations

from dataclasses import dataclass, field

from allaboard.scheduling.gangs import GangRow, Members
from allaboard.scheduling.selection import Chosen


@dataclass(frozen=True, slots=True)
class Holder:
    """A gang that holds what is missing."""

    gang: str
    queue: str
    gpus: float
    preemptible: bool


@dataclass(frozen=True, slots=True)
class Reason:
    """One dominant cause. `needs` and `free` are per resource name; `verdict` is Waiting, Blocked or Impossible."""

    code: str
    message: str
    verdict: str = "Waiting"
    needs: dict[str, float] = field(default_factory=dict)
    free: dict[str, float] = field(default_factory=dict)
    held_by: tuple[Holder, ...] = ()
    unblock: tuple[str, ...] = ()
    queue: str = ""
    tasks_wanted: int = 0
    tasks_fitting: int = 0
    position: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    """Objection of nodes → how many nodes raise it."""


def shortage(gang: GangRow, chosen: Chosen, stuck: tuple[Members, int, int] | None) -> Reason:
    wanted = sum(len(rows) for rows in chosen.values())
    return Reason("InsufficientResource", f"{wanted} tasks do not fit", tasks_wanted=wanted)
