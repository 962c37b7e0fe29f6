"""Which actions and plugins run, with which settings; names and defaults are KAI's, unknown names stop the start.

A policy is read from a SchedulingShard's spec. Two are named: `kai` decides as KAI 0.17 does, its accidents
included; `default` is ours and used everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from allaboard.api.documents import Document, dig
from allaboard.points import Plugin, nearest
from allaboard.scheduling.plugins.claims import DynamicResources
from allaboard.scheduling.plugins.minruntime import MinRuntime, seconds
from allaboard.scheduling.plugins.ordering import Elastic, Kubeflow, Priority, Ray, SubGroupOrder, TaskOrder
from allaboard.scheduling.plugins.predicates import Predicates
from allaboard.scheduling.plugins.proportion import Proportion
from allaboard.scheduling.plugins.scores import (
    GpuPack,
    GpuSharingOrder,
    GpuSpread,
    NodeAvailability,
    NodePlacement,
    NominatedNode,
    ResourceType,
)
from allaboard.scheduling.plugins.topology import TopologyPlugin

# Priorities say the order: the higher runs first.
ACTIONS: Mapping[str, int] = {
    "allocate": 500,
    "consolidation": 400,
    "reclaim": 300,
    "preempt": 200,
    "stalegangeviction": 100,
}
PLUGINS: Mapping[str, tuple[int, Callable[..., Plugin]]] = {
    "predicates": (1900, Predicates),
    "proportion": (1800, Proportion),
    "priority": (1700, Priority),
    "nodeavailability": (1600, NodeAvailability),
    "resourcetype": (1500, ResourceType),
    "elastic": (1300, Elastic),
    "kubeflow": (1200, Kubeflow),
    "ray": (1100, Ray),
    "subgrouporder": (1000, SubGroupOrder),
    "taskorder": (900, TaskOrder),
    "nominatednode": (800, NominatedNode),
    "dynamicresources": (700, DynamicResources),
    "minruntime": (600, MinRuntime),
    "topology": (500, TopologyPlugin),
    "gpupack": (300, GpuPack),
    "gpuspread": (300, GpuSpread),
    "nodeplacement": (200, NodePlacement),
    "gpusharingorder": (100, GpuSharingOrder),
}
# Parts of KAI that need no plugin here: saving a cycle is `replay.py`, the generators are in `scenario.py`.
BUILT_IN = ("snapshot", "sg-nodelocalgreedy", "sg-multinodegang")
REFUSED = ("numa", "podaffinity", "reflectjoborder")
OFF_UNLESS_NAMED = ("gpuspread",)


@dataclass(frozen=True, slots=True)
class Policy:
    """A cycle's rules. `exact` follows KAI 0.17 to the letter.

    The search for victims is limited in effort, not in time, so that a replayed cycle ends the same way on any machine:
    a trial costs the number of nodes and a fixed part; 0 is no limit.
    """

    name: str
    plugins: tuple[Plugin, ...]
    actions: tuple[str, ...] = tuple(ACTIONS)
    usage_weight: float = 1.0
    usage_half_life: float = 0.0
    """Seconds in which past use counts half; 0 counts only what queues are told to have used."""
    stale_grace: float = 60.0
    consolidation_victims: int = 16
    queue_depth: Mapping[str, int] | None = None
    exact: bool = False
    effort_per_gang: int = 0
    effort_per_cycle: int = 0
    fewest_victims: bool = False
    """Try the victims that are cheapest to clear before the least deserving ones."""
    reserve_after: float | None = None
    """Seconds a gang waits before nodes are kept for it; None never reserves."""

    def names(self) -> tuple[str, ...]:
        return tuple(plugin.name for plugin in self.plugins)

    def task_rule(self) -> tuple[str, ...]:
        """The plugins that order tasks, in their order."""
        return tuple(plugin.name for plugin in self.plugins if hasattr(plugin, "task_key"))

    def packing(self) -> dict[bool, bool]:
        """For work with GPUs (False) and without (True): whether it is packed, so that equal tasks go by arithmetic."""
        placement = next((plugin for plugin in self.plugins if isinstance(plugin, NodePlacement)), None)
        if "nodeavailability" not in self.names() or placement is None:
            return {True: False, False: False}
        return {True: placement.cpu == "binpack", False: placement.gpu == "binpack"}


def make(arguments: Mapping[str, Mapping[str, str]]) -> tuple[Plugin, ...]:
    """Plugins by name with their arguments, in this order."""
    plugins = []
    for name, given in arguments.items():
        if name in REFUSED:
            raise ValueError(f'scheduler policy: plugin "{name}" is not supported; leave it out or disable it')
        if name not in PLUGINS:
            raise ValueError(f'scheduler policy: unknown plugin "{name}"{nearest(name, PLUGINS)}')
        plugins.append(_configured(name, given))
    return tuple(plugins)


def _configured(name: str, given: Mapping[str, str]) -> Plugin:
    try:
        return PLUGINS[name][1](**given)
    except TypeError:
        raise ValueError(
            f'scheduler policy: plugin "{name}" does not take arguments {", ".join(sorted(given))}'
        ) from None


def _standard() -> dict[str, dict[str, str]]:
    return {name: {} for name in PLUGINS if name not in OFF_UNLESS_NAMED}


KAI = Policy("kai", make(_standard()), exact=True)
DEFAULT = Policy(
    "default", make(_standard()), effort_per_gang=1_000_000, effort_per_cycle=10_000_000, reserve_after=300.0
)
NAMED = {policy.name: policy for policy in (DEFAULT, KAI)}


def read(spec: Document) -> Policy:
    """A policy from a SchedulingShard's spec; `policy: kai` or `policy: default` chooses what it starts from."""
    name = spec.get("policy", "default")
    if name not in NAMED:
        raise ValueError(f'scheduler policy: unknown policy "{name}"{nearest(name, NAMED)}')
    unknown = sorted(set(spec) - _FIELDS)
    if unknown:
        raise ValueError(f'scheduler policy: unknown field "{unknown[0]}"{nearest(unknown[0], _FIELDS)}')
    if spec.get("partitionLabelValue"):
        raise ValueError("scheduler policy: partitionLabelValue is not supported; one scheduler serves all nodes")
    weight = spec.get("kValue")
    return replace(
        NAMED[name],
        plugins=make(_plugins(spec)),
        actions=_actions(spec),
        usage_weight=1.0 if weight is None else max(0.0, float(weight)),
        queue_depth=spec.get("queueDepthPerAction"),
        usage_half_life=_half_life(spec),
        fewest_victims=bool(spec.get("fewestVictims", False)),
        **_flags(spec),
    )


# Flags of KAI's scheduler process that mean something here; the others are refused by name.
_FLAGS: Mapping[str, tuple[str, Callable[[str], float | int]]] = {
    "default-staleness-grace-period": ("stale_grace", seconds),
    "max-consolidation-preemptees": ("consolidation_victims", int),
}


def _flags(spec: Document) -> Document:
    given = spec.get("args") or {}
    for flag in given:
        if flag not in _FLAGS:
            raise ValueError(f'scheduler policy: flag "{flag}" is not supported; supported: {", ".join(_FLAGS)}')
    return {_FLAGS[flag][0]: _FLAGS[flag][1](value) for flag, value in given.items()}


def _half_life(spec: Document) -> float:
    """Use of queues is counted by the scheduler itself, so of a usage database only the half-life has a meaning."""
    said = spec.get("usageDBConfig") or {}
    if set(said) - {"usageParams"} or set(said.get("usageParams") or {}) - {"halfLifePeriod"}:
        raise ValueError("scheduler policy: of usageDBConfig only usageParams.halfLifePeriod is supported")
    return seconds((said.get("usageParams") or {}).get("halfLifePeriod", 0))


_FIELDS = {
    "policy", "actions", "plugins", "placementStrategy", "minRuntime", "kValue", "queueDepthPerAction", "args",
    "partitionLabelValue", "usageDBConfig", "fewestVictims",
}  # fmt: skip


def _plugins(spec: Document) -> dict[str, dict[str, str]]:
    """The standard list, adapted to the placement strategy, overlaid with what the spec says, highest priority
    first."""
    chosen = {name: (PLUGINS[name][0], arguments) for name, arguments in _standard().items()}
    gpu, cpu = (dig(spec, "placementStrategy", kind, default="binpack") for kind in ("gpu", "cpu"))
    for strategy in (gpu, cpu):
        if strategy not in ("binpack", "spread"):
            raise ValueError(f'scheduler policy: placement strategy "{strategy}" is unknown; use binpack or spread')
    chosen["nodeplacement"] = (PLUGINS["nodeplacement"][0], {"gpu": gpu, "cpu": cpu})
    if gpu == "spread":
        del chosen["gpupack"], chosen["gpusharingorder"]
        chosen["gpuspread"] = (PLUGINS["gpuspread"][0], {})
    if times := spec.get("minRuntime"):
        chosen["minruntime"] = (
            PLUGINS["minruntime"][0],
            {_SNAKE[key]: str(seconds(value)) for key, value in times.items()},
        )
    for name, said in (spec.get("plugins") or {}).items():
        if name in BUILT_IN:
            continue
        priority, arguments = chosen.pop(name, (PLUGINS.get(name, (0, None))[0], {}))
        if said.get("enabled", True):
            chosen[name] = (said.get("priority", priority), said.get("arguments", arguments))
    return {name: arguments for name, (_, arguments) in sorted(chosen.items(), key=lambda item: -item[1][0])}


_SNAKE = {"preemptMinRuntime": "preempt", "reclaimMinRuntime": "reclaim"}


def _actions(spec: Document) -> tuple[str, ...]:
    chosen = dict(ACTIONS)
    if "spread" in (spec.get("placementStrategy") or {}).values():
        del chosen["consolidation"]
    for name, said in (spec.get("actions") or {}).items():
        if name not in ACTIONS:
            raise ValueError(f'scheduler policy: unknown action "{name}"{nearest(name, ACTIONS)}')
        chosen.pop(name, None)
        if said.get("enabled", True):
            chosen[name] = said.get("priority", ACTIONS[name])
    return tuple(sorted(chosen, key=lambda name: -chosen[name]))
