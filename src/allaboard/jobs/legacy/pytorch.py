"""A PyTorchJob becomes pods and services, and knows when it is done.

Upstream: training-operator 1.8. Not taken over: the init container that waits for the master (torch waits itself,
and its image is not on every machine).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, dig
from allaboard.api.meta import is_leaving, labels_of, name_of, namespace_of, owner_reference, stamp
from allaboard.jobs.legacy import ledger as books
from allaboard.jobs.legacy import replicas
from allaboard.jobs.legacy.ledger import Ledger
from allaboard.jobs.members import restarts
from allaboard.kube.plan import NOTHING, Create, Event, Plan

CONTAINER, PORT_NAME, PORT = "pytorch", "pytorchjob-port", 23456
MASTER, WORKER = "Master", "Worker"
OPERATOR = "pytorchjob-controller"


def decide(job: Document, pods: Sequence[Document], services: Sequence[Document], now: datetime) -> Plan:
    """One pass over a PyTorchJob."""
    if is_leaving(job):
        return NOTHING
    ledger, name = Ledger(kinds.PYTORCH_JOB, job, now), name_of(job)
    ledger.set(books.CREATED, "PyTorchJobCreated", f"PyTorchJob {name} is created.")
    if ledger.is_finished:
        ledger.settle()
        return _cleaned(ledger, pods, services) + ledger.expire() + ledger.saved()
    if ledger.is_suspended:
        return _asleep(ledger, pods, services)
    ledger.set(books.SUSPENDED, "PyTorchJobResumed", f"PyTorchJob {name} is resumed.", true=False)
    ledger.started()
    plan = _services(ledger, services) + _pods(ledger, pods)
    _judge(ledger, pods)
    deadline = ledger.deadline()
    return plan + ledger.saved() + (Plan(again=deadline) if deadline and not ledger.is_finished else NOTHING)


def specs(job: Document) -> dict[str, Document]:
    """The replica specs, the master first."""
    found: dict[str, Document] = job["spec"]["pytorchReplicaSpecs"]
    return {kind: found[kind] for kind in (MASTER, WORKER) if kind in found}


def replicas_of(spec: Document) -> int:
    return int(spec.get("replicas", 1))


def replica_name(job: Document, kind: str, index: int) -> str:
    return f"{name_of(job)}-{kind.lower()}-{index}"


def _cleaned(ledger: Ledger, pods: Sequence[Document], services: Sequence[Document]) -> Plan:
    policy = ledger.policy.get("cleanPodPolicy", "None")
    plan = books.removed(kinds.POD, books.to_clean(policy, pods))
    return plan + books.removed(kinds.SERVICE, services) if policy in ("All", "Running") else plan


def _asleep(ledger: Ledger, pods: Sequence[Document], services: Sequence[Document]) -> Plan:
    ledger.set(books.SUSPENDED, "PyTorchJobSuspended", f"PyTorchJob {name_of(ledger.job)} is suspended.")
    ledger.status.pop("startTime", None)
    ledger.status["replicaStatuses"] = {kind: {} for kind in specs(ledger.job)}
    return books.removed(kinds.POD, pods) + books.removed(kinds.SERVICE, services) + ledger.saved()


def _wanted(job: Document) -> list[tuple[str, int]]:
    return [(kind, index) for kind, spec in specs(job).items() for index in range(replicas_of(spec))]


def _services(ledger: Ledger, services: Sequence[Document]) -> Plan:
    """A headless service per replica, so that its name is an address."""
    there = books.by_name(services)
    wanted = [
        (kind, index) for kind, index in _wanted(ledger.job) if replica_name(ledger.job, kind, index) not in there
    ]
    made = [service_of(ledger.job, kind, index) for kind, index in wanted]
    words = [f"Created service: {name_of(service)}" for service in made]
    return Plan(
        create=tuple(Create(kinds.SERVICE, service) for service in made),
        events=tuple(Event(ledger.job, "SuccessfulCreateService", word) for word in words),
    )


def service_of(job: Document, kind: str, index: int) -> Document:
    name = replica_name(job, kind, index)
    metadata: Document = {"name": name, "namespace": namespace_of(job), "labels": labels_for(job, kind, index)}
    metadata["ownerReferences"] = [owner_reference(job)]
    port = next((p["containerPort"] for p in _ports(specs(job)[kind]) if p.get("name") == PORT_NAME), PORT)
    spec = {"clusterIP": "None", "selector": labels_for(job, kind, index), "ports": [{"name": PORT_NAME, "port": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _ports(spec: Document) -> list[Document]:
    containers = spec["template"]["spec"]["containers"]
    return [port for c in containers if c["name"] == CONTAINER for port in c.get("ports") or ()]


def labels_for(job: Document, kind: str, index: int) -> dict[str, str]:
    marks = {replicas.OPERATOR: OPERATOR, replicas.JOB_NAME: name_of(job)}
    marks |= {replicas.REPLICA_TYPE: kind.lower(), replicas.REPLICA_INDEX: str(index)}
    if kind == MASTER or (MASTER not in specs(job) and index == 0):
        marks[replicas.JOB_ROLE] = "master"
    return marks


def _pods(ledger: Ledger, pods: Sequence[Document]) -> Plan:
    """Missing replicas are made, failed ones that may try again are removed, and surplus ones let go."""
    job, there = ledger.job, books.by_name(pods)
    made = [pod_of(job, k, i) for k, i in _wanted(job) if replica_name(job, k, i) not in there]
    names = {replica_name(job, kind, index) for kind, index in _wanted(job)}
    surplus = [pod for pod in pods if name_of(pod) not in names]
    again = [pod for pod in pods if _tries_again(job, pod)]
    if again:
        ledger.set(books.RESTARTING, "PyTorchJobRestarting", f"PyTorchJob {name_of(job)} is restarting.")
    words = [f"Created pod: {name_of(pod)}" for pod in made]
    return books.removed(kinds.POD, [*surplus, *again]) + Plan(
        create=tuple(Create(kinds.POD, pod) for pod in made),
        events=tuple(Event(job, "SuccessfulCreatePod", word) for word in words),
    )


def _kind_of(job: Document, pod: Document) -> str:
    mark = labels_of(pod).get(replicas.REPLICA_TYPE, "")
    return next((kind for kind in specs(job) if kind.lower() == mark), WORKER)


def _tries_again(job: Document, pod: Document) -> bool:
    spec = specs(job).get(_kind_of(job, pod))
    failed = (pod.get("status") or {}).get("phase") == "Failed"
    return failed and spec is not None and replicas.is_retryable(pod, spec, CONTAINER)


def pod_of(job: Document, kind: str, index: int) -> Document:
    """One replica. Host name and subdomain make its name an address where no cluster DNS is."""
    spec = specs(job)[kind]
    template = spec["template"]
    body = {
        **template["spec"],
        "restartPolicy": replicas.pod_policy(spec),
        "hostname": replica_name(job, kind, index),
        "subdomain": name_of(job),
        "containers": [_with_port(c) for c in _told(job, template["spec"]["containers"], kind, index)],
    }
    metadata = replicas.marked(template, labels_for(job, kind, index))
    metadata |= {"name": replica_name(job, kind, index), "namespace": namespace_of(job)}
    metadata["ownerReferences"] = [owner_reference(job)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _with_port(container: Document) -> Document:
    if container["name"] != CONTAINER or any(port.get("name") == PORT_NAME for port in container.get("ports") or ()):
        return container
    return {**container, "ports": [*(container.get("ports") or ()), {"name": PORT_NAME, "containerPort": PORT}]}


def _told(job: Document, containers: Sequence[Document], kind: str, index: int) -> list[Document]:
    return replicas.with_env(containers, environment(job, kind, index))


def environment(job: Document, kind: str, index: int) -> dict[str, str]:
    """What a replica learns of its place: the master's address, its rank, how many there are."""
    total = sum(replicas_of(spec) for spec in specs(job).values())
    per_node = str(job["spec"].get("nprocPerNode") or dig(job, "spec", "elasticPolicy", "nProcPerNode", default="auto"))
    env = {"PYTHONUNBUFFERED": "1"}
    if MASTER in specs(job):
        address = replica_name(job, MASTER, 0)
        port = next((p["containerPort"] for p in _ports(specs(job)[MASTER]) if p.get("name") == PORT_NAME), PORT)
        rank = index if kind == MASTER else index + replicas_of(specs(job)[MASTER])
        processes = int(per_node) if per_node.isdecimal() else 1
        env |= {"MASTER_PORT": str(port), "PET_MASTER_PORT": str(port), "MASTER_ADDR": address}
        env |= {"PET_MASTER_ADDR": address, "WORLD_SIZE": str(total * processes)}
        env |= {"RANK": str(rank), "PET_NODE_RANK": str(rank)}
    env |= {"PET_NPROC_PER_NODE": per_node, "PET_NNODES": str(total)}
    return env | _elastic(job)


def _elastic(job: Document) -> dict[str, str]:
    policy = job["spec"].get("elasticPolicy")
    if not policy:
        return {}
    workers = replicas_of(specs(job).get(WORKER, {"replicas": 0}))
    low, high = policy.get("minReplicas", workers), policy.get("maxReplicas", workers)
    host = policy.get("rdzvHost") or replica_name(job, WORKER, 0)
    env = {
        "PET_RDZV_BACKEND": policy.get("rdzvBackend", "c10d"),
        "PET_RDZV_ENDPOINT": f"{host}:{policy.get('rdzvPort', PORT)}",
        "PET_RDZV_ID": policy.get("rdzvId") or name_of(job),
        "PET_NNODES": f"{low}:{high}",
    }
    if policy.get("rdzvConf"):
        env["PET_RDZV_CONF"] = ",".join(f"{pair['key']}={pair['value']}" for pair in policy["rdzvConf"])
    if policy.get("maxRestarts") is not None:
        env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"])
    return env | ({"PET_STANDALONE": ""} if policy.get("standalone") else {})


def _judge(ledger: Ledger, pods: Sequence[Document]) -> None:
    """Counts, then the verdict: the master decides, or all workers do."""
    job, name = ledger.job, name_of(ledger.job)
    groups = {kind: [pod for pod in pods if _kind_of(job, pod) == kind] for kind in specs(job)}
    rows = {kind: books.count(group) for kind, group in groups.items()}
    ledger.status["replicaStatuses"] = rows
    if ledger.is_overdue():
        _end(ledger, books.FAILED, f"PyTorchJob {name} has failed because it was active longer than specified deadline")
    elif _is_past_limit(ledger, pods):
        _end(ledger, books.FAILED, f"PyTorchJob {name} has failed because it has reached the specified backoff limit")
    elif lost := _lost(job, groups):
        kind, count = lost
        _end(ledger, books.FAILED, f"PyTorchJob {name} is failed because {count} {kind} replica(s) failed.")
    elif _is_done(job, rows, groups):
        _end(ledger, books.SUCCEEDED, f"PyTorchJob {name} is successfully completed.")
    elif any((pod.get("status") or {}).get("phase") == "Running" for pod in groups.get(MASTER) or pods):
        ledger.set(books.RUNNING, "PyTorchJobRunning", f"PyTorchJob {name} is running.")


def _lost(job: Document, groups: dict[str, list[Document]]) -> tuple[str, int] | None:
    """Replicas that failed for good."""
    for kind, group in groups.items():
        failed = [pod for pod in group if (pod.get("status") or {}).get("phase") == "Failed"]
        final = [pod for pod in failed if not _tries_again(job, pod)]
        if final:
            return kind, len(final)
    return None


def _is_done(job: Document, rows: dict[str, Document], groups: dict[str, list[Document]]) -> bool:
    if MASTER in rows:
        return bool(rows[MASTER].get("succeeded"))
    if job["spec"].get("elasticPolicy"):  # ranks may come and go; the first worker speaks for all
        first = [pod for pod in groups[WORKER] if labels_of(pod).get(replicas.REPLICA_INDEX) == "0"]
        return any((pod.get("status") or {}).get("phase") == "Succeeded" for pod in first)
    return bool(rows[WORKER].get("succeeded", 0) == replicas_of(specs(job)[WORKER]))


def _is_past_limit(ledger: Ledger, pods: Sequence[Document]) -> bool:
    limit = ledger.policy.get("backoffLimit")
    if limit is None:
        return False
    working = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    spent = sum(map(restarts, working))
    return spent > 0 if limit == 0 else spent >= limit


def _end(ledger: Ledger, type_: str, message: str) -> None:
    ledger.status["completionTime"] = stamp(ledger.now)
    ledger.set(type_, f"PyTorchJob{type_}", message)
