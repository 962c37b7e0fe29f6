"""Random clusters from one source of chance: `make fuzz` gives it a seed, hypothesis one that it can shrink."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from allaboard.scheduling.facts import (
    Constraint,
    Demand,
    Gang,
    PodSet,
    Queue,
    Requirement,
    Share,
    Status,
    SubGroup,
    Task,
    Topology,
    World,
)
from tests.scheduling.worlds import NOW, node, wish

RACKS = Topology("topo", ("block", "rack"))


def cluster(rng: random.Random, *, sharing: bool = True) -> World:
    """Up to eight nodes and ten gangs; running work stands only where it fits."""
    sizes = [rng.choice([0, 1, 2, 4, 8]) for _ in range(rng.randint(1, 8))]
    labels = [{"block": f"b{i % 2}", "rack": f"r{i % 3}", "kind": rng.choice("xy")} for i in range(len(sizes))]
    nodes = tuple(node(f"n{i}", float(size), labels=labels[i]) for i, size in enumerate(sizes))
    queues = queue_tree(rng)
    leaves = [queue.name for queue in queues if queue.name.startswith("q")]
    free = [float(size) for size in sizes]
    fractions = rng.random() < 0.2 and sharing
    gangs = tuple(_gang(rng, number, (leaves, free), fractions) for number in range(rng.randint(0, 10)))
    return World(nodes, queues, gangs, (RACKS,))


def queue_tree(rng: random.Random) -> tuple[Queue, ...]:
    def share() -> Share:
        return Share(
            rng.choice([-1.0, 0.0, 1.0, 2.0, 4.0, 8.0]),
            rng.choice([-1.0, -1.0, -1.0, 4.0, 8.0]),
            rng.choice([0.0, 1.0, 2.0]),
        )

    parents = rng.choice([0, 0, 1, 2])
    tops = [Queue(f"p{i}", created=float(i), gpu=share()) for i in range(parents)]
    place = lambda: f"p{rng.randrange(parents)}" if parents else ""
    count = rng.randint(1, 4)
    leaves = [Queue(f"q{i}", place(), rng.choice([100, 100, 200]), float(i), share()) for i in range(count)]
    return (*tops, *leaves)


def _gang(rng: random.Random, number: int, room: tuple[list[str], list[float]], fractions: bool) -> Gang:
    leaves, free = room
    demand = _demand(rng, fractions=fractions)
    gpus = 1.0 if demand.portion else demand.requests.get("gpu", 0.0)
    runs, tasks = rng.random() < 0.5, []
    sets = rng.choice([1, 1, 1, 2])
    for index in range(rng.randint(sets, 4)):
        places = [i for i, idle in enumerate(free) if idle >= gpus] if runs and not demand.selector else []
        name, role = f"g{number}-{index}", f"role{index % sets}"
        if places:
            place = rng.choice(places)
            free[place] -= gpus
            groups = (f"{name}-device",) if demand.portion else ()
            tasks.append(Task(name, demand, Status.RUNNING, f"n{place}", role, gpu_groups=groups))
        else:
            tasks.append(Task(name, demand, pod_set=role))
    roles = tuple(
        PodSet(f"role{i}", rng.randint(1, max(1, sum(task.pod_set == f"role{i}" for task in tasks))))
        for i in range(sets)
    )
    priority, level = rng.choice([50, 50, 75, 100]), rng.choice(["", "", "", "block", "rack"])
    constraint = Constraint("topo", level, rng.choice(["", level])) if level else None
    started = NOW - 60 if any(task.node for task in tasks) else None
    tree = SubGroup(pod_sets=roles, constraint=constraint)
    return Gang(f"g{number}", rng.choice(leaves), tuple(tasks), tree, priority, priority < 100, float(number), started)


def _demand(rng: random.Random, *, fractions: bool) -> Demand:
    if fractions and rng.random() < 0.5:
        return Demand({"cpu": 1000.0, "memory": 1e9}, portion=rng.choice([0.25, 0.5, 0.7]))
    demand = wish(float(rng.choice([0, 1, 1, 2, 4])))
    return replace(demand, selector=(Requirement("kind", "In", ("x",)),)) if rng.random() < 0.1 else demand


def singles(rng: random.Random) -> World:
    """Preemptible one-pod one-GPU jobs without constraints, in queues that deserve something."""
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
    room = [f"n{i}" for i, size in enumerate(sizes) for _ in range(size)]
    count = rng.randint(2, 3)
    share = lambda: Share(float(rng.randint(0, 4)), weight=float(rng.randint(0, 2)))
    queues = tuple(Queue(f"q{i}", created=float(i), gpu=share()) for i in range(count))
    gangs = []
    for number in range(rng.randint(0, 14)):
        place = room.pop() if room and rng.random() < 0.5 else ""
        task = Task(f"g{number:02}-0", wish(), Status.RUNNING if place else Status.PENDING, place)
        queue = f"q{rng.randrange(count)}"
        gangs.append(Gang(f"g{number:02}", queue, (task,), SubGroup(pod_sets=(PodSet(),)), created=float(number)))
    nodes = tuple(node(f"n{i}", float(size)) for i, size in enumerate(sizes))
    return World(nodes, queues, tuple(gangs))


def clusters(*, sharing: bool = True) -> st.SearchStrategy[World]:
    """The clusters of `make fuzz`, for hypothesis."""
    return st.randoms(use_true_random=False).map(lambda chance: cluster(chance, sharing=sharing))


def single_jobs() -> st.SearchStrategy[World]:
    return st.randoms(use_true_random=False).map(singles)
