"""A legacy manifest becomes a TrainJob; what a TrainJob has no place for is said, not dropped in silence."""

from __future__ import annotations

from dataclasses import dataclass, field

from allaboard.api.documents import Document, dig
from allaboard.api.errors import AboardError
from allaboard.api.meta import name_of

RUNTIMES = {"PyTorchJob": "torch-distributed", "MPIJob": "mpi-distributed"}
_CONTAINERS = {"PyTorchJob": "pytorch", "MPIJob": ""}
_REPLICAS = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}
_CARRIED = ("image", "command", "args", "env", "resources", "name")
_POD_CARRIED = (
    "containers",
    "restartPolicy",
    "nodeSelector",
    "tolerations",
    "volumes",
    "serviceAccountName",
    "affinity",
)


class NotConvertible(AboardError):
    """A manifest of a kind we know no TrainJob for."""


@dataclass(slots=True)
class Conversion:
    """A TrainJob, and what of the original it does not say."""

    job: Document
    lost: list[str] = field(default_factory=list)


def convert(manifest: Document) -> Conversion:
    """The TrainJob that trains the same."""
    kind = str(manifest.get("kind", ""))
    if kind not in RUNTIMES:
        known = ", ".join(RUNTIMES)
        raise NotConvertible(f'kind "{kind}" cannot be converted to a TrainJob; kinds that can: {known}')
    specs: Document = dig(manifest, "spec", _REPLICAS[kind], default={})
    main = specs.get("Worker") or specs.get("Master") or specs.get("Launcher")
    if not main:
        raise NotConvertible(f"spec.{_REPLICAS[kind]}: no replicas; a TrainJob needs at least one node")
    result = Conversion(_job(manifest, kind, specs, main))
    _patches(result, kind, main)
    _losses(result, manifest, kind, specs)
    return result


def _job(manifest: Document, kind: str, specs: Document, main: Document) -> Document:
    metadata = {key: manifest["metadata"][key] for key in ("labels", "annotations") if manifest["metadata"].get(key)}
    metadata = {"name": name_of(manifest), **metadata}
    if dig(manifest, "metadata", "namespace"):
        metadata["namespace"] = manifest["metadata"]["namespace"]
    spec: Document = {"runtimeRef": {"name": RUNTIMES[kind]}, "trainer": _trainer(manifest, kind, specs, main)}
    policy = dig(manifest, "spec", "runPolicy", default={})
    for key in ("suspend", "ttlSecondsAfterFinished", "activeDeadlineSeconds"):
        if policy.get(key) not in (None, False):
            spec[key] = policy[key]
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}


def _trainer(manifest: Document, kind: str, specs: Document, main: Document) -> Document:
    """Everybody who computes is a node; of an MPIJob the launcher says what to run, the workers with what."""
    speaks = specs.get("Launcher") or main
    container, workhorse = _container(kind, speaks), _container(kind, main)
    counted = [spec for name, spec in specs.items() if name != "Launcher" or spec is main]
    trainer: Document = {"numNodes": sum(spec.get("replicas", 1) for spec in counted)}
    per_node = manifest["spec"].get("slotsPerWorker") or manifest["spec"].get("nprocPerNode")
    if per_node is not None:
        trainer["numProcPerNode"] = int(per_node) if str(per_node).isdecimal() else per_node
    trainer |= {key: container[key] for key in ("image", "command", "args", "env") if container.get(key)}
    if workhorse.get("resources"):
        trainer["resourcesPerNode"] = workhorse["resources"]
    return trainer


def _container(kind: str, spec: Document) -> Document:
    containers: list[Document] = spec["template"]["spec"]["containers"]
    named = [container for container in containers if container["name"] == _CONTAINERS[kind]]
    return (named or containers)[0]


def _patches(result: Conversion, kind: str, main: Document) -> None:
    """Where pods run, and which volumes they see, goes into a patch of the runtime's pods."""
    pod, container = main["template"]["spec"], _container(kind, main)
    spec: Document = {key: pod[key] for key in _POD_CARRIED[2:] if pod.get(key)}
    if container.get("volumeMounts"):
        spec["containers"] = [{"name": "node", "volumeMounts": container["volumeMounts"]}]
    if spec:
        template = {"spec": {"template": {"spec": spec}}}
        entry = {"name": "node", "template": template}
        patch = {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [entry]}}}}
        result.job["spec"]["runtimePatches"] = [{"manager": "aboard.dev/convert", **patch}]


def _losses(result: Conversion, manifest: Document, kind: str, specs: Document) -> None:
    """What was asked for and has no place."""
    policy = dig(manifest, "spec", "runPolicy", default={})
    for key in ("backoffLimit", "cleanPodPolicy", "schedulingPolicy", "managedBy"):
        if policy.get(key) not in (None, "None"):
            result.lost.append(f"spec.runPolicy.{key}: a TrainJob takes this from its runtime")
    for key in (
        "elasticPolicy",
        "sshAuthMountPath",
        "launcherCreationPolicy",
        "mpiImplementation",
        "runLauncherAsWorker",
    ):
        if manifest["spec"].get(key) is not None:
            result.lost.append(f"spec.{key}: a TrainJob takes this from its runtime")
    for name, spec in specs.items():
        field_ = f"spec.{_REPLICAS[kind]}.{name}"
        if spec.get("restartPolicy"):
            result.lost.append(f"{field_}.restartPolicy: a TrainJob takes this from its runtime")
        for container in spec["template"]["spec"]["containers"]:
            if container is not _container(kind, spec):
                result.lost.append(f'{field_}: container "{container["name"]}" has no place in a TrainJob')
        for key in sorted(set(spec["template"]["spec"]) - set(_POD_CARRIED)):
            result.lost.append(f"{field_}.template.spec.{key}: say it in spec.runtimePatches")
        for key in sorted(set(_container(kind, spec)) - {*_CARRIED, "volumeMounts", "ports"}):
            result.lost.append(f"{field_}.template.spec.containers.{key}: say it in spec.runtimePatches")
    if kind == "PyTorchJob" and _differs(specs):
        result.lost.append("spec.pytorchReplicaSpecs.Master: differs from Worker; every node of a TrainJob is the same")


def _differs(specs: Document) -> bool:
    if "Master" not in specs or "Worker" not in specs:
        return False
    master, worker = (_container("PyTorchJob", specs[name]) for name in ("Master", "Worker"))
    return any(master.get(key) != worker.get(key) for key in ("image", "command", "args", "env", "resources"))
