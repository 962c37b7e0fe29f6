"""From masks to words: what keeps a gang from starting, with the numbers at hand when it was refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from allaboard.api import labels
from allaboard.scheduling.classes import GPU, PODS, Column, Mask, PodClass
from allaboard.scheduling.demands import UNREADABLE
from allaboard.scheduling.facts import Constraint, Status
from allaboard.scheduling.gangs import GangRow, Member, Members
from allaboard.scheduling.groups import UNREADABLE_GROUP
from allaboard.scheduling.nodes import Nodes
from allaboard.scheduling.placement import Board, copies
from allaboard.scheduling.readings import GPU_MEMORY, MIG_STRATEGY
from allaboard.scheduling.reasons import BLOCKED, IMPOSSIBLE, WAITING, Holder, Reason
from allaboard.scheduling.state import State
from allaboard.scheduling.words import amount, quantity

ON_THE_WIRE = {"gpu": "nvidia.com/gpu"}


@dataclass(frozen=True, slots=True)
class Stuck:
    """Where a gang got stuck: the class of the task that found no place, and how many of its pod set found one."""

    leaf: Members
    klass: PodClass
    wanted: int
    placed: int


@dataclass(frozen=True, slots=True)
class Survey:
    """A class against all nodes: who may take it, how many now, how many when empty, and who objects why."""

    allowed: Mask
    slots: float
    slots_empty: float
    per_node: float
    free: Column
    objections: dict[str, int]


def survey(state: State, klass: PodClass, allowed: Mask | None) -> Survey:
    nodes = state.nodes
    mask = np.ones(len(nodes), dtype=bool) if allowed is None else allowed
    slots = 0.0 if klass.shared else float(copies(Board(nodes, klass, None, mask, None), idle=False).sum())
    with np.errstate(invalid="ignore"):
        empty = np.floor((nodes.capacity[klass.rows] / klass.per_row).min(axis=0))
    if klass.shared:
        empty = np.minimum(empty, _shares(nodes, klass))
    empty[~mask] = 0.0
    room = np.maximum(nodes.idle + nodes.releasing, 0.0)
    if klass.shared:
        room[GPU] = nodes.loose_gpus()
    free = room[:, mask].sum(axis=1)
    biggest = float(nodes.capacity[GPU][mask].max(initial=0.0))
    return Survey(mask, slots, float(empty.sum()), biggest, free, _objections(state, klass, mask))


def _shares(nodes: Nodes, klass: PodClass) -> Column:
    """How many tasks that share devices an empty node takes; never too few."""
    memory = nodes.gpu_memory
    each = np.array([klass.memory_on(int(size)) for size in memory], dtype=float)
    per_device = np.floor(memory / np.maximum(each, 1.0))
    devices = np.floor(nodes.capacity[GPU])
    shares: Column = np.where(devices < klass.devices, 0.0, np.floor(devices * per_device / klass.devices))
    return shares


def no_room(state: State, gang: GangRow, stuck: Stuck, seen: Survey) -> Reason:
    """The dominant cause why a pod set found no place."""
    klass, count = stuck.klass, stuck.wanted
    needs = {name: number * count for name, number in _asked(state, klass).items() if name != "pods"}
    free = {name: float(seen.free[state.classes.resources[name]]) for name in needs}
    fitting = min(stuck.wanted - 1, max(stuck.placed, int(seen.slots)))
    code, verdict, words = _cause(state, gang, stuck, seen)
    each = _each(klass)
    message = f"{fitting} of {count} tasks fit{f' ({each} each)' if each else ''}; {words}"
    unblock = _remedy(code, needs, free, int(seen.slots_empty))
    return Reason(
        code, message, verdict, needs, free, unblock=unblock, queue=gang.fact.queue, tasks_wanted=count,
        tasks_fitting=fitting, nodes=seen.objections,
    )  # fmt: skip


def _asked(state: State, klass: PodClass) -> dict[str, float]:
    """What one task asks for; parts of devices count as GPUs."""
    asked = {name: float(klass.wants[column]) for name, column in state.classes.resources.items()}
    if klass.shared:
        asked["gpu"] = klass.asked_quota(state.nodes.smallest_memory)[GPU]
    return {name: number for name, number in asked.items() if number}


def _cause(state: State, gang: GangRow, stuck: Stuck, seen: Survey) -> tuple[str, str, str]:
    klass, count = stuck.klass, stuck.wanted
    if not seen.allowed.any():
        return _nobody(state.nodes, klass)
    if (klass.plain or klass.shared) and seen.slots_empty < count:
        if (starting := _starting(state.nodes, klass)) is not None and starting[1] + seen.slots_empty >= count:
            return "NodesUnready", WAITING, f"waiting for nodes: {starting[0]} of {len(state.nodes)} are not ready yet"
        if seen.slots_empty == 0:
            return (
                "NeverFits",
                IMPOSSIBLE,
                f"no node is large enough for one of them, even when empty{_largest(klass, seen)}",
            )
        return "NeverFits", IMPOSSIBLE, f"an empty cluster has room for only {int(seen.slots_empty)}"
    constraint = _constraint(stuck.leaf)
    if constraint is not None and (defect := _topology_defect(state, constraint)):
        return "TopologyUnsatisfiable", BLOCKED, defect
    if constraint is not None and seen.slots >= count:
        return "TopologyUnsatisfiable", WAITING, f"no single {constraint.required} has room for all of them"
    for name, number in _asked(state, klass).items():
        needs, free = number * count, float(seen.free[state.classes.resources[name]])
        if needs > free:
            return "InsufficientResource", WAITING, f"needs {amount(name, needs)}, {quantity(name, free)} free"
    return "Fragmented", WAITING, "enough is free in total, but not enough on single nodes"


def _nobody(nodes: Nodes, klass: PodClass) -> tuple[str, str, str]:
    """No node may take the class at all: say which kind of objection stands in the way."""
    if not len(nodes):
        return "NodesUnready", BLOCKED, "the cluster has no nodes"
    selected, tolerated = nodes.terrain.selected(klass), nodes.terrain.tolerated(klass)
    if not selected.any():
        return "NodeSelectorMismatch", BLOCKED, f"none of {len(nodes)} nodes matches its node selector or affinity"
    starting = selected & nodes.terrain.starting()
    if starting.any() and not (selected & tolerated & ~starting).any():
        return "NodesUnready", WAITING, f"waiting for nodes: {int(starting.sum())} of {len(nodes)} are not ready yet"
    if not (selected & tolerated).any():
        return "Tainted", BLOCKED, f"all {int(selected.sum())} matching nodes have taints it does not tolerate"
    if (matching := selected & tolerated & nodes.terrain.usable()).any():
        return "NeverFits", IMPOSSIBLE, _wrong_gpus(nodes, klass, matching)
    return "NodesUnready", BLOCKED, f"all {int((selected & tolerated).sum())} matching nodes are not ready or cordoned"


def _wrong_gpus(nodes: Nodes, klass: PodClass, matching: Mask) -> str:
    """Nodes are there, but none hands out GPUs the way the class asks for them."""
    count = int(matching.sum())
    if klass.mig:
        return f"none of {count} matching nodes is split into MIG slices (label {MIG_STRATEGY}: mixed)"
    if klass.memory and not (matching & nodes.terrain.knows_memory()).any():
        return f"none of {count} matching nodes says how much memory its GPUs have (label {GPU_MEMORY})"
    return f"none of {count} matching nodes hands out GPUs that way: they are split (MIG) or given by claims"


def _starting(nodes: Nodes, klass: PodClass) -> tuple[int, float] | None:
    """How many matching nodes are not ready yet, and what they will hold when they are; None when there are none."""
    starting = nodes.terrain.starting() & nodes.terrain.selected(klass)
    if not starting.any():
        return None
    slots = np.floor((nodes.capacity[klass.rows][:, starting] / klass.per_row).min(axis=0))
    return int(starting.sum()), float(slots.sum())


def _largest(klass: PodClass, seen: Survey) -> str:
    return f" (largest: {seen.per_node:g} gpu)" if klass.wants[GPU] else ""


def _constraint(leaf: Members) -> Constraint | None:
    """The nearest constraint with a required level, else the nearest one at all."""
    found: Constraint | None = None
    member: Member | None = leaf
    while member is not None:
        found = found or member.constraint
        if member.constraint is not None and member.constraint.required:
            return member.constraint
        member = member.parent
    return found


def _topology_defect(state: State, constraint: Constraint) -> str:
    topology = state.topologies.get(constraint.topology)
    if topology is None:
        return f'topology "{constraint.topology}" does not exist'
    for level in (constraint.required, constraint.preferred):
        if level and level not in topology.levels:
            return f'topology "{topology.name}" has no level "{level}"; it has: {", ".join(topology.levels) or "none"}'
    return ""


def _each(klass: PodClass) -> str:
    if klass.wants[GPU]:
        return f"{klass.wants[GPU]:g} gpu"
    if klass.portion:
        return f"{klass.portion:g} of a gpu"
    if klass.memory:
        return f"{klass.memory} MiB of a gpu"
    cpu = klass.quota[0]
    return f"{cpu / 1000:g} cpu" if cpu else ""


def _remedy(code: str, needs: dict[str, float], free: dict[str, float], most: int) -> tuple[str, ...]:
    if code == "NeverFits" and most > 0:
        return (f"ask for at most {most} pods at once, or add nodes",)
    if code == "InsufficientResource":
        missing = {name: needs[name] - free[name] for name in needs if needs[name] > free[name]}
        return tuple(f"{quantity(name, number)} more {name} become free" for name, number in missing.items())
    return _REMEDIES.get(code, ())


_REMEDIES = {
    "Fragmented": ("smaller or fewer pods per node", "work on the same nodes ends or moves"),
    "TopologyUnsatisfiable": ("a wider required level, or a preferred one instead",),
    "NeverFits": ("ask for less per pod, or add larger nodes",),
    "NodeSelectorMismatch": ("change the node selector, or label a node",),
    "Tainted": ("add a toleration, or remove the taint",),
    "NodesUnready": ("bring a matching node back, or uncordon it",),
}


def _objections(state: State, klass: PodClass, allowed: Mask) -> dict[str, int]:
    """Per node the first objection kube-scheduler would raise; resources raise one each."""
    nodes = state.nodes
    usable, tolerated, selected = nodes.terrain.usable(), nodes.terrain.tolerated(klass), nodes.terrain.selected(klass)
    found = {
        "node(s) were unschedulable": int((~usable).sum()),
        "node(s) had untolerated taint(s)": int((usable & ~tolerated).sum()),
        "node(s) didn't match Pod's node affinity/selector": int((usable & tolerated & ~selected).sum()),
    }
    free = nodes.idle + nodes.releasing
    for name, column in state.classes.resources.items():
        if klass.wants[column]:
            short = allowed & (free[column] < klass.wants[column])
            found["Too many pods" if column == PODS else f"Insufficient {ON_THE_WIRE.get(name, name)}"] = int(
                short.sum()
            )
    return {words: count for words, count in found.items() if count}


# --- gangs that were not even asked ---


def not_asked(state: State, gang: GangRow) -> Reason | None:
    """Why a gang whose pods wait takes no part in the cycle."""
    if gang.queue < 0:
        return _no_queue(state, gang)
    if gang.fact.held:
        return Reason("Backoff", gang.fact.held, queue=gang.fact.queue, unblock=("it is tried again by itself",))
    if (closed := state.queues.closed_by(gang.queue)) is not None:
        return _closed(gang, closed)
    if gang.is_ready():
        return None
    gated = sum(leaf.count[Status.GATED] for leaf in gang.leaves)
    missing = [leaf for leaf in gang.leaves if not leaf.ready()]
    have = sum(leaf.active() + leaf.count[Status.PENDING] for leaf in missing)
    want = sum(leaf.minimum for leaf in missing)
    names = ", ".join(f'"{leaf.name}"' for leaf in missing)
    if gated:
        held = "1 pod is" if gated == 1 else f"{gated} pods are"
        words = f"{held} held by scheduling gates; {have} of {want} needed pods of {names} may start"
        remedy = "whoever set spec.schedulingGates on its pods takes them off"
        return _unready(gang, Reason("SchedulingGated", words, BLOCKED, unblock=(remedy,)), (have, want))
    words = f"{have} of {want} needed pods of {names} exist"
    remedy = f"its owner creates {want - have} more pods; the owner's events say what keeps it (quota, admission)"
    return _unready(gang, Reason("GangIncomplete", words, unblock=(remedy,)), (have, want))


def _unready(gang: GangRow, reason: Reason, counts: tuple[int, int]) -> Reason:
    return replace(reason, queue=gang.fact.queue, tasks_fitting=counts[0], tasks_wanted=counts[1])


def _no_queue(state: State, gang: GangRow) -> Reason:
    name, queues = gang.fact.queue, state.queues
    if name in queues.index:
        children = ", ".join(sorted(queues.names[row] for row in queues.children[queues.index[name]]))
        words = f'queue "{name}" has child queues and cannot hold jobs; use one of: {children}'
        return Reason("QueueNotLeaf", words, BLOCKED, queue=name, unblock=(f"move the job to one of: {children}",))
    defect = queues.dropped.get(name)
    leaves = ", ".join(sorted(queues.names[row] for row in range(len(queues)) if queues.is_leaf(row))[:10])
    words = (
        f'queue "{name}" cannot be used: {defect}' if defect else f'queue "{name}" does not exist; there are: {leaves}'
    )
    return Reason("QueueDoesNotExist", words, BLOCKED, queue=name, unblock=(f'create queue "{name}", or use another',))


def _closed(gang: GangRow, queue: str) -> Reason:
    parent = "" if queue == gang.fact.queue else f', which is above "{gang.fact.queue}",'
    words = f'queue "{queue}"{parent} is closed: what runs goes on, nothing starts'
    unblock = (
        f'open it: remove annotation {labels.QUEUE_CLOSED} from queue "{queue}"',
        "move the job to another queue",
    )
    return Reason("QueueClosed", words, BLOCKED, queue=gang.fact.queue, unblock=unblock)


def obstacle(gang: GangRow, text: str) -> Reason:
    """A defect of the pod that no eviction can mend."""
    if text.startswith((UNREADABLE, UNREADABLE_GROUP)):
        remedy = (
            "correct the PodGroup" if text.startswith(UNREADABLE_GROUP) else "correct its template and submit it again"
        )
        return Reason("ValidationFailed", text, BLOCKED, queue=gang.fact.queue, unblock=(remedy,))
    code = "SecretMissing" if "secret" in text or "configmap" in text.lower() else "VolumeMount"
    return Reason(code, text, BLOCKED, queue=gang.fact.queue, unblock=("create what is missing",))


def reserved(gang: GangRow, nodes: Sequence[str]) -> Reason:
    """Room is promised and will be there when others are gone."""
    places = ", ".join(sorted(set(nodes))[:5])
    tasks = "1 task" if len(nodes) == 1 else f"{len(nodes)} tasks"
    words = f"{tasks} will start on {places} when what is leaving there is gone"
    reason = Reason("Reserved", words, unblock=(f"pods that are leaving {places} end",))
    return _unready(gang, reason, (len(nodes), len(nodes)))


def holders(state: State, count: int) -> tuple[Holder, ...]:
    """The gangs that hold most GPUs; looked up once for each version of the state."""
    if state.memory.most is None or state.memory.most[0] != state.memory.version:
        state.memory.most = (state.memory.version, _holders(state))
    return state.memory.most[1][:count]


def _holders(state: State) -> tuple[Holder, ...]:
    held = []
    for gang in state.gangs.values():
        gpus = sum(
            state.tasks.klass[leaf.rows[0]].gpu_wish * leaf.active()
            for leaf in gang.leaves
            if leaf.rows and leaf.active()
        )
        if gpus:
            held.append(Holder(gang.name, gang.fact.queue, gpus, gang.preemptible))
    return tuple(sorted(held, key=lambda holder: (-holder.gpus, holder.gang)))
