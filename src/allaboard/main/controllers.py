"""Every controller and every admission hook by the name people switch it with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from allaboard.api import kinds
from allaboard.api.kinds import Kind
from allaboard.jobs import admission as jobs_admission
from allaboard.jobs import controller as jobs
from allaboard.jobs.legacy import controller as legacy
from allaboard.kube.client import Client
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Controller
from allaboard.kube.informer import Informers
from allaboard.main.settings import Settings
from allaboard.scheduling import admission as scheduling_admission
from allaboard.scheduling import binder, grouper, loop, podgroups, policy, status
from allaboard.training import admission as training_admission
from allaboard.training.controller import TrainJobController
from allaboard.training.facts import Settings as TrainingSettings
from allaboard.training.framework import Framework
from allaboard.training.leftovers import RuntimeController
from allaboard.upkeep import accounts, claims, endpoints, ephemeral, namespaces, nodes, quota, rootca

POD_GROUPS = (kinds.POD_GROUP, kinds.POD_GROUP_COSCHEDULING, kinds.POD_GROUP_VOLCANO)


class Parts(Protocol):
    """What controllers and hooks are built from; embedded it is the heart, on a cluster a citizen."""

    @property
    def informers(self) -> Informers: ...
    @property
    def client(self) -> Client: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def framework(self) -> Framework: ...
    @property
    def training(self) -> TrainingSettings: ...
    @property
    def gates(self) -> frozenset[str]: ...
    @property
    def schedulers(self) -> frozenset[str]: ...
    @property
    def authority(self) -> str: ...
    def served(self) -> list[Kind]: ...


def _tidied(parts: Parts) -> list[RuntimeController]:
    """Runtimes written by older versions lose the finalizer nobody takes off any more."""
    both = (kinds.TRAINING_RUNTIME, kinds.CLUSTER_TRAINING_RUNTIME)
    return [RuntimeController(parts.informers, kind) for kind in both]


# Every controller by the name people switch it with. On a cluster the same classes run over HTTP.
CONTROLLERS: dict[str, Callable[[Parts], Iterable[Controller]]] = {
    "trainjob": lambda p: [
        TrainJobController(p.informers, p.clock, p.training, p.framework, live=p.client),
        *_tidied(p),
    ],
    "jobset": lambda p: [jobs.JobSetController(p.informers, p.clock, p.gates)],
    "job": lambda p: [jobs.JobController(p.informers, p.clock), jobs.TrackingController(p.informers)],
    "placement": lambda p: [jobs.PlacementController(p.informers, p.clock)],
    "ttl": lambda p: [jobs.JobTtlController(p.informers, p.clock)],
    "cronjob": lambda p: [jobs.CronJobController(p.informers, p.clock)],
    "podgarbage": lambda p: [jobs.PodGarbageController(p.informers, p.clock)],
    "pytorchjob": lambda p: [legacy.PyTorchJobController(p.informers, p.clock)],
    "mpijob": lambda p: [legacy.MpiJobController(p.informers, p.clock)],
    "grouper": lambda p: [
        grouper.Grouper(p.informers, p.clock, p.client, podgroups.Settings(p.schedulers), grouper.EMBEDDED_OWNERS)
    ],
    "scheduler": lambda p: [loop.Scheduler(p.informers, p.clock, p.schedulers, policy.DEFAULT)],
    "podgroups": lambda p: [status.PodGroupStatus(p.informers, p.clock, POD_GROUPS)],
    "queues": lambda p: [status.QueueStatus(p.informers, p.clock)],
    "binder": lambda p: [binder.Binder(p.informers, p.clock)],
    "namespaces": lambda p: [namespaces.Namespaces(p.informers, p.clock, p.client, p.served)],
    "accounts": lambda p: [accounts.Accounts(p.informers, p.clock)],
    "rootca": lambda p: [rootca.RootCa(p.informers, p.clock, p.authority)],
    "claim-protection": lambda p: [claims.ClaimProtection(p.informers, p.clock)],
    "claims": lambda p: [
        claims.Claims(p.informers, p.clock, str(p.settings.home.path / "volumes")),
        ephemeral.EphemeralVolumes(p.informers, p.clock),
    ],
    "quota": lambda p: [kind(p.informers, p.clock, p.client, p.served) for kind in (quota.Quotas, quota.QuotaUse)],
    "endpoints": lambda p: [endpoints.Endpoints(p.informers, p.clock)],
    "nodes": lambda p: [nodes.Nodes(p.informers, p.clock)],
    "garbage": lambda p: [],  # works on the store itself: see `Heart.keeping`
}
ADMISSION: dict[str, Callable[[Parts], Iterable[object]]] = {
    "trainjob": lambda p: training_admission.hooks(p.clock.now, p.framework),
    "jobset": lambda p: jobs_admission.hooks(p.gates),
    "scheduling": lambda p: scheduling_admission.hooks(podgroups.Settings(p.schedulers)),
}
