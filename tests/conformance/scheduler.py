"""The scheduler's runner: recorded scenarios become worlds, our actions run on them, end states are compared."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from allaboard.scheduling import policy as policies
from allaboard.scheduling.actions import ACTIONS
from allaboard.scheduling.facts import (
    UNLIMITED,
    Claim,
    Constraint,
    Demand,
    Gang,
    Neighbours,
    Node,
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
from allaboard.scheduling.fairshare import Tree, divide_tree
from allaboard.scheduling.session import Session
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import world_of
from tests.conformance.results import Result

NOW = 1_000_000_000.0
TYPE_LABEL = "kai.scheduler/type"
RESOURCES = ("cpu", "memory", "gpu")
STATES = {status.name.title(): status for status in Status}
NAMES = {status: name for name, status in STATES.items()}

Scenario = dict[str, Any]


def run(data: Path) -> Iterator[Result]:
    """Every table, random scenario and division under the data directory."""
    for name in ("tables.json", "random.json"):
        if (data / name).exists():
            for scenario in json.loads((data / name).read_text()):
                yield Result(scenario["id"], differences(scenario))
    if (data / "fairshare.json").exists():
        for division in json.loads((data / "fairshare.json").read_text()):
            yield Result(division["id"], division_differences(division))


# --- reading scenarios ---


def load(path: Path) -> Scenario:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text)


def world(scenario: Scenario) -> World:
    """A scenario as facts; the README of the data states every default."""
    claims = tuple(_claims(scenario.get("dra", {})))
    return World(
        nodes=tuple(_node(name, node, scenario.get("dra", {})) for name, node in scenario["nodes"].items()),
        queues=tuple(_queues(scenario)),
        gangs=tuple(_gangs(scenario)),
        topologies=tuple(Topology(t["name"], tuple(t["levels"])) for t in scenario.get("topologies", ())),
        claims=claims,
    )


def _node(name: str, node: Scenario, dra: Scenario) -> Node:
    capacity = {
        "cpu": float(node.get("cpu", 20000)) * 1000,
        "memory": float(node.get("memory", 20e9)),
        "gpu": float(node.get("gpus", 0)),
        "pods": float(node.get("maxPods", 110)),
    }
    for profile, count in (node.get("migInstances") or {}).items():
        capacity[_profile(profile)] = float(count)
    devices: dict[str, int] = {}
    for piece in dra.get("ResourceSlices", ()):
        if piece["NodeName"] == name:
            devices[piece["DeviceClassName"]] = devices.get(piece["DeviceClassName"], 0) + piece["Count"]
    return Node(
        name,
        capacity,
        {TYPE_LABEL: name, **node.get("labels", {})},
        gpu_memory=int(node.get("gpuMemory", 100) or 100),
        mig=node.get("mig", ""),
        devices=devices,
    )


def _profile(name: str) -> str:
    return name if name.startswith("nvidia.com/") else f"nvidia.com/mig-{name}"


def _queues(scenario: Scenario) -> Iterator[Queue]:
    departments = scenario.get("departments", [])
    synthetic = not departments and not scenario.get("noDefaultDepartment")
    if synthetic:
        unlimited = Share(UNLIMITED, UNLIMITED, UNLIMITED)
        yield Queue("default", gpu=unlimited)
    for age, queue in enumerate(departments):
        quota = float(queue.get("gpuQuota", 0))
        gpu = Share(quota, float(queue.get("gpuLimit", 0) or UNLIMITED), quota)
        yield Queue(
            queue["name"],
            queue.get("parent", ""),
            100,
            float(age),
            gpu,
            _share(queue, "cpu", 1),
            _share(queue, "memory", 1e6),
        )
    for age, queue in enumerate(scenario["queues"]):
        gpu_limit = float(queue.get("gpuLimit", 0) or UNLIMITED)
        gpu = Share(float(queue.get("gpuQuota", 0)), gpu_limit, float(queue.get("gpuWeight", 0)))
        parent = "default" if synthetic else queue.get("parent", "")
        shares = (gpu, _share(queue, "cpu", 1), _share(queue, "memory", 1e6))
        yield Queue(queue["name"], parent, queue.get("priority", 100), float(age), *shares)


def _share(queue: Scenario, resource: str, unit: float) -> Share:
    quota, limit = float(queue.get(resource + "Quota", -1)), float(queue.get(resource + "Limit", -1))
    return Share(quota if quota == UNLIMITED else quota * unit, limit if limit == UNLIMITED else limit * unit, 1.0)


def _claims(dra: Scenario) -> Iterator[Claim]:
    for claim in dra.get("ResourceClaims", ()):
        status = claim.get("ClaimStatus") or {}
        results = ((status.get("Allocation") or {}).get("Devices") or {}).get("Results") or []
        reserved = status.get("ReservedFor") or []
        names = (
            {f"random-{i}" for i in range(sum(reserved["random"]))}
            if isinstance(reserved, dict)
            else {consumer["Name"] for consumer in reserved}
        )
        yield Claim(
            claim["Name"],
            claim["DeviceClassName"],
            claim["Count"],
            (claim.get("Labels") or {}).get("kai.scheduler/queue", ""),
            results[0]["Pool"] if results else "",
            frozenset(names),
        )


def _gangs(scenario: Scenario) -> Iterator[Gang]:
    jobs = sorted(scenario["jobs"], key=lambda job: -job.get("priority", 0))
    for position, job in enumerate(jobs):
        age = float(job.get("ageMinutes") or (len(jobs) - position))
        priority = job.get("priority", 0)
        preemptibility = job.get("preemptibility")
        running = any(pod["state"] == "Running" for pod in job["pods"])
        stale_for = job.get("staleForSeconds")
        yield Gang(
            job["name"],
            job["queue"],
            tuple(_tasks(job)),
            _tree(job),
            priority,
            preemptibility == "preemptible" if preemptibility else priority < 100,
            NOW - age * 60,
            NOW - 60 if running else None,
            None if stale_for is None else NOW - stale_for,
        )


def _tree(job: Scenario) -> SubGroup:
    tree = _sub_group(job["gang"]) if job.get("gang") else SubGroup()
    if any(not pod.get("podSet") for pod in job["pods"]) and "default" not in _set_names(tree):
        tree = replace(tree, pod_sets=(*tree.pod_sets, PodSet("default", len(job["pods"]))))
    return tree


def _set_names(tree: SubGroup) -> set[str]:
    return {pod_set.name for pod_set in tree.pod_sets}.union(*(_set_names(group) for group in tree.groups))


def _sub_group(node: Scenario) -> SubGroup:
    return SubGroup(
        node["name"],
        tuple(_sub_group(group) for group in node.get("groups", ())),
        tuple(PodSet(p["name"], p["min"], _constraint(p.get("topology"))) for p in node.get("podSets", ())),
        _constraint(node.get("topology")),
    )


def _constraint(topology: Scenario | None) -> Constraint | None:
    if not topology or not topology.get("name"):
        return None
    return Constraint(topology["name"], topology.get("required", ""), topology.get("preferred", ""))


def _tasks(job: Scenario) -> Iterator[Task]:
    demands: dict[str, Demand] = {}
    for index, pod in enumerate(job["pods"]):
        asks = {k: v for k, v in pod.items() if k not in ("state", "node", "podSet", "gpuGroups", "order")}
        demand = demands.setdefault(json.dumps(asks, sort_keys=True), _demand(job, pod))
        yield Task(
            f"{job['name']}-{index}",
            demand,
            STATES[pod["state"]],
            pod.get("node", ""),
            pod.get("podSet") or "default",
            order=pod.get("order"),
            labels=pod.get("podLabels") or {},
            gpu_groups=tuple(pod.get("gpuGroups") or ()),
            namespace=job.get("namespace", ""),
        )


def _demand(job: Scenario, pod: Scenario) -> Demand:
    gpu, memory = float(job.get("gpu", 0)), int(job.get("gpuMemory", 0) or 0)
    fraction = 0.0 if memory or gpu == int(gpu) else gpu
    whole = 0.0 if memory or fraction else float(pod["gpu"]) if "gpu" in pod else gpu
    requests = {"cpu": float(job.get("cpu") or 1) * 1000, "memory": float(job.get("memory") or 1e9), "gpu": whole}
    if job.get("bestEffort"):
        requests = {}
    for profile, count in (pod.get("mig") or {}).items():
        requests[_profile(profile)] = float(count)
    return Demand(
        requests,
        fraction,
        memory,
        int(job.get("gpuDevices", 1) or 1),
        tuple(pod.get("claims") or ()),
        (Requirement(TYPE_LABEL, "In", tuple(pod["nodeAffinity"])),) if pod.get("nodeAffinity") else (),
        neighbours=tuple(_neighbours(pod)),
        legacy_mig=bool(pod.get("legacyMig")),
    )


def _neighbours(pod: Scenario) -> Iterator[Neighbours]:
    selector = tuple(Requirement(key, "In", (value,)) for key, value in (pod.get("podLabels") or {}).items())
    for field, anti in (("podAffinityKey", False), ("podAntiAffinityKey", True)):
        if pod.get(field):
            yield Neighbours(pod[field], selector, anti=anti)


def policy(scenario: Scenario) -> policies.Policy:
    chosen = replace(
        policies.KAI,
        actions=tuple(scenario["actions"]),
        consolidation_victims=-1,
        stale_grace=60.0 if scenario["actions"] == ["stalegangeviction"] else 0.0,
        signatures=bool(scenario.get("options", {}).get("signatures")),
    )
    if scenario.get("plugins"):
        named = {plugin["name"]: plugin.get("args") or {} for plugin in scenario["plugins"]}
        chosen = replace(chosen, plugins=policies.make(named), generators=policies.chosen_generators(named))
    return chosen


# --- running ---


@dataclass
class Outcome:
    """What a run ended with."""

    pods: dict[str, dict[str, Any]]
    fair: dict[str, dict[str, float]]
    rounds: list[dict[str, Any]]
    stable: bool | None = None


def play(scenario: Scenario) -> Outcome:
    rules = policy(scenario)
    facts = world(scenario)
    if "rounds" not in scenario:
        session = run_round(facts, rules)
        return Outcome(pods(session), fair(session), [events(session)])
    rounds, first, recorded, stable = [], None, {}, True
    for number in range(scenario["rounds"]["until"] + scenario["rounds"]["after"]):
        session = run_round(facts, rules)
        first = first or fair(session)
        rounds.append(events(session))
        facts = next_world(session, {j["name"] for j in scenario["jobs"] if j.get("staysReleasing")})
        if number == scenario["rounds"]["until"] - 1:
            recorded = _pods_of(facts)
        elif number >= scenario["rounds"]["until"]:
            stable = stable and _states(pods(session)) == _states(recorded)
    return Outcome(recorded, first or {}, rounds, stable)


def run_round(facts: World, rules: policies.Policy) -> Session:
    session = Session(State.build(facts), rules, NOW)
    for action in rules.actions:
        session.action = action
        ACTIONS[action](session)
    return session


def next_world(session: Session, staying: set[str]) -> World:
    """The round rule: evicted and promised pods wait again, bound ones run."""
    facts = world_of(session.state)
    return replace(facts, gangs=tuple(_next_gang(gang, gang.name in staying) for gang in facts.gangs))


def _next_gang(gang: Gang, stays: bool) -> Gang:
    return replace(gang, tasks=tuple(_next_task(task, stays) for task in gang.tasks))


def _next_task(task: Task, stays: bool) -> Task:
    if task.status == Status.PIPELINED or (task.status == Status.RELEASING and not stays):
        return replace(task, status=Status.PENDING, node="", gpu_groups=())
    return replace(task, status=Status.RUNNING) if task.status == Status.BINDING else task


def pods(session: Session) -> dict[str, dict[str, Any]]:
    return _pods_of(world_of(session.state))


def _pods_of(facts: World) -> dict[str, dict[str, Any]]:
    return {
        task.name: {"state": NAMES[task.status], "node": task.node, "gpuGroups": task.gpu_groups}
        for gang in facts.gangs
        for task in gang.tasks
    }


def fair(session: Session) -> dict[str, dict[str, float]]:
    queues = session.state.queues
    return {
        name: {**dict(zip(RESOURCES, queues.fair[row])), "gpu": _shown(queues.fair[row][2])}
        for name, row in queues.index.items()
    }


def _shown(gpus: float) -> float:
    """The recorder read fair shares through a GPU request, which holds either a fraction or whole devices."""
    return gpus if gpus < 1 else float(int(gpus))


def events(session: Session) -> dict[str, Any]:
    state, log = session.state, session.log
    name = lambda row: state.tasks.fact[row].name
    place = lambda pairs: {(name(row), state.nodes.names[node]) for row, node in pairs}
    order: list[str] = []
    for row, _ in log.binds:
        gang = state.tasks.members[row].gang.name
        if not order or order[-1] != gang:
            order.append(gang)
    return {
        "binds": place(log.binds),
        "pipelines": {name(row) for row, _ in log.pipelines},
        "pipelineNodes": place(log.pipelines),
        "evictions": {name(row) for row in log.evictions},
        "bindOrder": order,
    }


# --- comparing ---


def differences(scenario: Scenario) -> list[str]:
    outcome = play(scenario)
    if scenario.get("nondeterministic"):
        seen = [_states(each["pods"]) for each in scenario["outcomes"]]
        return [] if _states(outcome.pods) in seen else ["pods: none of the outcomes seen"]
    found = list(_pod_differences(outcome.pods, scenario["actual"]["pods"]))
    found += _share_differences(outcome.fair, scenario["actual"].get("fairShare", {}))
    found += _event_differences(outcome, scenario)
    found += _expectations(outcome, scenario)
    return found


def _states(found: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {name: (pod["state"], pod.get("node") or "") for name, pod in found.items()}


def _pod_differences(ours: dict[str, dict[str, Any]], theirs: dict[str, dict[str, Any]]) -> Iterator[str]:
    mine, other = _states(ours), _states(theirs)
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) != other.get(name):
            yield f"pods: {name} is {mine.get(name)}, recorded {other.get(name)}"
    if not any(True for name in mine if mine.get(name) != other.get(name)):
        groups = {name: tuple(pod["gpuGroups"]) for name, pod in theirs.items() if pod.get("gpuGroups")}
        here = _renamed({n: (ours[n]["node"], ours[n]["gpuGroups"]) for n in groups})
        there = _renamed({n: (theirs[n]["node"], theirs[n]["gpuGroups"]) for n in groups})
        yield from (f"gpuGroups: {n} on {here[n]}, recorded {there[n]}" for n in groups if here[n] != there[n])


def _renamed(groups: dict[str, tuple[str, Iterable[str]]]) -> dict[str, tuple[str, ...]]:
    """Groups numbered per node in pod-name order: only who shares with whom counts."""
    numbers: dict[str, dict[str, str]] = {}
    result = {}
    for name in sorted(groups):
        node, own = groups[name]
        known = numbers.setdefault(node, {})
        result[name] = tuple(sorted(known.setdefault(group, f"g{len(known)}") for group in own))
    return result


def _share_differences(ours: dict[str, dict[str, float]], theirs: dict[str, dict[str, float]]) -> Iterator[str]:
    for queue, shares in theirs.items():
        for resource, amount in shares.items():
            mine = ours.get(queue, {}).get(resource, float("nan"))
            if not abs(mine - amount) <= 1e-6 * max(1.0, abs(amount)):
                yield f"fairShare: {queue} {resource} is {mine}, recorded {amount}"


def _event_differences(outcome: Outcome, scenario: Scenario) -> Iterator[str]:
    actual = scenario["actual"]
    recorded = actual.get("rounds", []) if "rounds" in scenario else [actual]
    if scenario.get("eventsVary"):
        return
    for number, (mine, theirs) in enumerate(zip(outcome.rounds, recorded)):
        for field in ("binds", "pipelines", "evictions", "bindOrder"):
            if field not in theirs and "rounds" not in scenario:
                continue
            other = theirs.get(field, [])
            value: Any = mine[field]
            if field == "bindOrder":
                if "bindOrder" in theirs and list(other) != value:
                    yield f"round {number} bindOrder: {value}, recorded {other}"
                continue
            want: Any = {tuple(item) if isinstance(item, list) else item for item in other}
            if field == "pipelines" and want and isinstance(next(iter(want)), tuple):
                value = mine["pipelineNodes"]
            if value != want:
                yield f"round {number} {field}: {sorted(value - want)} more, {sorted(want - value)} less"
    if "stable" in actual and outcome.stable != actual["stable"]:
        yield f"stable is {outcome.stable}, recorded {actual['stable']}"


def _expectations(outcome: Outcome, scenario: Scenario) -> Iterator[str]:
    for job, expected in scenario.get("expectJobs", {}).items():
        for name, pod in outcome.pods.items():
            if name.rsplit("-", 1)[0] == job:
                yield from _unmet(name, pod, expected)
    for name, expected in scenario.get("expectPods", {}).items():
        if name in outcome.pods:
            yield from _unmet(name, outcome.pods[name], expected)


def _unmet(name: str, pod: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    if "state" in expected and pod["state"] != expected["state"]:
        yield f"expected {name} to be {expected['state']}, it is {pod['state']}"
    if expected.get("node") and pod["node"] != expected["node"]:
        yield f"expected {name} on {expected['node']}, it is on {pod['node']}"


def division_differences(division: Scenario) -> list[str]:
    ours = divide(division)
    recorded = [division["fairShare"]] if "fairShare" in division else division["outcomes"]
    found = [list(_share_differences(ours, theirs)) for theirs in recorded]
    return min(found, key=len)


def divide(division: Scenario) -> dict[str, dict[str, float]]:
    queues = sorted(division["queues"], key=lambda queue: (queue["created"], queue["name"]))
    rows = {queue["name"]: row for row, queue in enumerate(queues)}
    children: dict[int, list[int]] = {}
    for row, queue in enumerate(queues):
        children.setdefault(rows.get(queue["parent"], -1), []).append(row)
    column = lambda field: [[float(queue[r].get(field, 0)) for r in RESOURCES] for queue in queues]
    priority = [float(queue["priority"]) for queue in queues]
    tree = Tree(children, priority, *(column(f) for f in ("quota", "limit", "weight", "request", "usage")))
    shares = divide_tree([division["total"][r] for r in RESOURCES], tree, division["k"])
    return {name: dict(zip(RESOURCES, shares[row])) for name, row in rows.items()}
