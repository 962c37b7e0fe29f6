"""Worlds as text and as strategies: nodes `a:8/2` (8 GPUs, 2 of them taken), gangs `x:3x1` (three pods of one GPU)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.decisions import Decisions
from allaboard.scheduling.facts import (
    Constraint,
    Demand,
    Gang,
    Node,
    PodSet,
    Queue,
    Share,
    Status,
    SubGroup,
    Task,
    Topology,
    World,
)
from allaboard.scheduling.policy import DEFAULT, Policy
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State

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
    tasks = tuple(
        Task(
            f"{name}-{i}", wish(gpus), Status.RUNNING if i < len(places) else Status.PENDING, (places + [""] * count)[i]
        )
        for i in range(count)
    )
    tree = SubGroup(pod_sets=(PodSet(minimum=count if least is None else least),))
    return Gang(name, str(more.pop("queue", "q")), tasks, more.pop("tree", tree), **more)  # type: ignore[arg-type]


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
        task = state.task_fact(state.task_row[bind.task])
        state.put_task(bind.gang, replace(task, status=Status.RUNNING))
    for eviction in decisions.evictions:
        task = state.task_fact(state.task_row[eviction.task])
        state.put_task(eviction.gang, replace(task, status=Status.PENDING, node="", gpu_groups=()))


def session_of(facts: World, policy: Policy = DEFAULT) -> Session:
    return Session(State.build(facts), policy, NOW)


# --- random clusters ---

RACKS = Topology("topo", ("block", "rack"))
nodes_of = st.lists(st.sampled_from([0, 1, 2, 4, 8]), min_size=1, max_size=6)


@st.composite
def queue_trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    parents = draw(st.integers(0, 2))
    shares = st.builds(
        Share,
        st.sampled_from([-1.0, 0.0, 1.0, 2.0, 4.0, 8.0]),
        st.sampled_from([-1.0, -1.0, -1.0, 4.0, 8.0]),
        st.sampled_from([0.0, 1.0, 2.0]),
    )
    tops = [Queue(f"p{i}", created=float(i), gpu=draw(shares)) for i in range(parents)]
    leaves = [
        Queue(
            f"q{i}",
            f"p{draw(st.integers(0, parents - 1))}" if parents else "",
            draw(st.sampled_from([100, 100, 200])),
            float(i),
            draw(shares),
        )
        for i in range(draw(st.integers(1, 3)))
    ]
    return (*tops, *leaves)


@st.composite
def clusters(draw: st.DrawFn, *, topology: bool = True) -> World:
    """Small worlds: running work only where it fits, waiting work of every kind."""
    sizes = draw(nodes_of)
    machines = tuple(
        node(f"n{i}", float(size), labels={"block": f"b{i % 2}", "rack": f"r{i % 3}"}) for i, size in enumerate(sizes)
    )
    queues = draw(queue_trees())
    leaves = [queue.name for queue in queues if queue.name.startswith("q")]
    free = [float(size) for size in sizes]
    gangs = tuple(_gang(draw, number, leaves, free, topology) for number in range(draw(st.integers(0, 7))))
    return World(machines, queues, gangs, (RACKS,))


def _gang(draw: st.DrawFn, number: int, leaves: list[str], free: list[float], topology: bool) -> Gang:
    count, gpus = draw(st.integers(1, 4)), float(draw(st.sampled_from([0, 1, 1, 2, 4])))
    running = draw(st.booleans())
    tasks = []
    for index in range(count):
        places = [i for i, room in enumerate(free) if room >= gpus]
        if running and places:
            place = draw(st.sampled_from(places))
            free[place] -= gpus
            tasks.append(Task(f"g{number}-{index}", wish(gpus), Status.RUNNING, f"n{place}"))
        else:
            tasks.append(Task(f"g{number}-{index}", wish(gpus), Status.PENDING))
    least = draw(st.integers(1, count))
    priority = draw(st.sampled_from([50, 50, 75, 100]))
    level = draw(st.sampled_from(["", "", "", "block", "rack"])) if topology else ""
    tree = SubGroup(
        pod_sets=(PodSet(minimum=least),),
        constraint=Constraint("topo", level, draw(st.sampled_from(["", level]))) if level else None,
    )
    queue = draw(st.sampled_from(leaves))
    return Gang(
        f"g{number}", queue, tuple(tasks), tree, priority, priority < 100, float(number), NOW - 60 if running else None
    )
