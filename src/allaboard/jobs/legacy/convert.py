"""A legacy manifest becomes a TrainJob; what a TrainJob has no place for is said, not dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import AboardError
from allaboard.api.labels import QUEUE
from allaboard.api.meta import name_of
from allaboard.api.mpi import INTEL, MPICH, OPEN_MPI

PYTORCH, MPI = "PyTorchJob", "MPIJob"
_REPLICAS = {PYTORCH: "pytorchReplicaSpecs", MPI: "mpiReplicaSpecs"}
# The shipped runtimes: one of torch, one of each family of MPI.
_TORCH = "torch-distributed"
_FAMILIES = {OPEN_MPI: "mpi-distributed", INTEL: "mpi-distributed-intel", MPICH: "mpi-distributed-mpich"}
# What goes elsewhere in a TrainJob, and what says only what its runtime does anyway.
_SPEC_CARRIED = {
    *_REPLICAS.values(), "runPolicy", "nprocPerNode", "slotsPerWorker", "mpiImplementation", "mainContainer",
    "runLauncherAsWorker",
}  # fmt: skip
_ANYWAY = {
    "cleanPodPolicy": "None",
    "launcherCreationPolicy": "WaitForWorkersReady",
    "sshAuthMountPath": "/home/mpiuser/.ssh",
}
_POLICY_CARRIED = ("suspend", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
# What a patch of the runtime can say about pods and their main container.
_POD_CARRIED = (
    "nodeSelector", "tolerations", "volumes", "serviceAccountName", "affinity", "imagePullSecrets", "securityContext",
    "terminationGracePeriodSeconds", "schedulingGates",
)  # fmt: skip
_PATCHED = ("volumeMounts", "securityContext")
_TRAINER = ("image", "command", "args", "env")
FROM_RUNTIME = "a TrainJob takes this from its runtime"
NO_PLACE = "has no place in a TrainJob; make a runtime that has it"


class NotConvertible(AboardError):
    """A manifest of a kind we know no TrainJob for."""


@dataclass(slots=True)
class Conversion:
    """A TrainJob, and what of the original it does not say."""

    job: Document
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Old:
    """A legacy manifest, as the conversion reads it."""

    manifest: Document
    kind: str
    roles: Document
    main: str  # the role that computes

    @property
    def spec(self) -> Document:
        found: Document = self.manifest["spec"]
        return found

    @property
    def policy(self) -> Document:
        return self.spec.get("runPolicy") or {}

    @property
    def speaker(self) -> str:
        """The role that says what to run."""
        return "Launcher" if "Launcher" in self.roles else self.main

    def pod(self, role: str) -> Document:
        found: Document = self.roles[role]["template"]["spec"]
        return found

    def container(self, role: str) -> Document:
        containers: Documents = self.pod(role)["containers"]
        wanted = "pytorch" if self.kind == PYTORCH else self.spec.get("mainContainer", "")
        return next((one for one in containers if one["name"] == wanted), containers[0])


def convert(manifest: Document) -> Conversion:
    """The TrainJob that trains the same."""
    old = _read(manifest)
    spec: Document = {"runtimeRef": {"name": _runtime(old)}, "trainer": _trainer(old)}
    spec |= {key: old.policy[key] for key in _POLICY_CARRIED if old.policy.get(key) not in (None, False)}
    if patched := list(_patched(old)):
        template = {"spec": {"replicatedJobs": patched}}
        spec["runtimePatches"] = [{"manager": "aboard.dev/convert", "trainingRuntimeSpec": {"template": template}}]
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": _metadata(old), "spec": spec}
    return Conversion(job, list(_losses(old)))


def _read(manifest: Document) -> _Old:
    kind = str(manifest.get("kind", ""))
    if kind not in _REPLICAS:
        known = ", ".join(_REPLICAS)
        raise NotConvertible(f'kind "{kind}" cannot be converted to a TrainJob; kinds that can: {known}')
    roles: Document = dig(manifest, "spec", _REPLICAS[kind], default={})
    main = next((role for role in ("Worker", "Master", "Launcher") if roles.get(role)), None)
    if main is None:
        raise NotConvertible(f"spec.{_REPLICAS[kind]}: no replicas; a TrainJob needs at least one node")
    return _Old(manifest, kind, {role: spec for role, spec in roles.items() if spec}, main)


def _runtime(old: _Old) -> str:
    return (
        _TORCH
        if old.kind == PYTORCH
        else _FAMILIES.get(old.spec.get("mpiImplementation", OPEN_MPI), _FAMILIES[OPEN_MPI])
    )


def _metadata(old: _Old) -> Document:
    given = old.manifest["metadata"]
    metadata: Document = {"name": name_of(old.manifest)}
    metadata |= {key: given[key] for key in ("labels", "annotations", "namespace") if given.get(key)}
    if queue := dig(old.policy, "schedulingPolicy", "queue"):
        metadata["labels"] = {QUEUE: queue, **(given.get("labels") or {})}
    return metadata


def _trainer(old: _Old) -> Document:
    """Everybody who computes is a node; of an MPIJob the launcher says what to run, the workers with what."""
    computing = [
        role for role in old.roles if role != "Launcher" or role == old.main or old.spec.get("runLauncherAsWorker")
    ]
    trainer: Document = {"numNodes": sum(old.roles[role].get("replicas", 1) for role in computing)}
    per_node = old.spec.get("slotsPerWorker") or old.spec.get("nprocPerNode")
    if per_node is not None:
        trainer["numProcPerNode"] = int(per_node) if str(per_node).isdecimal() else per_node
    says = old.container(old.speaker)
    trainer |= {key: says[key] for key in _TRAINER if says.get(key)}
    if resources := old.container(old.main).get("resources"):
        trainer["resourcesPerNode"] = resources
    return trainer


def _patched(old: _Old) -> Iterator[Document]:
    """Where pods run and which volumes they see, in a patch of the runtime's jobs; the launcher is a job of its own."""
    for role in dict.fromkeys((old.main, old.speaker)):
        pod, container = old.pod(role), old.container(role)
        spec: Document = {key: pod[key] for key in _POD_CARRIED if pod.get(key)}
        if inside := {key: container[key] for key in _PATCHED if container.get(key)}:
            spec["containers"] = [{"name": "node", **inside}]
        metadata = old.roles[role]["template"].get("metadata") or {}
        told = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
        template: Document = {**({"metadata": told} if told else {}), **({"spec": spec} if spec else {})}
        if template:
            yield {"name": "launcher" if role == "Launcher" else "node", "template": {"spec": {"template": template}}}


# --- what was asked for and has no place ---


def _losses(old: _Old) -> Iterator[str]:
    for key in _others(old.spec, _SPEC_CARRIED):
        if old.spec[key] != _ANYWAY.get(key):
            yield f"spec.{key}: {FROM_RUNTIME}"
    if (family := old.spec.get("mpiImplementation")) not in (None, *_FAMILIES):
        yield f'spec.mpiImplementation: no shipped runtime speaks "{family}"; they speak {", ".join(_FAMILIES)}'
    for key in _others(old.policy, (*_POLICY_CARRIED, "schedulingPolicy")):
        if old.policy[key] != _ANYWAY.get(key):
            yield f"spec.runPolicy.{key}: {FROM_RUNTIME}"
    for key in _others(old.policy.get("schedulingPolicy") or {}, ("queue",)):
        yield f"spec.runPolicy.schedulingPolicy.{key}: {FROM_RUNTIME}"
    for role in old.roles:
        yield from _lost_of(old, role, f"spec.{_REPLICAS[old.kind]}.{role}")


def _lost_of(old: _Old, role: str, where: str) -> Iterator[str]:
    pod, container = old.pod(role), old.container(role)
    for key in _others(old.roles[role], ("replicas", "template")):
        yield f"{where}.{key}: {FROM_RUNTIME}"
    for key in _others(pod, (*_POD_CARRIED, "containers", "restartPolicy")):
        yield f"{where}.template.spec.{key}: {NO_PLACE}"
    for other in pod["containers"]:
        if other is not container:
            yield f'{where}: container "{other["name"]}" {NO_PLACE}'
    for key in _others(container, ("name", "resources", *_TRAINER, *_PATCHED)):
        yield f"{where}.template.spec.containers.{key}: {NO_PLACE}"
    if role != old.main and role != old.speaker:
        yield from _different(
            old, role, (*_TRAINER, "resources", *_PATCHED), f"{where} differs from {old.main}", pods=True
        )
    elif old.speaker != old.main:
        spoken = ("resources",) if role == old.speaker else _TRAINER
        yield from _different(old, role, spoken, f"{where} differs")


def _different(old: _Old, role: str, keys: Iterable[str], words: str, *, pods: bool = False) -> Iterator[str]:
    """What one role says otherwise than the other, where every node of a TrainJob is the same."""
    other = old.main if role != old.main else old.speaker
    mine, theirs = old.container(role), old.container(other)
    differing = [key for key in keys if mine.get(key) and mine.get(key) != theirs.get(key)]
    if pods:
        pod, their_pod = old.pod(role), old.pod(other)
        differing += [key for key in _POD_CARRIED if pod.get(key) != their_pod.get(key)]
    if differing:
        yield f"{words} in {', '.join(differing)}; every node of a TrainJob is the same"


def _others(document: Document, carried: Iterable[str]) -> list[str]:
    known = set(carried)
    return sorted(key for key, value in document.items() if key not in known and value not in (None, {}, []))
