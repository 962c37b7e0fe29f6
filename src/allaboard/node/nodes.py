"""Node objects and their leases: what this machine says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from allaboard.api.documents import Document
from allaboard.api.meta import micro_stamp, stamp, with_condition

LEASES = "kube-node-lease"
LEASE_SECONDS = 40


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of the machine below every node on it."""

    system: str = "linux"
    architecture: str = "amd64"
    kernel: str = ""
    system_image: str = ""
    boot: str = ""
    id: str = ""
    agent: str = "aboard"
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """What one node of this agent announces."""

    name: str
    resources: Mapping[str, str]
    labels: Mapping[str, str]
    address: str
    port: int
    conditions: Mapping[str, tuple[bool, str, str]]  # type → (holds, reason, message)
    known: bool = True  # whether others can look its name up; an API server tries that first


def node_document(claim: Claim, machine: Machine) -> Document:
    """The object as it is first created."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": claim.name, "labels": labels_of_node(claim, machine)},
        "spec": {},
    }


def labels_of_node(claim: Claim, machine: Machine) -> dict[str, str]:
    system = {
        "kubernetes.io/hostname": claim.name,
        "kubernetes.io/os": machine.system,
        "kubernetes.io/arch": machine.architecture,
        "node.kubernetes.io/instance-type": "aboard",
    }
    return system | dict(claim.labels)


def node_status(claim: Claim, machine: Machine, old: Document, now: datetime) -> Document:
    """The status of a node: capacity, conditions, where its server listens."""
    conditions: list[Document] = [
        condition | {"lastHeartbeatTime": stamp(now)} for condition in old.get("conditions") or []
    ]
    for type_, (holds, reason, message) in claim.conditions.items():
        new = {"type": type_, "status": "True" if holds else "False", "reason": reason, "message": message}
        conditions = with_condition(conditions, new | {"lastHeartbeatTime": stamp(now)}, now)
    return {
        **old,
        "capacity": dict(claim.resources),
        "allocatable": dict(claim.resources),
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": claim.address},
            *([{"type": "Hostname", "address": claim.name}] if claim.known else []),
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": claim.port}},
        "nodeInfo": _system(machine),
    }


def _system(machine: Machine) -> Document:
    return {
        "architecture": machine.architecture,
        "bootID": machine.boot,
        "containerRuntimeVersion": "process://0.1.0",
        "kernelVersion": machine.kernel,
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.35.0",
        "machineID": machine.id,
        "operatingSystem": machine.system,
        "osImage": machine.system_image,
        "systemUUID": machine.id,
    }


HEALTHY: dict[str, tuple[bool, str, str]] = {
    "MemoryPressure": (False, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": (False, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": (False, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": (True, "KubeletReady", "kubelet is posting ready status"),
}


def lease_document(node: str, uid: str, now: datetime) -> Document:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": LEASES, "ownerReferences": [owner]},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_stamp(now),
        },
    }
