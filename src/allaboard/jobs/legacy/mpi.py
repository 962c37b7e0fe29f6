"""An MPIJob becomes workers, a host file, keys and a launcher Job, and ends as its launcher does.

Upstream: mpi-operator 0.6 (v2beta1).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from allaboard.api import kinds, mpi
from allaboard.api.documents import Document
from allaboard.api.meta import is_leaving, is_true, name_of, namespace_of, owner_reference, stamp
from allaboard.jobs.legacy import ledger as books
from allaboard.jobs.legacy import replicas
from allaboard.jobs.legacy.ledger import Ledger
from allaboard.jobs.members import is_ready
from allaboard.kube.plan import NOTHING, Apply, Create, Plan, Update

LAUNCHER, WORKER = "Launcher", "Worker"
OPERATOR = "mpi-operator"
CONFIG_PATH, HOSTFILE = "/etc/mpi", "/etc/mpi/hostfile"
# Upstream asks only for patience and leaves trust to its images; pods are new each time, so no host key is known.
_TRIES = "-o ConnectionAttempts=10 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
_IMPLEMENTATIONS = {
    mpi.OPEN_MPI: {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_plm_rsh_args": _TRIES,
    },
    mpi.INTEL: {"I_MPI_HYDRA_HOST_FILE": HOSTFILE, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _TRIES},
    mpi.MPICH: {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCH_EXTRA_ARGS": _TRIES},
}
_SLOTS = {mpi.OPEN_MPI: "OMPI_MCA_orte_set_default_slots", mpi.INTEL: "I_MPI_PERHOST"}


@dataclass(frozen=True, slots=True)
class Around:
    """What exists around an MPIJob."""

    pods: Sequence[Document] = ()
    launcher: Document | None = None
    config: Document | None = None
    has_service: bool = False
    has_keys: bool = False


def decide(job: Document, around: Around, now: datetime, secret: int) -> Plan:
    """One pass over an MPIJob; `secret` is the number its keys are made from, if they must be."""
    if is_leaving(job):
        return NOTHING
    ledger, name = Ledger(kinds.MPI_JOB, job, now), f"{namespace_of(job)}/{name_of(job)}"
    ledger.set(books.CREATED, "MPIJobCreated", f"MPIJob {name} is created.")
    if ledger.is_finished:
        ledger.settle()
        policy = ledger.policy.get("cleanPodPolicy") or job["spec"].get("cleanPodPolicy") or "None"
        cleaned = books.removed(kinds.POD, books.to_clean(policy, around.pods))
        return cleaned + ledger.expire() + ledger.saved()
    plan = _surroundings(job, around, secret)
    if ledger.is_suspended:
        ledger.set(books.SUSPENDED, "MPIJobSuspended", "MPIJob suspended")
        ledger.status.pop("startTime", None)
        return plan + books.removed(kinds.POD, around.pods) + _launcher(job, around, suspend=True) + ledger.saved()
    ledger.set(books.SUSPENDED, "MPIJobResumed", "MPIJob resumed", true=False)
    ledger.started()
    plan += _workers(job, around) + _launcher(job, around, suspend=False)
    _judge(ledger, around)
    return plan + ledger.saved()


def _surroundings(job: Document, around: Around, secret: int) -> Plan:
    """Service, host file and keys; the host file follows the workers that are ready."""
    plan = NOTHING
    if not around.has_service:
        plan += Plan(create=(Create(kinds.SERVICE, service_of(job)),))
    if not around.has_keys:
        plan += Plan(create=(Create(kinds.SECRET, keys_of(job, secret)),))
    config = config_of(job, around.pods)
    if around.config is None or around.config.get("data") != config["data"]:
        plan += Plan(apply=(Apply(kinds.CONFIG_MAP, config),))
    return plan


def spec_of(job: Document, kind: str) -> Document | None:
    found: Document | None = job["spec"]["mpiReplicaSpecs"].get(kind)
    return found


def worker_count(job: Document) -> int:
    spec = spec_of(job, WORKER)
    return int(spec.get("replicas", 1)) if spec else 0


def worker_name(job: Document, index: int) -> str:
    return f"{name_of(job)}-worker-{index}"


def _is_launcher_worker(job: Document) -> bool:
    return bool(job["spec"].get("runLauncherAsWorker"))


def _implementation(job: Document) -> str:
    return str(job["spec"].get("mpiImplementation") or mpi.OPEN_MPI)


def _slots(job: Document) -> int:
    return int(job["spec"].get("slotsPerWorker") or 1)


def _owned(job: Document, name: str) -> Document:
    return {"name": name, "namespace": namespace_of(job), "ownerReferences": [owner_reference(job)]}


def service_of(job: Document) -> Document:
    """One headless service for all pods; its name is their subdomain."""
    metadata = _owned(job, name_of(job)) | {"labels": {"app": name_of(job)}}
    selector = {replicas.OPERATOR: OPERATOR, replicas.JOB_NAME: name_of(job)}
    spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def keys_of(job: Document, secret: int) -> Document:
    """The key pair launcher and workers trust each other by."""
    pair = mpi.ssh_keys(secret)
    data = {"ssh-privatekey": pair.private, "ssh-publickey": pair.public}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _owned(job, f"{name_of(job)}-ssh") | {"labels": {"app": name_of(job)}},
        "type": "kubernetes.io/ssh-auth",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def hosts(job: Document) -> list[str]:
    """Every host of the job, the launcher first where it works too."""
    inside = f"{name_of(job)}.{namespace_of(job)}.svc"
    names = [worker_name(job, index) for index in range(worker_count(job))]
    first = [f"{name_of(job)}-launcher"] if _is_launcher_worker(job) else []
    return [f"{name}.{inside}" for name in [*first, *names]]


def config_of(job: Document, pods: Sequence[Document]) -> Document:
    running = {name_of(pod) for pod in pods if (pod.get("status") or {}).get("phase") == "Running"}
    found = [
        host for host in hosts(job) if host.partition(".")[0] in running or host.startswith(f"{name_of(job)}-launcher")
    ]
    script = "#!/bin/sh\n" + "".join(f"echo {host}\n" for host in found)
    data = {"hostfile": mpi.hostfile(hosts(job), _slots(job), _implementation(job)), "discover_hosts.sh": script}
    metadata = _owned(job, f"{name_of(job)}-config") | {"labels": {"app": name_of(job)}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _workers(job: Document, around: Around) -> Plan:
    there, names = books.by_name(around.pods), [worker_name(job, index) for index in range(worker_count(job))]
    made = [worker_of(job, index) for index, name in enumerate(names) if name not in there]
    surplus = [pod for pod in around.pods if name_of(pod) not in names]
    return Plan(create=tuple(Create(kinds.POD, pod) for pod in made)) + books.removed(kinds.POD, surplus)


def worker_of(job: Document, index: int) -> Document:
    """A worker: an SSH server, unless its template says otherwise."""
    spec = spec_of(job, WORKER)
    assert spec is not None, "a worker is only made where there is a worker spec"
    place = index + 1 if _is_launcher_worker(job) else index
    labels = _labels(job, "worker") | {replicas.REPLICA_TYPE: "worker", replicas.REPLICA_INDEX: str(place)}
    body = _body(job, spec, {"K_MPI_JOB_ROLE": "worker"}, worker_name(job, index))
    first = body["containers"][0]
    if not first.get("command") and not first.get("args"):
        body["containers"] = [{**first, "command": ["/usr/sbin/sshd", "-De"]}, *body["containers"][1:]]
    metadata = replicas.marked(spec["template"], labels) | _owned(job, worker_name(job, index))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _labels(job: Document, role: str) -> dict[str, str]:
    return {replicas.OPERATOR: OPERATOR, replicas.JOB_NAME: name_of(job), replicas.JOB_ROLE: role}


def _body(job: Document, spec: Document, env: Mapping[str, str], host: str) -> Document:
    """A pod spec with its host name, its keys and its variables."""
    template = spec["template"]["spec"]
    path = job["spec"].get("sshAuthMountPath") or "/root/.ssh"
    mount = {"name": "ssh-auth", "mountPath": path}
    items = [("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys")]
    secret: Document = {"secretName": f"{name_of(job)}-ssh", "items": [{"key": k, "path": p} for k, p in items]}
    if path == "/root/.ssh":
        secret["defaultMode"] = 0o600
    first, *rest = replicas.with_env(template["containers"], env)
    first = {**first, "volumeMounts": [*(first.get("volumeMounts") or ()), mount]}
    return {
        **template,
        "hostname": host,
        "subdomain": name_of(job),
        "restartPolicy": replicas.pod_policy({"restartPolicy": spec.get("restartPolicy") or "Never"}),
        "containers": [first, *rest],
        "volumes": [*(template.get("volumes") or ()), {"name": "ssh-auth", "secret": secret}],
    }


def _launcher(job: Document, around: Around, *, suspend: bool) -> Plan:
    """The launcher is a Job of its own; it may have to wait for the workers."""
    if around.launcher is not None:
        if bool(around.launcher["spec"].get("suspend")) == suspend:
            return NOTHING
        spec = {**around.launcher["spec"], "suspend": suspend}
        return Plan(update=(Update(kinds.JOB, {**around.launcher, "spec": spec}),))
    waits = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
    if waits and sum(is_ready(pod) for pod in around.pods) < worker_count(job):
        return NOTHING
    return Plan(create=(Create(kinds.JOB, launcher_of(job, suspend=suspend)),))


def launcher_of(job: Document, *, suspend: bool) -> Document:
    spec = spec_of(job, LAUNCHER)
    assert spec is not None, "the schema demands a launcher"
    name = f"{name_of(job)}-launcher"
    labels = _labels(job, "launcher")
    if _is_launcher_worker(job):
        labels |= {replicas.REPLICA_INDEX: "0"}
    body = _body(job, spec, _launcher_env(job), name)
    items = [("hostfile", 0o444), ("discover_hosts.sh", 0o555)]
    config = {"name": f"{name_of(job)}-config", "items": [{"key": k, "path": k, "mode": m} for k, m in items]}
    first = body["containers"][0]
    mounts = [*first["volumeMounts"], {"name": "mpi-job-config", "mountPath": CONFIG_PATH}]
    body["containers"] = [{**first, "volumeMounts": mounts}, *body["containers"][1:]]
    body["volumes"] = [*body["volumes"], {"name": "mpi-job-config", "configMap": config}]
    policy = job["spec"].get("runPolicy") or {}
    limits = {k: policy[k] for k in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished") if k in policy}
    template = {"metadata": replicas.marked(spec["template"], labels), "spec": body}
    metadata = _owned(job, name) | {"labels": {"app": name_of(job)}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {**limits, "suspend": suspend, "template": template},
    }


def _launcher_env(job: Document) -> dict[str, str]:
    chosen = _implementation(job)
    env = {"K_MPI_JOB_ROLE": "launcher", **_IMPLEMENTATIONS[chosen]}
    if chosen in _SLOTS and job["spec"].get("slotsPerWorker"):
        env[_SLOTS[chosen]] = str(_slots(job))
    if not _is_launcher_worker(job):  # a launcher that only launches sees no GPU
        env |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    return env


def _judge(ledger: Ledger, around: Around) -> None:
    """The launcher decides."""
    job, launcher = ledger.job, around.launcher
    name = f"{namespace_of(job)}/{name_of(job)}"
    status = (launcher or {}).get("status") or {}
    row = {key: status[key] for key in ("active", "succeeded", "failed") if status.get(key)}
    ledger.status["replicaStatuses"] = {LAUNCHER: row, WORKER: books.count(around.pods)}
    if launcher is not None and is_true(launcher, "Complete"):
        _end(ledger, books.SUCCEEDED, f"MPIJob {name} successfully completed.")
    elif launcher is not None and is_true(launcher, "Failed"):
        _end(ledger, books.FAILED, f"MPIJob {name} has failed")
    elif status.get("ready") and all((p.get("status") or {}).get("phase") == "Running" for p in around.pods):
        ledger.set(books.RUNNING, "MPIJobRunning", f"MPIJob {name} is running.")


def _end(ledger: Ledger, type_: str, message: str) -> None:
    ledger.status["completionTime"] = stamp(ledger.now)
    ledger.set(type_, f"MPIJob{type_}", message)
