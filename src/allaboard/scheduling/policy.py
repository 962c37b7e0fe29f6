"""Which actions and plugins run, with which settings; names and defaults are KAI's, unknown names stop the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from allaboard.points import Plugin, nearest
from allaboard.scheduling.plugins.claims import DynamicResources
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

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
PLUGINS: Mapping[str, Callable[..., Plugin]] = {
    "predicates": Predicates,
    "proportion": Proportion,
    "priority": Priority,
    "nodeavailability": NodeAvailability,
    "resourcetype": ResourceType,
    "elastic": Elastic,
    "kubeflow": Kubeflow,
    "ray": Ray,
    "subgrouporder": SubGroupOrder,
    "taskorder": TaskOrder,
    "nominatednode": NominatedNode,
    "dynamicresources": DynamicResources,
    "topology": TopologyPlugin,
    "gpupack": GpuPack,
    "gpuspread": GpuSpread,
    "nodeplacement": NodePlacement,
    "gpusharingorder": GpuSharingOrder,
}
DEFAULT_PLUGINS = tuple(name for name in PLUGINS if name != "gpuspread")


@dataclass(frozen=True, slots=True)
class Policy:
    """A cycle's rules. `exact` follows KAI 0.17 to the letter, its accidents included."""

    name: str
    plugins: tuple[Plugin, ...]
    actions: tuple[str, ...] = ACTIONS
    usage_weight: float = 1.0
    stale_grace: float = 60.0
    consolidation_victims: int = 16
    signatures: bool = False
    exact: bool = False

    def packing(self) -> dict[bool, bool]:
        """For work with GPUs (False) and without (True): whether it is packed, so that equal tasks go by arithmetic."""
        names = {plugin.name for plugin in self.plugins}
        placement = next((plugin for plugin in self.plugins if isinstance(plugin, NodePlacement)), None)
        if "nodeavailability" not in names:
            return {True: False, False: False}
        if placement is None:
            return {True: False, False: False}
        return {True: placement.cpu == "binpack", False: placement.gpu == "binpack"}


def make(names: Mapping[str, Mapping[str, str]]) -> tuple[Plugin, ...]:
    """Plugins by name with their arguments, in this order."""
    for name in names:
        if name not in PLUGINS:
            raise ValueError(f'scheduler policy: unknown plugin "{name}"{nearest(name, PLUGINS)}')
    return tuple(PLUGINS[name](**arguments) for name, arguments in names.items())


KAI = Policy("kai", make({name: {} for name in DEFAULT_PLUGINS}), exact=True)
DEFAULT = Policy("default", make({name: {} for name in DEFAULT_PLUGINS}))
