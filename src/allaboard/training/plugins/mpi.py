"""MPI: a launcher that knows its hosts, workers that let it in by SSH, and the environment of the implementation."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import AboardError, Cause
from allaboard.api.mpi import IMPLEMENTATIONS, INTEL, MPICH, OPEN_MPI, hostfile, ssh_keys
from allaboard.training import upsert
from allaboard.training.facts import Case, Facts
from allaboard.training.info import LAUNCHER, NODE, Info, PodSet, variable
from allaboard.training.job import TrainJob
from allaboard.training.problems import invalid, reserved_names
from allaboard.training.resources import as_number, gpu_count, processes
from allaboard.training.runtime import node_resources, runs_launcher_as_node

SECRET_SUFFIX, HOSTFILE_SUFFIX = "-mpi-ssh-auth", "-mpi-hostfile"
SSH_VOLUME, HOSTFILE_VOLUME = "mpi-ssh-auth", "mpi-hostfile"
HOSTFILE_FOLDER, HOSTFILE = "/etc/mpi", "hostfile"
SSH_FOLDER = "/root/.ssh"
PRIVATE_KEY, PUBLIC_KEY = "ssh-privatekey", "ssh-publickey"
KEY_BYTES = 72  # more than the 521 bits of a key, so that its distribution is even
LONELY = "MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and node"
RETRIES = "-o ConnectionAttempts=10"

# What each implementation reads: the host file, how many processes a host takes, and how to start them over SSH.
ENVIRONMENT = {
    OPEN_MPI: (
        ("OMPI_MCA_orte_default_hostfile", f"{HOSTFILE_FOLDER}/{HOSTFILE}"),
        ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
        ("OMPI_MCA_orte_set_default_slots", "{slots}"),
        ("OMPI_MCA_plm_rsh_args", RETRIES),
    ),
    INTEL: (
        ("I_MPI_HYDRA_HOST_FILE", f"{HOSTFILE_FOLDER}/{HOSTFILE}"),
        ("I_MPI_PERHOST", "{slots}"),
        ("I_MPI_HYDRA_BOOTSTRAP", "ssh"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", RETRIES),
    ),
    MPICH: (
        ("HYDRA_HOST_FILE", f"{HOSTFILE_FOLDER}/{HOSTFILE}"),
        ("HYDRA_LAUNCHER", "ssh"),
        ("HYDRA_LAUNCHER_EXTRA_ARGS", RETRIES),
        ("HYDRA_LAUNCH_EXTRA_ARGS", RETRIES),
    ),
}


class UnknownImplementation(AboardError):
    """An MPI family whose host file and environment we do not know."""


class Mpi:
    name = "mpi"

    def validate(self, case: Case) -> Iterable[Cause]:
        policy = case.info.ml_policy.get("mpi")
        if policy is None:
            return
        nodes = case.job.num_nodes
        has_both = case.info.pod_set(LAUNCHER) and case.info.pod_set(NODE)
        if runs_launcher_as_node(case.info.ml_policy) and nodes is not None and nodes > 1 and not has_both:
            yield invalid("spec.trainer.numNodes", nodes, f"must have 1 when {LONELY}")
        reserved = [name for name, _ in ENVIRONMENT.get(_implementation(policy), ())]
        if names := reserved_names(case.job.env, reserved):
            words = f"must not have reserved envs, invalid envs configured: [{' '.join(names)}]"
            yield invalid("spec.trainer.env", case.job.env, words)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        policy = info.ml_policy.get("mpi")
        if policy is None:
            return
        if (implementation := _implementation(policy)) not in ENVIRONMENT:
            known = ", ".join(IMPLEMENTATIONS)
            raise UnknownImplementation(
                f'spec.mlPolicy.mpi.mpiImplementation: "{implementation}" is not supported; one of: {known}'
            )
        _count_nodes(info, job)
        info.slots = _slots(info, policy, job)
        for pods in info.pod_sets:
            if pods.name in (NODE, LAUNCHER):
                _let_in(pods, job, policy.get("sshAuthMountPath") or SSH_FOLDER)
        if launcher := info.pod_set(LAUNCHER):
            self._prepare(launcher, job, implementation, info.slots)

    def _prepare(self, launcher: PodSet, job: TrainJob, implementation: str, slots: int) -> None:
        """Tell the launcher its hosts."""
        items = [{"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444}]
        config_map = {"name": job.name + HOSTFILE_SUFFIX, "items": items}
        upsert.volumes(launcher.volumes, [{"name": HOSTFILE_VOLUME, "configMap": config_map}])
        if container := launcher.main_container:
            upsert.mounts(container.mounts, [{"name": HOSTFILE_VOLUME, "mountPath": HOSTFILE_FOLDER}])
            environment = ENVIRONMENT[implementation]
            container.inject(self.name, [variable(name, value.format(slots=slots)) for name, value in environment])

    def build(self, info: Info, job: TrainJob, facts: Facts) -> Iterable[Document]:
        policy = info.ml_policy.get("mpi")
        if policy is None:
            return
        if not facts.has(kinds.SECRET, job.name + SECRET_SUFFIX):
            yield _secret(job, facts)
        hosts = (host for pods in info.pod_sets if _trains(info, pods) for host in info.endpoints(job.name, pods))
        text = hostfile(hosts, info.slots, _implementation(policy))
        yield job.child("v1", "ConfigMap", job.name + HOSTFILE_SUFFIX, data={HOSTFILE: text})


def _implementation(policy: Document) -> str:
    return str(policy.get("mpiImplementation", OPEN_MPI))


def _count_nodes(info: Info, job: TrainJob) -> None:
    """Workers are the nodes; where the launcher is one of them, one fewer (ruling 4)."""
    workers = info.pod_set(NODE)
    nodes = job.num_nodes if job.num_nodes is not None else info.ml_policy.get("numNodes")
    if workers is None or nodes is None:
        return
    if not runs_launcher_as_node(info.ml_policy):
        # A policy says 1 where it means nothing in particular; the template's own number of workers stays.
        workers.count = nodes if job.num_nodes is not None or nodes > 1 else workers.count
    elif nodes == 1 and info.pod_set(LAUNCHER):
        _leave_out(info, workers)
    else:
        workers.count = max(nodes - 1, 1)


def _leave_out(info: Info, workers: PodSet) -> None:
    """The launcher is the only node: no worker job, and nobody who waits for one or counts on one."""
    info.pod_sets.remove(workers)
    jobs = [_not_waiting(job, workers.name) for job in info.jobs if job["name"] != workers.name]
    info.template = {**info.template, "replicatedJobs": jobs}
    for policy in ("successPolicy", "failurePolicy"):
        _not_counting(info.template, policy, workers.name)


def _not_waiting(replicated: Document, name: str) -> Document:
    kept = [other for other in replicated.get("dependsOn") or [] if other.get("name") != name]
    rest = {key: value for key, value in replicated.items() if key != "dependsOn"}
    return {**rest, "dependsOn": kept} if kept else rest


def _not_counting(template: Document, policy: str, name: str) -> None:
    stated = template.get(policy) or {}
    if name in (targets := stated.get("targetReplicatedJobs") or []):
        template[policy] = {**stated, "targetReplicatedJobs": [target for target in targets if target != name]}


def _slots(info: Info, policy: Document, job: TrainJob) -> int:
    """Processes per node: the TrainJob's word, else the runtime's number, which 1 leaves to the GPUs."""
    requirements = node_resources(info)
    stated = as_number(policy.get("numProcPerNode") or 1)
    wanted = job.trainer.get("numProcPerNode")
    if wanted is None and isinstance(stated, int):
        gpus = gpu_count(requirements)
        return gpus if stated == 1 and gpus > 1 else stated
    return processes(wanted or stated, stated if isinstance(stated, int) else 1, requirements)


def _let_in(pods: PodSet, job: TrainJob, folder: str) -> None:
    """The key pair where SSH looks for it, on both sides."""
    items: Documents = [
        {"key": PRIVATE_KEY, "path": "id_rsa", "mode": 0o640},
        {"key": PUBLIC_KEY, "path": "id_rsa.pub", "mode": 0o644},
        {"key": PUBLIC_KEY, "path": "authorized_keys", "mode": 0o644},
    ]
    secret = {"secretName": job.name + SECRET_SUFFIX, "items": items, "defaultMode": 0o400}
    upsert.volumes(pods.volumes, [{"name": SSH_VOLUME, "secret": secret}])
    if container := pods.main_container:
        upsert.mounts(container.mounts, [{"name": SSH_VOLUME, "mountPath": folder}])


def _trains(info: Info, pods: PodSet) -> bool:
    return pods.name == NODE or (pods.name == LAUNCHER and runs_launcher_as_node(info.ml_policy))


def _secret(job: TrainJob, facts: Facts) -> Document:
    keys = ssh_keys(int.from_bytes(facts.entropy(KEY_BYTES), "big"))
    data = {PRIVATE_KEY: base64.b64encode(keys.private).decode(), PUBLIC_KEY: base64.b64encode(keys.public).decode()}
    return job.child("v1", "Secret", job.name + SECRET_SUFFIX, type="kubernetes.io/ssh-auth", immutable=True, data=data)
