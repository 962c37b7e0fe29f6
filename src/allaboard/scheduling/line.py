"""The line of those who wait: everybody's place in it, who went first, and when there could be room."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from allaboard.scheduling.classes import Column, PodClass
from allaboard.scheduling.explain import Stuck
from allaboard.scheduling.facts import Status
from allaboard.scheduling.gangs import IS_USED, GangRow
from allaboard.scheduling.order import NOTHING
from allaboard.scheduling.reasons import WAITING, Reason
from allaboard.scheduling.session import Session
from allaboard.scheduling.words import amount

NAMED = 2
# With more declared ends than this nobody is told when: the answer would cost more than it is worth.
MOST_ENDS = 5000


def placed(session: Session, reasons: dict[str, Reason]) -> dict[str, Reason]:
    """The reasons with everybody's place among those who wait: in their queue, and overall as shares stand now."""
    gangs, rule = session.state.gangs, session.rule
    waiting = [gangs[name] for name, reason in reasons.items() if reason.verdict == WAITING and gangs[name].queue >= 0]
    ranks = {
        leaf: [(rule.key(row, NOTHING), row) for row in reversed(rule.queues.path[leaf])]
        for leaf in {gang.queue for gang in waiting}
    }
    waiting.sort(key=lambda gang: (ranks[gang.queue], session.panel.gang_key(gang)))
    told, lengths = dict(reasons), dict.fromkeys(ranks, 0)
    for overall, gang in enumerate(waiting, start=1):
        lengths[gang.queue] += 1
        told[gang.name] = replace(
            reasons[gang.name], position=lengths[gang.queue], overall=overall, priority=gang.priority
        )
    return told


class Outlook:
    """What the cycle knows beyond what is free: who took room in it, what is kept, and declared ends."""

    def __init__(self, session: Session) -> None:
        self.session, self.state = session, session.state
        self._series: dict[PodClass, tuple[list[float], list[float]]] = {}

    # --- who went first ---

    def behind(self, gang: GangRow, reason: Reason, stuck: Stuck) -> Reason | None:
        """A reason that names those served before, when there would have been room without them."""
        kept = self.session.reservation
        if kept is not None and not kept.admits(gang, self.session.now) and self._slots(stuck.klass) >= stuck.wanted:
            names = [name for name, is_kept in zip(self.state.nodes.names, kept.nodes) if is_kept]
            words = f'{_few(names)} kept for "{kept.gang.name}", which needs more at once and has waited longer'
            return replace(reason, code="BehindOrder", message=f"{words}; {reason.message}")
        if not self._takers or self._slots(stuck.klass, self._taken) < stuck.wanted:
            return None
        higher = [taker for taker in self._takers if taker.queue == gang.queue and taker.priority > gang.priority]
        code, first = ("BehindPriority", higher) if higher else ("BehindOrder", self._takers)
        who = ", ".join(
            f'"{taker.name}" (queue {taker.fact.queue}, priority {taker.priority})' for taker in first[:NAMED]
        )
        more = f" and {len(first) - NAMED} more" if len(first) > NAMED else ""
        words = f"{who}{more} came first and took what was free: now {_left(reason)}"
        return replace(reason, code=code, message=words)

    @cached_property
    def _takers(self) -> list[GangRow]:
        members = self.state.tasks.members
        return list(dict.fromkeys(members[row].gang for row, _ in self.session.log.binds))

    @cached_property
    def _taken(self) -> Column:
        """What binds of this cycle took of every node."""
        taken: Column = np.zeros_like(self.state.nodes.idle)
        for row, node in self.session.log.binds:
            if self.state.tasks.status[row] == Status.BINDING:
                taken[: len(self.state.tasks.klass[row].wants), node] += self.state.tasks.klass[row].wants
        return taken

    def _slots(self, klass: PodClass, more: Column | None = None) -> float:
        slots = self._slots_at(klass, more)
        allowed = self.session.panel.fits(klass)
        return float((slots if allowed is None else slots[allowed]).sum())

    def _slots_at(self, klass: PodClass, more: Column | None = None) -> Column:
        nodes = self.state.nodes
        room = nodes.idle[klass.rows] + nodes.releasing[klass.rows]
        if more is not None:
            room = room + more[klass.rows]
        slots: Column = np.maximum(np.floor((room / klass.per_row).min(axis=0)), 0.0)
        return slots

    # --- when ---

    def earliest(self, klass: PodClass, wanted: int) -> float | None:
        """When room for so many tasks is there at the latest, as far as those who run said how long; None: unknown."""
        if not self._ends or len(self._ends) > MOST_ENDS or not klass.plain:
            return None
        if klass not in self._series:
            self._series[klass] = self._forecast(klass)
        moments, slots = self._series[klass]
        place = bisect_left(slots, wanted)
        return moments[place] if place < len(moments) else None

    @cached_property
    def _ends(self) -> list[tuple[float, int]]:
        """Declared ends of what runs, with the task rows that end."""
        state, now = self.state, self.session.now
        found = []
        for gang in state.gangs.values():
            if gang.fact.max_runtime is not None and gang.last_start is not None:
                end = max(gang.last_start + gang.fact.max_runtime, now)
                found += [
                    (end, row) for row in gang.rows if IS_USED[state.tasks.status[row]] and state.tasks.node[row] >= 0
                ]
        return sorted(found)

    def _forecast(self, klass: PodClass) -> tuple[list[float], list[float]]:
        """Moments, and how many tasks of the class fit from then on."""
        state, allowed = self.state, self.session.panel.fits(klass)
        room = state.nodes.idle[klass.rows] + state.nodes.releasing[klass.rows]
        slots = self._slots_at(klass)
        if allowed is not None:
            slots[~allowed] = 0.0
        total, moments, totals = float(slots.sum()), list[float](), list[float]()
        for end, row in self._ends:
            node = state.tasks.node[row]
            if allowed is not None and not allowed[node]:
                continue
            if state.tasks.status[row] != Status.RELEASING:
                room[:, node] += state.tasks.klass[row].wants[klass.rows]
            now_there = max(0.0, float(np.floor((room[:, node] / klass.per_row[:, 0]).min())))
            if now_there > slots[node]:
                total, slots[node] = total + now_there - float(slots[node]), now_there
                moments.append(end)
                totals.append(total)
        return moments, totals


def _few(names: Iterable[str]) -> str:
    known = sorted(names)
    rest = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return f"{', '.join(known[:NAMED])}{rest} {'are' if len(known) > 1 else 'is'}"


def _left(reason: Reason) -> str:
    """`needs 2 gpu, 0 gpu are free` for the first resource there is not enough of."""
    for name, needs in reason.needs.items():
        if needs > reason.free.get(name, 0.0):
            return f"{amount(name, reason.free.get(name, 0.0))} free, needs {amount(name, needs)}"
    return "what is left is spread over too many nodes"
