"""The middle language between a runtime and objects: pod sets and containers, which plugins shape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import AboardError
from allaboard.training import upsert

TRAINER, DATASET, MODEL = "trainer", "dataset-initializer", "model-initializer"
NODE, LAUNCHER = "node", "launcher"
PORT = 29500
COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


class PluginClash(AboardError):
    """Two plugins want different values in one variable."""


def variable(name: str, value: str) -> Document:
    return {"name": name, "value": value}


def field_variable(name: str, path: str) -> Document:
    """A variable the node fills in from the pod's own metadata."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


@dataclass(slots=True)
class Container:
    """What plugins may shape of a container; everything else of the template stays as it is."""

    name: str
    image: str = ""
    command: list[str] = field(default_factory=list)
    env: Documents = field(default_factory=list)
    ports: Documents = field(default_factory=list)
    mounts: Documents = field(default_factory=list)
    # Which plugin set which variable, so that two of them cannot overwrite each other unnoticed.
    authors: dict[str, str] = field(default_factory=dict)

    def inject(self, author: str, variables: Iterable[Document]) -> None:
        """Set variables in a plugin's name."""
        variables = list(variables)
        now = {entry["name"]: entry for entry in self.env}
        for new in variables:
            before = self.authors.setdefault(new["name"], author)
            if before != author and now.get(new["name"]) != new:
                raise PluginClash(_clash(self.name, before, author, new["name"]))
        upsert.env(self.env, variables)

    def open_port(self, number: int) -> None:
        upsert.ports(self.ports, [{"containerPort": number}])


def _clash(container: str, first: str, second: str, name: str) -> str:
    return (
        f'container "{container}": plugins "{first}" and "{second}" both set variable "{name}" to different values; '
        "leave one of them out of the configuration"
    )


@dataclass(slots=True)
class PodSet:
    """The pods of one replicated job: alike, counted, and with names in the network."""

    name: str
    ancestor: str | None = None
    count: int | None = None
    volumes: Documents = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    replicas: int = 1
    # The container that the TrainJob's trainer block speaks about.
    main: str = NODE
    # One pod's requests, as the gang plugins count them; filled in only where a gang is asked for.
    requests: Document = field(default_factory=dict)

    def container(self, name: str) -> Container | None:
        return next((container for container in self.containers if container.name == name), None)

    @property
    def main_container(self) -> Container | None:
        return self.container(self.main)

    def any_container(self, name: str) -> Container | None:
        """A regular container of that name, else an init container."""
        return next((c for c in (*self.containers, *self.init_containers) if c.name == name), None)


@dataclass(slots=True)
class Info:
    """Everything the phases know and change about one job; made for one pass and never shared."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    ml_policy: Document = field(default_factory=dict)
    gang_policy: Document = field(default_factory=dict)
    # Set on the pods of the gang: the trainer's phase (ruling 10).
    pod_labels: dict[str, str] = field(default_factory=dict)
    pod_annotations: dict[str, str] = field(default_factory=dict)
    template: Document = field(default_factory=dict)
    pod_sets: list[PodSet] = field(default_factory=list)
    # What the trainer container runs, where a plugin puts its own program in front; None leaves it to the TrainJob.
    command: list[str] | None = None
    args: list[str] | None = None
    # Processes per node, once a plugin settled it.
    slots: int = 1

    def pod_set(self, name: str) -> PodSet | None:
        return next((found for found in self.pod_sets if found.name == name), None)

    @property
    def trainer(self) -> PodSet | None:
        """The pods that train: the first with the trainer label."""
        return next((found for found in self.pod_sets if found.ancestor == TRAINER), None)

    @property
    def trainer_container(self) -> Container | None:
        trainer = self.trainer
        return trainer.main_container if trainer else None

    @property
    def jobs(self) -> Documents:
        return self.template.get("replicatedJobs") or []

    def subdomain(self, job_name: str) -> str:
        return (self.template.get("network") or {}).get("subdomain") or job_name

    def endpoint(self, job_name: str) -> str:
        """Where the first trainer pod is reached (defect 22: never assume what the job is called)."""
        trainer = self.trainer
        name = trainer.name if trainer else NODE
        return f"{job_name}-{name}-0-0.{self.subdomain(job_name)}"

    def endpoints(self, job_name: str, pods: PodSet) -> list[str]:
        """The network names of a pod set, replica by replica."""
        subdomain, count = self.subdomain(job_name), 1 if pods.count is None else pods.count
        prefix = f"{job_name}-{pods.name}-"
        return [f"{prefix}{r}-{p}.{subdomain}" for r in range(pods.replicas) for p in range(count)]
