"""Flux: every node runs a broker, the first one runs the program on all of them; the brokers share one secret key."""

from __future__ import annotations

import base64
import shlex
import struct
from collections.abc import Iterable

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.training import upsert
from allaboard.training.facts import Case, Facts
from allaboard.training.info import NODE, Container, Info, PodSet
from allaboard.training.job import TrainJob
from allaboard.training.plugins.flux_scripts import Cluster, entry_script, hostlist, init_script, span
from allaboard.training.problems import invalid
from allaboard.training.resources import as_number, gpu_count, processes
from allaboard.training.runtime import node_resources

SCRIPTS_SUFFIX, CURVE_SUFFIX = "-flux-entrypoint", "-flux-curve"
SCRIPTS_FOLDER, SOFTWARE = "/etc/flux-config", "/opt/software"
INSTALLER = "flux-installer"
DEFAULTS = {
    "FLUX_VIEW_IMAGE": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    "FLUX_NETWORK_DEVICE": "eth0",
    "FLUX_QUEUE_POLICY": "fcfs",
}
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class Flux:
    name = "flux"

    def validate(self, case: Case) -> Iterable[Cause]:
        trainer = case.info.trainer or case.info.pod_set(NODE)
        if case.info.ml_policy.get("flux") is None or trainer is None:
            return
        if any(container.name == INSTALLER for container in trainer.init_containers):
            words = f'the runtime already has an init container "{INSTALLER}", which Flux adds; rename it'
            yield invalid("spec.trainer.initContainers", INSTALLER, words)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        if info.ml_policy.get("flux") is None or info.trainer is None:
            return
        container = info.trainer_container
        # Quoted word by word, so that the shell in between changes nothing (defect 26).
        program = info.command or (container.command if container else [])
        entry = ["/bin/bash", f"{SCRIPTS_FOLDER}/entrypoint.sh", shlex.join([*program, *(info.args or [])])]
        info.command, info.args = entry, None
        upsert.volumes(info.trainer.volumes, _volumes(job))
        if container:
            upsert.mounts(container.mounts, _mounts(job))
        info.trainer.init_containers.append(_installer(_settings(container, job)["FLUX_VIEW_IMAGE"], job))

    def build(self, info: Info, job: TrainJob, facts: Facts) -> Iterable[Document]:
        if info.ml_policy.get("flux") is None or info.trainer is None:
            return
        cluster = _cluster(info, info.trainer, job)
        scripts = {"entrypoint.sh": entry_script(cluster), "init.sh": init_script(cluster)}
        yield job.child("v1", "ConfigMap", job.name + SCRIPTS_SUFFIX, data=scripts)
        # Random and written once: who can read the TrainJob must not be able to guess it (defect 29).
        if not facts.has(kinds.SECRET, job.name + CURVE_SUFFIX):
            certificate = base64.b64encode(curve(job.name, facts.entropy(32)).encode()).decode()
            yield job.child("v1", "Secret", job.name + CURVE_SUFFIX, data={"curve.cert": certificate})


def _settings(container: Container | None, job: TrainJob) -> dict[str, str]:
    """Flux's own settings: ours, then the runtime's variables, then the TrainJob's."""
    stated = {entry["name"]: entry.get("value") for entry in [*(container.env if container else []), *job.env]}
    return {name: stated.get(name) or value for name, value in DEFAULTS.items()}


def _volumes(job: TrainJob) -> Documents:
    scripts, curve_secret = job.name + SCRIPTS_SUFFIX, job.name + CURVE_SUFFIX
    return [
        {"name": "spack-install", "emptyDir": {}},
        {"name": "flux-install", "emptyDir": {}},
        {"name": scripts, "configMap": {"name": scripts, "defaultMode": 0o755}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        {"name": "flux-curve", "secret": {"secretName": curve_secret, "defaultMode": 0o400}},
    ]


def _mounts(job: TrainJob) -> Documents:
    return [
        {"name": "flux-install", "mountPath": "/mnt/flux"},
        {"name": "spack-install", "mountPath": SOFTWARE},
        {"name": job.name + SCRIPTS_SUFFIX, "mountPath": SCRIPTS_FOLDER, "readOnly": True},
        {"name": "flux-curve", "mountPath": "/curve", "readOnly": True},
        # Shared memory is there to be written (defect 27).
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]


def _installer(image: str, job: TrainJob) -> Container:
    mounts: Documents = [
        {"name": "flux-install", "mountPath": "/mnt/flux"},
        {"name": job.name + SCRIPTS_SUFFIX, "mountPath": SCRIPTS_FOLDER, "readOnly": True},
    ]
    return Container(INSTALLER, image, ["/bin/bash", f"{SCRIPTS_FOLDER}/init.sh"], mounts=mounts)


def _cluster(info: Info, pods: PodSet, job: TrainJob) -> Cluster:
    settings, nodes = _settings(pods.main_container, job), 1 if pods.count is None else pods.count
    tasks, gpus = _tasks(info, job), gpu_count(node_resources(info))
    flags, shares = f"-N {nodes} -n {tasks * nodes}", f"--cores={span(tasks)}"
    if gpus:
        shares += f" --gpu={span(gpus)}"
    # Flux counts devices per task, and a node's are shared by its tasks (defect 28).
    if per_task := gpus // tasks:
        flags += f" -g {per_task}"
    prefix = f"{job.name}-{pods.name}"
    return Cluster(
        hosts=hostlist(prefix, nodes),
        lead=f"{prefix}-0-0",
        domain=f"{info.subdomain(job.name)}.{job.namespace}.svc.cluster.local",
        flags=flags,
        resources=shares,
        device=settings["FLUX_NETWORK_DEVICE"],
        queue_policy=settings["FLUX_QUEUE_POLICY"],
    )


def _tasks(info: Info, job: TrainJob) -> int:
    stated = as_number(info.ml_policy["flux"].get("numProcPerNode") or 1)
    wanted = job.trainer.get("numProcPerNode") or stated
    return processes(wanted, stated if isinstance(stated, int) else 1, node_resources(info))


def curve(name: str, secret: bytes) -> str:
    """A ZeroMQ certificate for this secret number."""
    public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
    lines = (
        "#  ZeroMQ CURVE Secret Certificate",
        "#  Generated by Kubeflow Trainer",
        "",
        "metadata",
        f'    name = "{name}"',
        "curve",
        f'    public-key = "{z85(public)}"',
        f'    secret-key = "{z85(secret)}"',
        "",
    )
    return "\n".join(lines)


def z85(data: bytes) -> str:
    """ZeroMQ's base 85: five characters for four bytes; nothing for a length that does not divide."""
    if len(data) % 4:
        return ""
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))
