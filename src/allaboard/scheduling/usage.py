"""What queues have used in the past, as a part of the cluster: old use fades by half in every half-life."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Vector = tuple[float, float, float]
NOTHING: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Faded resource-seconds (cpu, memory, gpu) per queue and of the whole cluster, up to a moment."""

    moment: float | None = None
    held: Mapping[str, Vector] = field(default_factory=dict)
    offered: Vector = NOTHING

    def after(
        self, now: float, holdings: Mapping[str, Sequence[float]], totals: Sequence[float], half_life: float
    ) -> Ledger:
        """The ledger at a later moment, when queues held this much since the last one."""
        if self.moment is None or now <= self.moment:
            return Ledger(now if self.moment is None else self.moment, self.held, self.offered)
        fade, weight = _fading(now - self.moment, half_life)
        held = {name: _add(self.held.get(name, NOTHING), amounts, fade, weight) for name, amounts in holdings.items()}
        return Ledger(now, held, _add(self.offered, totals, fade, weight))

    def part(self, queue: str) -> Vector:
        """A queue's use as a fraction of what the cluster offered."""
        cpu, memory, gpu = (
            used / offer if offer > 0 else 0.0 for used, offer in zip(self.held.get(queue, NOTHING), self.offered)
        )
        return cpu, memory, gpu


def _fading(seconds: float, half_life: float) -> tuple[float, float]:
    """What is left of old use after so long, and what constant use in that time weighs."""
    fade = 0.5 ** (seconds / half_life)
    return fade, (1.0 - fade) * half_life / math.log(2)


def _add(old: Sequence[float], amounts: Sequence[float], fade: float, weight: float) -> Vector:
    cpu, memory, gpu = (before * fade + amount * weight for before, amount in zip(old, amounts))
    return cpu, memory, gpu
