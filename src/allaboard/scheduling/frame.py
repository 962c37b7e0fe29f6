"""The frame gangs are placed in: nodes, queues and topologies as they are told, and which of them moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allaboard.api.documents import Document
from allaboard.api.kinds import NODE, QUEUE, TOPOLOGY, Kind
from allaboard.api.meta import name_of
from allaboard.scheduling import readings, surroundings
from allaboard.scheduling.facts import Gang, Node, Queue, Task, Topology, World
from allaboard.scheduling.state import State

Fact = Node | Queue | Topology
READ: Mapping[Kind, Callable[[Document], Fact]] = {
    NODE: readings.node,
    QUEUE: readings.queue,
    TOPOLOGY: readings.topology,
}
DROP: Mapping[Kind, Callable[[State, str], None]] = {
    NODE: surroundings.drop_node,
    QUEUE: surroundings.drop_queue,
    TOPOLOGY: surroundings.drop_topology,
}
# So many new nodes at once are cheaper to lay out with everything else than one by one.
MANY = 16


class Frame:
    """Facts that every gang depends on. A heartbeat that changes no fact is not news."""

    def __init__(self) -> None:
        self.facts: dict[Kind, dict[str, Fact]] = {kind: {} for kind in READ}
        self._moved: dict[Kind, set[str]] = {kind: set() for kind in READ}

    @property
    def moved(self) -> bool:
        return any(self._moved.values())

    @property
    def promises_runtime(self) -> bool:
        """Whether a queue lets its jobs run for some time before they may be stopped."""
        queues = (fact for fact in self.facts[QUEUE].values() if isinstance(fact, Queue))
        return any(queue.preempt_min_runtime or queue.reclaim_min_runtime for queue in queues)

    def moved_of(self, kind: Kind) -> bool:
        return bool(self._moved[kind])

    def hear(self, kind: Kind, old: Document | None, new: Document | None) -> None:
        known, name = self.facts[kind], name_of(new or old or {})
        if new is None:
            if known.pop(name, None) is not None:
                self._moved[kind].add(name)
            return
        try:
            fact = READ[kind](new)
        except (KeyError, TypeError, ValueError):  # one that cannot be read is as good as gone; the others go on
            self.hear(kind, new, None)
            return
        if known.get(name) != fact:
            known[name] = fact
            self._moved[kind].add(name)

    def is_new(self, state: State) -> bool:
        """Whether the state is better laid out anew than changed."""
        unknown = sum(1 for name in self._moved[NODE] if name in self.facts[NODE] and name not in state.nodes.index)
        return unknown > MANY

    def settle(self) -> None:
        """The state holds everything told."""
        for names in self._moved.values():
            names.clear()

    def world(self, gangs: tuple[Gang, ...], strangers: tuple[Task, ...]) -> World:
        """Everything a fresh state is made of."""
        return World(
            nodes=tuple(fact for fact in self.facts[NODE].values() if isinstance(fact, Node)),
            queues=tuple(fact for fact in self.facts[QUEUE].values() if isinstance(fact, Queue)),
            topologies=tuple(fact for fact in self.facts[TOPOLOGY].values() if isinstance(fact, Topology)),
            gangs=gangs,
            strangers=strangers,
        )

    def bring_into(self, state: State) -> set[str]:
        """Change the state; the names of nodes that came or went, whose pods have to be told anew."""
        moved = {name for name in self._moved[NODE] if (name in state.nodes.index) != (name in self.facts[NODE])}
        for kind, names in self._moved.items():
            for name in sorted(names):
                self._bring(state, kind, name)
        self.settle()
        return moved

    def _bring(self, state: State, kind: Kind, name: str) -> None:
        match self.facts[kind].get(name):
            case Node() as node:
                surroundings.put_node(state, node)
            case Queue() as queue:
                surroundings.put_queue(state, queue)
            case Topology() as topology:
                surroundings.put_topology(state, topology)
            case None:
                DROP[kind](state, name)
