"""The documents a PyTorchJob makes: a pod and a headless service for each replica, and what they are told.

Upstream: training-operator 1.8. Not taken over: the init container that waits for the master (torch waits itself,
and its image is not on every machine). Added: host name and subdomain, so that names work without cluster DNS.
"""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.meta import name_of, namespace_of, owner_reference
from allaboard.jobs.legacy import replicas

CONTAINER, PORT_NAME, PORT = "pytorch", "pytorchjob-port", 23456
MASTER, WORKER = "Master", "Worker"
OPERATOR = "pytorchjob-controller"


def specs(job: Document) -> dict[str, Document]:
    """The replica specs, the master first."""
    found: dict[str, Document] = job["spec"]["pytorchReplicaSpecs"]
    return {kind: found[kind] for kind in (MASTER, WORKER) if kind in found}


def replicas_of(spec: Document) -> int:
    return int(spec.get("replicas", 1))


def policy_of(spec: Document) -> str:
    return replicas.policy_of(spec, replicas.ON_FAILURE)


def replica_name(job: Document, kind: str, index: int) -> str:
    return f"{name_of(job)}-{kind.lower()}-{index}"


def wanted(job: Document) -> list[tuple[str, int]]:
    return [(kind, index) for kind, spec in specs(job).items() for index in range(replicas_of(spec))]


def marks(job: Document, kind: str) -> dict[str, str]:
    """The labels every replica of a kind carries."""
    return {replicas.OPERATOR: OPERATOR, replicas.JOB_NAME: name_of(job), replicas.REPLICA_TYPE: kind.lower()}


def selector(job: Document, kind: str) -> str:
    """Those labels as a text, for whoever scales a job."""
    return ",".join(f"{key}={value}" for key, value in sorted(marks(job, kind).items()))


def service_of(job: Document, kind: str, index: int) -> Document:
    """A headless service per replica, so that its name is an address."""
    labels = marks(job, kind) | {replicas.REPLICA_INDEX: str(index)}
    metadata: Document = {"name": replica_name(job, kind, index), "namespace": namespace_of(job), "labels": labels}
    metadata["ownerReferences"] = [owner_reference(job)]
    ports = [{"name": port["name"], "port": port["containerPort"]} for port in _ports(specs(job)[kind])]
    spec = {"clusterIP": "None", "selector": labels, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _ports(spec: Document) -> list[Document]:
    """The named ports of the main container, the one to meet at included."""
    containers = [_with_port(container, first=not place) for place, container in _numbered(spec)]
    return [port for c in containers if c["name"] == CONTAINER for port in c.get("ports") or () if port.get("name")]


def _numbered(spec: Document) -> list[tuple[int, Document]]:
    """The containers, the main one numbered 0: the one called pytorch, or else the first."""
    containers = spec["template"]["spec"]["containers"]
    main = next((place for place, container in enumerate(containers) if container["name"] == CONTAINER), 0)
    return [(place - main, container) for place, container in enumerate(containers)]


def _with_port(container: Document, *, first: bool) -> Document:
    if not first or any(port.get("name") == PORT_NAME for port in container.get("ports") or ()):
        return container
    return {**container, "ports": [*(container.get("ports") or ()), {"name": PORT_NAME, "containerPort": PORT}]}


def _port(job: Document, kind: str) -> int:
    found = (port for port in _ports(specs(job)[kind]) if port["name"] == PORT_NAME)
    return int(next(found, {"containerPort": PORT})["containerPort"])


def pod_of(job: Document, kind: str, index: int) -> Document:
    """One replica."""
    spec = specs(job)[kind]
    labels = marks(job, kind) | {replicas.REPLICA_INDEX: str(index)}
    if kind == MASTER or (MASTER not in specs(job) and index == 0):
        labels[replicas.JOB_ROLE] = "master"
    env = environment(job, kind, index)
    containers = [replicas.with_env(_with_port(c, first=not place), env) for place, c in _numbered(spec)]
    name = replica_name(job, kind, index)
    body = {
        **spec["template"]["spec"],
        "restartPolicy": replicas.pod_policy(policy_of(spec)),
        "hostname": name,
        "subdomain": name_of(job),
        "containers": containers,
    }
    metadata = replicas.marked(spec["template"], labels) | {"name": name, "namespace": namespace_of(job)}
    metadata["ownerReferences"] = [owner_reference(job)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def environment(job: Document, kind: str, index: int) -> dict[str, str]:
    """What a replica learns of its place: the master's address, its rank, how many there are."""
    spec, total = job["spec"], sum(replicas_of(each) for each in specs(job).values())
    elastic = spec.get("elasticPolicy")
    per_node = str(spec.get("nprocPerNode") or "")
    if not per_node and (elastic or {}).get("nProcPerNode") is None:
        per_node = "auto"
    env = {"PYTHONUNBUFFERED": "1"}
    if MASTER in specs(job):
        address, port = replica_name(job, MASTER, 0), str(_port(job, MASTER))
        rank = str(index if kind == MASTER else index + 1)
        processes = int(per_node) if per_node.isdecimal() else 1
        env |= {"MASTER_PORT": port, "PET_MASTER_PORT": port, "MASTER_ADDR": address, "PET_MASTER_ADDR": address}
        env |= {"WORLD_SIZE": str(total * processes), "RANK": rank, "PET_NODE_RANK": rank}
    if per_node:
        env["PET_NPROC_PER_NODE"] = per_node
    return env | ({"PET_NNODES": str(total)} if elastic is None else _elastic(job, elastic))


def _elastic(job: Document, policy: Document) -> dict[str, str]:
    """Where ranks that come and go meet, and how many there may be."""
    workers = replicas_of(specs(job).get(WORKER, {"replicas": 0}))
    low = policy.get("minReplicas", policy.get("maxReplicas", workers))
    high = policy.get("maxReplicas", low)
    host = policy.get("rdzvHost") or replica_name(job, WORKER, 0)
    port = policy.get("rdzvPort") or (_port(job, WORKER) if WORKER in specs(job) else PORT)
    env = {"PET_RDZV_ENDPOINT": f"{host}:{port}", "PET_RDZV_BACKEND": policy.get("rdzvBackend") or "c10d"}
    env["PET_NNODES"] = f"{low}:{high}"
    named = (("maxRestarts", "PET_MAX_RESTARTS"), ("nProcPerNode", "PET_NPROC_PER_NODE"), ("rdzvId", "PET_RDZV_ID"))
    env |= {variable: str(policy[key]) for key, variable in named if policy.get(key) is not None}
    if policy.get("rdzvConf"):
        env["PET_RDZV_CONF"] = ",".join(f"{pair['key']}={pair['value']}" for pair in policy["rdzvConf"])
    return env | ({"PET_STANDALONE": ""} if policy.get("standalone") else {})
