"""An MPIJob becomes workers, a host file, keys and a launcher Job, and ends as its launcher does.

Upstream: mpi-operator 0.6 (v2beta1).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from allaboard.api import kinds, mpi
from allaboard.api.documents import Document
from allaboard.api.meta import condition_of, is_leaving, is_true, name_of, namespace_of, owner_reference, stamp
from allaboard.jobs.legacy import ledger as books
from allaboard.jobs.legacy import mpirules, replicas
from allaboard.jobs.legacy.ledger import Ledger
from allaboard.jobs.members import is_ready
from allaboard.kube.plan import NOTHING, Apply, Create, Plan, Update

LAUNCHER, WORKER = "Launcher", "Worker"
OPERATOR, MANAGER = "mpi-operator", mpirules.MANAGERS[0]
ROOT_KEYS = "/root/.ssh"
_LONGEST = 1024  # characters of an event
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

    pods: Sequence[Document] = ()  # its workers
    launcher: Document | None = None
    config: Document | None = None
    has_service: bool = False
    has_keys: bool = False
    launcher_pods: Sequence[Document] = ()


def decide(job: Document, around: Around, now: datetime, secret: int) -> Plan:
    """One pass over an MPIJob; `secret` is the number its keys are made from, if they must be."""
    ledger, name = Ledger(kinds.MPI_JOB, job, now), f"{namespace_of(job)}/{name_of(job)}"
    if is_leaving(job) or ledger.policy.get("managedBy", MANAGER) != MANAGER:
        return NOTHING
    if words := mpirules.complaint(job):
        ledger.say("ValidationError", words, warning=True)
        return Plan(events=tuple(ledger.events))
    if ledger.set(books.CREATED, "MPIJobCreated", f"MPIJob {name} is created."):
        ledger.say("MPIJobCreated", f"MPIJob {name} is created.")
    if ledger.is_finished and ledger.status.get("completionTime"):
        return _over(ledger, around)
    if not ledger.is_suspended:
        ledger.started()
    over = around.launcher is not None and (is_true(around.launcher, "Complete") or is_true(around.launcher, "Failed"))
    plan, workers = NOTHING, list[Document]()
    if not over:
        plan = _surroundings(job, around, secret) + _launcher(job, around, suspend=ledger.is_suspended)
        if not ledger.is_suspended:
            plan, workers = plan + _workers(job, around), list(around.pods)
    if ledger.is_suspended:
        plan += books.removed(kinds.POD, around.pods)
    _judge(ledger, around, workers)
    return plan + ledger.saved()


def _over(ledger: Ledger, around: Around) -> Plan:
    """Workers go as asked; the launcher is a Job and lives as long as its own time allows."""
    policy = ledger.policy.get("cleanPodPolicy") or "None"
    if policy not in ("All", "Running"):
        return NOTHING
    ledger.status["replicaStatuses"] = {**(ledger.status.get("replicaStatuses") or {}), WORKER: {}}
    return books.removed(kinds.POD, books.to_clean(policy, around.pods)) + ledger.saved()


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
    return int(spec.get("replicas", 0)) if spec else 0


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
    spec = {"clusterIP": "None", "selector": selector}
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
    body = _body(job, spec, worker_name(job, index), replicas.NEVER)
    first = body["containers"][0]
    if not first.get("command") and not first.get("args"):
        first = {**first, "command": ["/usr/sbin/sshd", "-De"]}
    body["containers"] = [replicas.with_env(first, {"K_MPI_JOB_ROLE": "worker"}), *body["containers"][1:]]
    # Intel MPI and MPICH want workers to find the launcher by its host name.
    search = f"{name_of(job)}.{namespace_of(job)}.svc.cluster.local"
    domains = body.get("dnsConfig") or {}
    body["dnsConfig"] = {**domains, "searches": [*(domains.get("searches") or ()), search]}
    labels = _labels(job, "worker") | {replicas.REPLICA_INDEX: str(index)}
    metadata = replicas.marked(spec["template"], labels) | _owned(job, worker_name(job, index))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _labels(job: Document, role: str) -> dict[str, str]:
    return {replicas.OPERATOR: OPERATOR, replicas.JOB_NAME: name_of(job), replicas.JOB_ROLE: role}


def _body(job: Document, spec: Document, host: str, policy: str) -> Document:
    """A pod spec with its host name and its keys; `policy` is how it restarts where nobody says."""
    template = spec["template"]["spec"]
    path = job["spec"].get("sshAuthMountPath") or ROOT_KEYS
    items = [("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys")]
    secret: Document = {"secretName": f"{name_of(job)}-ssh", "items": [{"key": k, "path": p} for k, p in items]}
    if path == ROOT_KEYS:
        secret["defaultMode"] = 0o600
    first, *rest = template["containers"]
    mounts = [*(first.get("volumeMounts") or ()), {"name": "ssh-auth", "mountPath": path}]
    body = {
        **template,
        "hostname": host,
        "subdomain": name_of(job),
        "restartPolicy": replicas.pod_policy(replicas.policy_of(spec, policy)),
        "containers": [{**first, "volumeMounts": mounts}, *rest],
        "volumes": [*(template.get("volumes") or ()), {"name": "ssh-auth", "secret": secret}],
    }
    return {**body, "dnsPolicy": "ClusterFirstWithHostNet"} if template.get("hostNetwork") else body


def _launcher(job: Document, around: Around, *, suspend: bool) -> Plan:
    """The launcher is a Job of its own; it may have to wait for the workers."""
    if around.launcher is not None:
        if bool(around.launcher["spec"].get("suspend")) == suspend:
            return NOTHING
        spec = {**around.launcher["spec"], "suspend": suspend}
        return Plan(update=(Update(kinds.JOB, {**around.launcher, "spec": spec}),))
    waits = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady" and not suspend
    if waits and sum(is_ready(pod) for pod in around.pods) < worker_count(job):
        return NOTHING
    return Plan(create=(Create(kinds.JOB, launcher_of(job, suspend=suspend)),))


def launcher_of(job: Document, *, suspend: bool) -> Document:
    spec = spec_of(job, LAUNCHER)
    assert spec is not None, "the schema demands a launcher"
    name = f"{name_of(job)}-launcher"
    body = _body(job, spec, name, replicas.ON_FAILURE)
    items = [("hostfile", 0o444), ("discover_hosts.sh", 0o555)]
    config = {"name": f"{name_of(job)}-config", "items": [{"key": k, "path": k, "mode": m} for k, m in items]}
    first = replicas.with_env(body["containers"][0], _launcher_env(job))
    mounts = [*first["volumeMounts"], {"name": "mpi-job-config", "mountPath": CONFIG_PATH}]
    body["containers"] = [{**first, "volumeMounts": mounts}, *body["containers"][1:]]
    body["volumes"] = [*body["volumes"], {"name": "mpi-job-config", "configMap": config}]
    policy = job["spec"].get("runPolicy") or {}
    limits = {k: policy[k] for k in ("backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished") if k in policy}
    marked = replicas.marked(spec["template"], _labels(job, "launcher")) | {"ownerReferences": [owner_reference(job)]}
    asleep = {"suspend": True} if suspend else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _owned(job, name) | {"labels": {"app": name_of(job)}},
        "spec": {**limits, **asleep, "template": {"metadata": marked, "spec": body}},
    }


def _launcher_env(job: Document) -> dict[str, str]:
    chosen = _implementation(job)
    env = {"K_MPI_JOB_ROLE": "launcher", **_IMPLEMENTATIONS[chosen]}
    if chosen in _SLOTS:
        env[_SLOTS[chosen]] = str(_slots(job))
    if not _is_launcher_worker(job):  # a launcher that only launches sees no GPU
        env |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    return env


def _judge(ledger: Ledger, around: Around, workers: Sequence[Document]) -> None:
    """The launcher decides; a worker that was evicted fails the job for it."""
    name = f"{namespace_of(ledger.job)}/{name_of(ledger.job)}"
    _note_sleep(ledger)
    running = sum(books.phase_of(pod) == "Running" for pod in around.launcher_pods)
    rows = dict(ledger.status.get("replicaStatuses") or {})
    if around.launcher is not None:
        rows[LAUNCHER] = _launcher_row(ledger, around.launcher, around.launcher_pods, running)
    phases = [books.phase_of(pod) for pod in workers]
    words = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    rows[WORKER] = {word: phases.count(phase) for phase, word in words.items() if phase in phases}
    ledger.status["replicaStatuses"] = rows
    evicted = sum((pod.get("status") or {}).get("reason") == "Evicted" for pod in workers)
    if evicted:
        told = f"{evicted}/{len(workers)} workers are evicted"
        ledger.set(books.FAILED, "MPIJobEvicted", told)
        ledger.say("MPIJobEvicted", told, warning=True)
    if ledger.is_suspended:
        ledger.set(books.RUNNING, "MPIJobSuspended", f"MPIJob {name} is suspended.", true=False)
    elif running and phases.count("Running") == len(workers) == (worker_count(ledger.job) if workers else 0):
        ledger.set(books.RUNNING, "MPIJobRunning", f"MPIJob {name} is running.")
        ledger.say("MPIJobRunning", f"MPIJob {name} is running")


def _note_sleep(ledger: Ledger) -> None:
    if ledger.is_suspended:
        if ledger.set(books.SUSPENDED, "MPIJobSuspended", "MPIJob suspended"):
            ledger.say("MPIJobSuspended", "MPIJob suspended")
    elif ledger.condition(books.SUSPENDED) is not None and ledger.set(
        books.SUSPENDED, "MPIJobResumed", "MPIJob resumed", true=False
    ):
        ledger.say("MPIJobResumed", "MPIJob resumed")
        ledger.status["startTime"] = stamp(ledger.now)


def _launcher_row(ledger: Ledger, launcher: Document, pods: Sequence[Document], running: int) -> Document:
    """The launcher's place in the status; its end is the job's."""
    status = launcher.get("status") or {}
    row: Document = {"failed": status["failed"]} if status.get("failed") else {}
    if is_true(launcher, "Complete"):
        ledger.status.setdefault("completionTime", status.get("completionTime") or stamp(ledger.now))
        name = f"{namespace_of(ledger.job)}/{name_of(ledger.job)}"
        ledger.end(books.SUCCEEDED, "MPIJobSucceeded", f"MPIJob {name} successfully completed.")
        return row | {"succeeded": 1}
    if is_true(launcher, "Failed"):
        ledger.end(books.FAILED, *_reason(ledger.job, launcher, pods), warning=True)
        return row
    return row | ({"active": running} if running else {})


def _reason(job: Document, launcher: Document, pods: Sequence[Document]) -> tuple[str, str]:
    """Why the launcher failed, with what its last pod said of itself."""
    condition = condition_of(launcher, "Failed") or {}
    reason = condition.get("reason") or "MPIJobFailed"
    words = condition.get("message") or f"MPIJob {namespace_of(job)}/{name_of(job)} has failed"
    failed = [pod for pod in pods if books.phase_of(pod) == "Failed"]
    if reason == "BackoffLimitExceeded" and failed:
        last = max(failed, key=lambda pod: str(pod["metadata"].get("creationTimestamp", ""))).get("status") or {}
        reason, words = f"{reason}/{last.get('reason', '')}", f"{words}: {last.get('message', '')}"
    return reason, words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."
