"""Worlds as text: nodes `a:8/2` (8 GPUs, 2 of them taken), gangs `x:3x1` (three pods of one GPU)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.decisions import Decisions
from allaboard.scheduling.facts import Demand, Gang, Node, PodSet, Queue, Share, Status, SubGroup, Task, World
from allaboard.scheduling.policy import DEFAULT, Policy
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import task_of

NOW = 1_000_000.0
ROOM = {"cpu": 64_000.0, "memory": 256e9, "pods": 110.0}


def wish(gpus: float = 1.0, cpu: float = 1000.0, memory: float = 1e9) -> Demand:
    return Demand({"cpu": cpu, "memory": memory, "gpu": gpus})


def node(name: str, gpus: float = 8.0, **more: object) -> Node:
    return Node(name, {**ROOM, "gpu": gpus}, **more)  # type: ignore[arg-type]


def gang(
    name: str, count: int = 1, gpus: float = 1.0, *, at: str = "", least: int | None = None, **more: object
) -> Gang:
    """Equal pods in one set; `at` names the node of each running pod, blank-separated."""
    places = at.split()
    made = team(name, wish(gpus), places + [""] * (count - len(places)), least)
    return replace(made, **{"queue": "q", **more})  # type: ignore[arg-type]


def team(name: str, demand: Demand, places: Sequence[str], least: int | None = None) -> Gang:
    """One pod per place, those without a node pending; all of them are needed unless `least` says fewer."""
    tasks = tuple(
        Task(f"{name}-{i}", demand, Status.RUNNING if place else Status.PENDING, place)
        for i, place in enumerate(places)
    )
    return Gang(name, "q", tasks, SubGroup(pod_sets=(PodSet(minimum=len(places) if least is None else least),)))


def world(nodes: str, gangs: str = "", queues: tuple[Queue, ...] = (Queue("q", gpu=Share(1000.0)),)) -> World:
    """`a:4/2` is a node of four GPUs of which two are taken; `x:2x1` a gang of two pods with one GPU each."""
    machines, residents = [], []
    for text in nodes.split():
        name, _, size = text.partition(":")
        total, _, taken = size.partition("/")
        machines.append(node(name, float(total)))
        if taken:
            residents.append(gang(f"on-{name}", 1, float(taken), at=name, preemptible=False, priority=100))
    waiting = []
    for age, text in enumerate(gangs.split()):
        name, _, shape = text.partition(":")
        count, _, gpus = shape.partition("x")
        waiting.append(gang(name, int(count), float(gpus), created=float(age)))
    return World(tuple(machines), queues, (*residents, *waiting))


def told(decisions: Decisions) -> str:
    """Binds as `gang->node`, in order."""
    return " ".join(f"{bind.gang}->{bind.node}" for bind in decisions.binds)


def decide(facts: World, policy: Policy = DEFAULT, now: float = NOW) -> Decisions:
    return cycle(State.build(facts), policy, now)


def only(*actions: str, policy: Policy = DEFAULT) -> Policy:
    return replace(policy, actions=actions)


def carried_out(state: State, decisions: Decisions) -> None:
    """The round rule: what was bound runs, what was evicted waits again without a node."""
    for bind in decisions.binds:
        task = task_of(state, state.tasks.row_of[bind.task])
        state.put_task(bind.gang, replace(task, status=Status.RUNNING))
    for eviction in decisions.evictions:
        task = task_of(state, state.tasks.row_of[eviction.task])
        state.put_task(eviction.gang, replace(task, status=Status.PENDING, node="", gpu_groups=()))


def session_of(facts: World, policy: Policy = DEFAULT) -> Session:
    return Session(State.build(facts), policy, NOW)
