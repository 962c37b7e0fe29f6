"""What a state remembers of earlier cycles and no fact tells: what was refused and why, what was decided last, what
queues have used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from allaboard.scheduling.decisions import Decisions
from allaboard.scheduling.reasons import Holder, Reason
from allaboard.scheduling.usage import Ledger


class Refused(NamedTuple):
    """A gang that got nothing: why, as of which relief, and from which moment time alone may help it (None: never)."""

    relief: int
    reason: Reason
    until: float | None = None


@dataclass(slots=True)
class Memory:
    """Every change counts up `version`; one that could help somebody who waits also counts up `relief`."""

    version: int = 0
    frame: int = 0
    """How often what all gangs depend on has changed: nodes, queues, strangers."""
    relief: int = 0
    deeds: int = 0
    """What `relief` came to by the deeds of a cycle."""
    refused: dict[str, Refused] = field(default_factory=dict)
    last: tuple[object, Decisions] | None = None
    ledger: Ledger = field(default_factory=Ledger)
    most: tuple[int, tuple[Holder, ...]] | None = None
    """Who held most, as of which version."""
    standing: object | None = None
    """Gangs by queue, in order."""
    promises: bool = False
    """Whether any gang was promised nodes."""

    def frame_changed(self, *, helps: bool = True) -> None:
        """What all gangs depend on is another one; `helps` when somebody who waits may gain by it."""
        self.version += 1
        self.frame += 1
        self.relief += helps

    def done(self) -> None:
        """A cycle bound or evicted somebody."""
        self.last = None
        self.relief += 1
        self.deeds = self.relief

    def told(self, name: str) -> Reason | None:
        """What a gang heard in the cycle whose deeds are all that happened since."""
        known = self.refused.get(name)
        alone = self.relief == self.deeds and known is not None and known.relief == self.deeds - 1
        return known.reason if known is not None and alone else None

    def hopeless(self, now: float) -> frozenset[str]:
        """Gangs that were refused when nothing that could help them has changed since, time included."""
        return frozenset(
            name
            for name, known in self.refused.items()
            if known.relief == self.relief and (known.until is None or now < known.until)
        )
