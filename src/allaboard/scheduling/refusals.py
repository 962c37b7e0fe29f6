"""Who was refused in a cycle and why: what was seen is kept when it happens, the words are made at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from allaboard.scheduling.classes import PodClass
from allaboard.scheduling.explain import Stuck, Survey, no_room, survey
from allaboard.scheduling.gangs import GangRow
from allaboard.scheduling.panel import Panel
from allaboard.scheduling.reasons import Reason
from allaboard.scheduling.state import State


@dataclass(slots=True)
class Refusal:
    """Why a gang got nothing, what was seen then, and how long victims were sought."""

    why: Reason | Stuck
    seen: Survey | None
    trials: int = 0


class Refusals:
    """Refused gangs by name, in fair order; and which classes found no room, so that the next of the kind is not
    tried."""

    def __init__(self, state: State, panel: Panel) -> None:
        self.state, self.panel = state, panel
        self.known: dict[str, Refusal] = {}
        self._full: dict[PodClass, int] = {}
        self._surveys: dict[PodClass, Survey] = {}

    def is_full(self, klass: PodClass, count: int) -> bool:
        """Whether so many tasks of a class found no room since room was last given back."""
        return self._full.get(klass, count + 1) <= count

    def mark_full(self, klass: PodClass, count: int) -> None:
        self._full[klass] = min(count, self._full.get(klass, count))

    def survey(self, stuck: Stuck) -> Survey:
        """The nodes as a class sees them; one look serves all gangs of a class until room is given back."""
        if stuck.klass not in self._surveys or not self.is_full(stuck.klass, stuck.wanted):
            self._surveys[stuck.klass] = survey(self.state, stuck.klass, self.panel.fits(stuck.klass))
        return self._surveys[stuck.klass]

    def add(self, gang: GangRow, refusal: Reason | Stuck) -> None:
        """Write down why, with what was seen; the words are made at the end."""
        seen = self.survey(refusal) if isinstance(refusal, Stuck) else None
        self.known[gang.name] = Refusal(refusal, seen)

    def reason(self, gang: GangRow) -> Reason | None:
        """The words for a refusal of this cycle."""
        known = self.known.get(gang.name)
        if known is None:
            return None
        why = known.why
        reason = no_room(self.state, gang, why, known.seen) if isinstance(why, Stuck) and known.seen else why
        assert isinstance(reason, Reason)
        if not known.trials:
            return reason
        words = f"{reason.message}; gave up looking for victims after {known.trials} trials in this cycle"
        return replace(reason, message=words)

    def take_back(self, gang: GangRow) -> None:
        """Another action found room after all."""
        self.known.pop(gang.name, None)

    def give_up(self, gang: GangRow, trials: int) -> None:
        """The search for victims ended at a limit of the policy; say so, as a longer one might have found some."""
        if gang.name in self.known:
            self.known[gang.name].trials = trials
