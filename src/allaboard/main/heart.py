"""The heart of a plane: the cluster, every controller and every admission hook by name, and the first objects."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from contextlib import AbstractAsyncContextManager

from allaboard.api import crds, kinds
from allaboard.api.documents import Document
from allaboard.api.errors import AlreadyExists
from allaboard.api.kinds import Kind, kind_of
from allaboard.api.meta import key_of
from allaboard.cluster.admitters import ADMISSION as BUILT_IN_ADMISSION
from allaboard.cluster.admitters.escalation import NoEscalation
from allaboard.cluster.inside import Inside
from allaboard.cluster.keeper import Keeper, keeping
from allaboard.cluster.memory import Store
from allaboard.cluster.plane import Cluster
from allaboard.cluster.store import Journal
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Loop
from allaboard.kube.informer import Informers
from allaboard.main.controllers import ADMISSION, CONTROLLERS
from allaboard.main.settings import Settings
from allaboard.scheduling import defaults
from allaboard.training import runtimes
from allaboard.training.extensions import framework_with
from allaboard.training.facts import Settings as TrainingSettings
from allaboard.upkeep import claims, firsts

# Ruling 22: whose pods the embedded scheduler takes.
SCHEDULERS = frozenset({"default-scheduler", "kai-scheduler", "aboard"})
# The Kubeflow Trainer whose API and behaviour ours are.
TRAINER_VERSION = "v2.3.0"
# Passes of one controller side by side. In this process they wait for the disk only, and share its commits.
WORKERS = 32


class Heart:
    """Cluster, controllers and scheduler in one process: everything but the doors and the nodes."""

    def __init__(self, settings: Settings, clock: Clock, journal: Journal, authority: str = "") -> None:
        self.settings = settings
        self.clock: Clock = clock
        self.authority = authority
        self.framework = framework_with(settings.plugins)
        guards = [NoEscalation()] if settings.auth == "rbac" else []
        hooks = [*guards, *BUILT_IN_ADMISSION, *(hook for name in settings.admission for hook in ADMISSION[name](self))]
        self.cluster = Cluster(Store(journal), hooks)
        self.client = Inside(self.cluster)
        self.informers = Informers(self.client, clock)
        made = [controller for name in settings.controllers for controller in CONTROLLERS[name](self)]
        self.loops = [Loop(controller, self.client, self.informers, clock, WORKERS) for controller in made]

    schedulers = SCHEDULERS

    @property
    def training(self) -> TrainingSettings:
        """Pods report progress to the API server, at the address every pod is given for it."""
        url = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
        return TrainingSettings(status_url=url, gates=self.gates & {"TrainJobStatus"})

    def served(self) -> list[Kind]:
        """Every kind served now, definitions of users included."""
        return [rules.kind for rules in self.cluster.registry.rules()]

    @property
    def gates(self) -> frozenset[str]:
        return frozenset(name for name, on in self.settings.gates.items() if on)

    def keeping(self) -> AbstractAsyncContextManager[Keeper]:
        """What the store itself needs done: owners' garbage, definitions, expired events."""
        return keeping(self.cluster, garbage="garbage" in self.settings.controllers)

    async def run(self) -> None:
        """Keep every controller going until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run())
            await self.informers.synced()
            for each in self.loops:
                group.create_task(each.run(), name=each.controller.name)
            if not self.loops:  # an API server alone is a plane, too
                await asyncio.Event().wait()


async def bootstrap(client: Inside, keeper: Keeper, authority: str = "", *, storage: bool = True) -> None:
    """What every plane has from its first start; our own kinds and runtimes follow the version that runs.

    `storage`: somebody provisions volumes, so there is a default storage class.
    """
    for crd in crds.documents():
        await client.apply(kinds.CRD, crd, manager="aboard", force=True)
    await keeper.settle()  # from here on our kinds are served
    for document in firsts.objects(443):
        await _make(client, document, firsts.MANAGER)
    for document in [*_first_objects(authority), *([claims.storage_class()] if storage else [])]:
        await _make(client, document, "aboard")
    for runtime in runtimes.shipped_runtimes():
        await client.apply(kind_of(runtime), runtime, manager="aboard", force=True)


async def _make(client: Inside, document: Document, manager: str) -> None:
    """Create it unless it is there."""
    kind = kind_of(document)
    if await client.get(kind, key_of(document)) is None:
        with contextlib.suppress(AlreadyExists):
            await client.create(kind, document, manager=manager)


def _first_objects(authority: str) -> list[Document]:
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TrainingSettings().namespace}}
    return [system, _trust(authority), *public_version(), *(document for _, document in defaults.OBJECTS)]


def public_version() -> list[Document]:
    """Which Trainer the plane speaks, for every client that has a name: the kubeflow SDK reads it first."""
    metadata = {"name": "kubeflow-trainer-public", "namespace": TrainingSettings().namespace}
    version = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    version["data"] = {"kubeflow_trainer_version": TRAINER_VERSION}
    rbac, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [metadata["name"]], "verbs": ["get"]}
    role = {"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": [rule]}
    everyone = {"apiGroup": group, "kind": "Group", "name": "system:authenticated"}
    binding = {"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata, "subjects": [everyone]}
    binding["roleRef"] = {"apiGroup": group, "kind": "Role", "name": metadata["name"]}
    return [version, role, binding]


def _trust(authority: str) -> Document:
    """The certificate pods trust when they report progress."""
    settings = TrainingSettings()
    metadata = {"name": settings.secret, "namespace": settings.namespace}
    text = base64.b64encode(authority.encode()).decode()
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"ca.crt": text}}
