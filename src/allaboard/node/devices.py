"""Which GPUs a container gets: whole devices, given to one at a time, shown to it and to nobody else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from allaboard.api.documents import Document

GPU = "nvidia.com/gpu"
# Device nodes every process with a GPU needs besides the GPU's own.
SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


class NoDevice(Exception):
    """Fewer devices are free than asked for; never over-committed."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of one node. A fake one has a name and nothing behind it."""

    node: str
    id: str
    minor: int
    fake: bool = False


def fake_devices(nodes: Sequence[str], each: int) -> list[Device]:
    return [Device(node, f"GPU-fake-{node}-{number}", number, fake=True) for node in nodes for number in range(each)]


def shared_out(found: Sequence[tuple[str, int]], nodes: Sequence[str]) -> list[Device]:
    """The machine's GPUs, divided among the nodes that play on it."""
    return [Device(nodes[index % len(nodes)], uuid, minor) for index, (uuid, minor) in enumerate(found)]


def wanted(container: Document) -> int:
    """How many GPUs a container asks for; Kubernetes wants limits and requests equal."""
    resources = container.get("resources") or {}
    amounts = [(resources.get(key) or {}).get(GPU) for key in ("limits", "requests")]
    return int(next((amount for amount in amounts if amount is not None), 0))


def allot(devices: Sequence[Device], node: str, taken: Collection[str], count: int) -> tuple[Device, ...]:
    """The first free devices of a node, in order."""
    free = [device for device in devices if device.node == node and device.id not in taken]
    if len(free) < count:
        raise NoDevice(f"requested {count} {GPU}, {len(free)} free on node {node}")
    return tuple(free[:count])


def variables(given: Sequence[Device], *, any_here: bool) -> dict[str, str]:
    """How libraries learn which devices are theirs; "none" must be said where the machine has some."""
    if not any_here:
        return {}
    if not given:
        return {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void", "HIP_VISIBLE_DEVICES": ""}
    ids = ",".join(device.id for device in given)
    if given[0].fake:
        numbers = ",".join(str(number) for number in range(len(given)))
        return {"CUDA_VISIBLE_DEVICES": numbers, "NVIDIA_VISIBLE_DEVICES": ids, "ABOARD_FAKE_GPUS": str(len(given))}
    return {"CUDA_VISIBLE_DEVICES": ids, "NVIDIA_VISIBLE_DEVICES": ids}


def device_nodes(given: Sequence[Device]) -> tuple[str, ...]:
    """What must stand in the container's /dev."""
    real = [device for device in given if not device.fake]
    return (*(f"nvidia{device.minor}" for device in real), *SHARED_NODES) if real else ()


def capacity(devices: Sequence[Device], node: str) -> Mapping[str, str]:
    count = sum(device.node == node for device in devices)
    return {GPU: str(count)} if count else {}
