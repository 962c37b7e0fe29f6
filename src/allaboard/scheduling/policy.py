"""Which actions and plugins run, with which settings; names and defaults are KAI's, unknown names stop the start.

A policy is read from a SchedulingShard's spec. Two are named: `kai` decides as KAI 0.17 does, its accidents
included; `default` is ours and used everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from allaboard.api.documents import Document, dig
from allaboard.points import Plugin, nearest
from allaboard.scheduling.durations import seconds
from allaboard.scheduling.plugins.claims import DynamicResources
from allaboard.scheduling.plugins.minruntime import MinRuntime
from allaboard.scheduling.plugins.neighbours import PodAffinity
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
    "podaffinity": (1400, PodAffinity),
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
# How the solver looks for victims (`scenario.py`): around one node, then over several; without either nobody goes.
LOCAL, MULTI = "sg-nodelocalgreedy", "sg-multinodegang"
GENERATORS = (LOCAL, MULTI)
# Parts of KAI that need no plugin here: saving a cycle is `replay.py`, and the order of those who wait is on every
# PodGroup (`line.py`).
BUILT_IN = ("snapshot", "reflectjoborder")
REFUSED = ("numa",)
OFF_UNLESS_NAMED = ("gpuspread",)
# What KAI calls an argument → what the plugin here calls it; "" has no meaning here.
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "proportion": {"kValue": "usage_weight", "relcaimerSaturationMultiplier": "saturation"},
    "minruntime": {
        "defaultPreemptMinRuntime": "preempt",
        "defaultReclaimMinRuntime": "reclaim",
        "reclaimResolveMethod": "method",
    },
    "dynamicresources": {"maxCelCacheEntries": ""},
    "nodeplacement": {"gpu": "gpu", "cpu": "cpu"},
}


@dataclass(frozen=True, slots=True)
class Policy:
    """A cycle's rules. `exact` follows KAI 0.17 to the letter.

    The search for victims is limited in effort, not in time, so that a replayed cycle ends the same way on any machine:
    a trial costs the number of nodes and a fixed part; 0 is no limit.
    """

    name: str
    plugins: tuple[Plugin, ...]
    actions: tuple[str, ...] = tuple(ACTIONS)
    generators: tuple[str, ...] = GENERATORS
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
    thorough: bool = False
    """Make every trial of a search, also those that cannot end otherwise than is known already."""
    signatures: bool = False
    """Pass over gangs that look like one for which no victims were found in this action, unless they are easier."""
    reserve_after: float | None = None
    """Seconds a gang waits before nodes are kept for it; None never reserves."""

    @property
    def proportion(self) -> Proportion:
        """How queues are compared, also where the plugin itself is off."""
        return next((plugin for plugin in self.plugins if isinstance(plugin, Proportion)), Proportion())

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
    """Plugins by name with their arguments, in this order; generators are chosen apart (`chosen_generators`)."""
    plugins = []
    for name, given in arguments.items():
        if name in BUILT_IN or name in GENERATORS:
            continue
        if name in REFUSED:
            raise ValueError(f'scheduler policy: plugin "{name}" is not supported; leave it out or disable it')
        if name not in PLUGINS:
            raise ValueError(f'scheduler policy: unknown plugin "{name}"{nearest(name, PLUGINS)}')
        plugins.append(_configured(name, given))
    return tuple(plugins)


def chosen_generators(names: Iterable[str]) -> tuple[str, ...]:
    """The generators a list of plugins names, in the order they are tried."""
    named = set(names)
    return tuple(generator for generator in GENERATORS if generator in named)


def _configured(name: str, given: Mapping[str, str]) -> Plugin:
    known = ARGUMENTS.get(name, {})
    for argument in given:
        if argument not in known:
            raise ValueError(
                f'scheduler policy: plugin "{name}" takes no argument "{argument}"{_instead(argument, known)}'
            )
    try:
        return PLUGINS[name][1](**{known[argument]: value for argument, value in given.items() if known[argument]})
    except ValueError as error:
        raise ValueError(f'scheduler policy: plugin "{name}": {error}') from None


def _instead(argument: str, known: Mapping[str, str]) -> str:
    return nearest(argument, known) if known else "; it takes none"


def _standard() -> dict[str, dict[str, str]]:
    return {name: {} for name in PLUGINS if name not in OFF_UNLESS_NAMED}


# Without a SchedulingShard KAI's own list has no `podaffinity`; with one it has.
_BARE = {name: given for name, given in _standard().items() if name != "podaffinity"}
KAI = Policy("kai", make(_BARE), exact=True, signatures=True)
DEFAULT = Policy(
    "default", make(_standard()), effort_per_gang=1_000_000, effort_per_cycle=10_000_000, reserve_after=300.0
)
NAMED = {policy.name: policy for policy in (DEFAULT, KAI)}


def read(spec: Document) -> Policy:
    """A policy from a SchedulingShard's spec; `policy: kai` or `policy: default` chooses what it starts from."""
    name = spec.get("policy", "default")
    if name not in NAMED:
        raise ValueError(f'scheduler policy: unknown policy "{name}"{nearest(name, NAMED)}')
    _refuse_strangers(spec)
    named = _plugins(spec)
    return replace(
        NAMED[name],
        plugins=make(named),
        generators=chosen_generators(named),
        actions=_actions(spec),
        queue_depth=spec.get("queueDepthPerAction"),
        usage_half_life=_half_life(spec),
        fewest_victims=bool(spec.get("fewestVictims", False)),
        **_flags(spec),
    )


def _refuse_strangers(spec: Document) -> None:
    """What would be ignored is refused by name."""
    for field, value in sorted(spec.items()):
        if field in _UNSUPPORTED and value:
            raise ValueError(f"scheduler policy: {field} is not supported; {_UNSUPPORTED[field]}")
        if field not in _FIELDS and field not in _UNSUPPORTED:
            raise ValueError(f'scheduler policy: unknown field "{field}"{nearest(field, _FIELDS)}')


def _truth(said: str) -> bool:
    """A flag as Go reads it."""
    if said not in ("true", "false"):
        raise ValueError(f'scheduler policy: "{said}" is neither true nor false')
    return said == "true"


# Flags of KAI's scheduler process that mean something here; the others are refused by name.
_FLAGS: Mapping[str, tuple[str, Callable[[str], float | int]]] = {
    "use-scheduling-signatures": ("signatures", _truth),
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
    if set(said) - {"usageParams", "clientType"} or set(said.get("usageParams") or {}) - {"halfLifePeriod"}:
        raise ValueError("scheduler policy: of usageDBConfig only usageParams.halfLifePeriod is supported")
    return seconds((said.get("usageParams") or {}).get("halfLifePeriod", 0))


_FIELDS = {
    "policy", "actions", "plugins", "placementStrategy", "minRuntime", "kValue", "queueDepthPerAction", "args",
    "usageDBConfig", "fewestVictims", "goMemLimit", "goMemLimitRatio",
}  # fmt: skip
_UNSUPPORTED = {
    "partitionLabelValue": "one scheduler serves all nodes",
    "scenarioSearchBudgets": "the search for victims is limited in effort, so that a replayed cycle ends the same way",
}


def _plugins(spec: Document) -> dict[str, Mapping[str, str]]:
    """The standard list, adapted to the placement strategy, overlaid with what the spec says, highest priority
    first."""
    chosen: dict[str, tuple[int, Mapping[str, str]]] = {
        name: (PLUGINS[name][0], arguments) for name, arguments in _standard().items()
    }
    chosen |= {generator: (0, {}) for generator in GENERATORS}
    gpu, cpu = (dig(spec, "placementStrategy", kind, default="binpack") for kind in ("gpu", "cpu"))
    for strategy in (gpu, cpu):
        if strategy not in ("binpack", "spread"):
            raise ValueError(f'scheduler policy: placement strategy "{strategy}" is unknown; use binpack or spread')
    chosen["nodeplacement"] = (PLUGINS["nodeplacement"][0], {"gpu": gpu, "cpu": cpu})
    if gpu == "spread":
        del chosen["gpupack"], chosen["gpusharingorder"]
        chosen["gpuspread"] = (PLUGINS["gpuspread"][0], {})
    if times := spec.get("minRuntime"):
        given = {f"default{key[:1].upper()}{key[1:]}": value for key, value in times.items()}
        chosen["minruntime"] = (PLUGINS["minruntime"][0], given)
    if spec.get("kValue") is not None:
        chosen["proportion"] = (PLUGINS["proportion"][0], {"kValue": str(spec["kValue"])})
    for name, said in (spec.get("plugins") or {}).items():
        if name in BUILT_IN:
            continue
        priority, arguments = chosen.pop(name, (PLUGINS.get(name, (0, None))[0], {}))
        if said.get("enabled", True):
            chosen[name] = (said.get("priority", priority), said.get("arguments", arguments))
    return {name: arguments for name, (_, arguments) in sorted(chosen.items(), key=lambda item: -item[1][0])}


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
