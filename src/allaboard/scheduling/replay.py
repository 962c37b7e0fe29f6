"""Save what a cycle saw and run it again, byte for byte."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import msgspec

from allaboard.api.documents import Document
from allaboard.scheduling import policy as policies
from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.decisions import Decisions
from allaboard.scheduling.facts import World
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import world_of

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Saved:
    """The facts of a moment and the policy they were judged by, as its SchedulingShard spec."""

    world: World
    now: float
    policy: Document = field(default_factory=dict)
    format: int = FORMAT


def save(state: State, now: float, spec: Document) -> bytes:
    """What a cycle would see now; the same facts give the same bytes."""
    return _ENCODER.encode(Saved(in_order(world_of(state)), now, spec))


class _Head(msgspec.Struct):
    """What is read first: facts of another format may not even have the same shape."""

    format: int


def load(data: bytes) -> Saved:
    head = msgspec.json.decode(data, type=_Head)
    if head.format != FORMAT:
        raise ValueError(f"snapshot: format {head.format} is not supported; this version reads format {FORMAT}")
    return msgspec.json.decode(data, type=Saved)


def run(saved: Saved) -> Decisions:
    """The cycle again, on a state built from the saved facts."""
    return cycle(State.build(saved.world), policies.read(saved.policy), saved.now)


def told(decisions: Decisions) -> bytes:
    """Decisions as text that can be compared byte for byte."""
    return _ENCODER.encode(asdict(decisions))


def in_order(world: World) -> World:
    """The same facts in name order, so that how they arrived does not show."""
    return World(
        nodes=tuple(sorted(world.nodes, key=lambda node: node.name)),
        queues=tuple(sorted(world.queues, key=lambda queue: queue.name)),
        gangs=tuple(sorted(world.gangs, key=lambda gang: gang.name)),
        topologies=tuple(sorted(world.topologies, key=lambda topology: topology.name)),
        claims=tuple(sorted(world.claims, key=lambda claim: claim.name)),
        strangers=tuple(sorted(world.strangers, key=lambda task: task.name)),
    )


_ENCODER = msgspec.json.Encoder(order="sorted")
