"""What a container or a pod asks for, and how many processes follow from it (rulings 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from allaboard.api.documents import Document, Documents
from allaboard.api.quantity import Quantity, Resources, largest, parse, resource_list, resources, total

WORDS = ("auto", "cpu", "gpu")
ZERO = Quantity(0)
MIG = "nvidia.com/mig-"


def merge(given: Document, override: Document) -> Document:
    """Requirements with others laid over them: limits and requests per resource, claims by name."""
    merged: Document = {}
    for side in ("limits", "requests"):
        if amounts := {**(given.get(side) or {}), **(override.get(side) or {})}:
            merged[side] = {name: str(parse(amount)) for name, amount in amounts.items()}
    if claims := _claims(override.get("claims") or [], given.get("claims") or []):
        merged["claims"] = claims
    return merged


def _claims(first: Documents, rest: Documents) -> Documents:
    named = {claim["name"] for claim in first}
    return [*first, *(claim for claim in rest if claim["name"] not in named)]


def gpu_count(requirements: Document) -> int:
    """Whole devices asked for, in requests, else in limits; a fraction counts as one more."""
    return _gpus_in(requirements.get("requests")) or _gpus_in(requirements.get("limits"))


def _gpus_in(amounts: Document | None) -> int:
    return _gpus(tuple(sorted(amounts.items()))) if amounts else 0


@lru_cache(maxsize=1024)
def _gpus(amounts: tuple[tuple[str, str | int], ...]) -> int:
    """Many jobs ask for the same, and are counted once."""
    named = {name.lower(): parse(amount).value() for name, amount in amounts}
    slices = sum(count for name, count in named.items() if name.startswith(MIG))
    devices = [count for name, count in named.items() if name.endswith("/gpu")]
    # Names like `gpu-memory` also contain "gpu"; they decide only where no device is named.
    others = [count for name, count in named.items() if "gpu" in name]
    return max([slices, *devices]) or next(iter(others), 0)


def cpu_count(requirements: Document) -> int:
    """Whole cores: the larger of request and limit, rounded up; 0 where neither is given."""
    sides = (requirements.get(side) or {} for side in ("requests", "limits"))
    return max((parse(side["cpu"]) for side in sides if "cpu" in side), default=ZERO).value()


def processes_for_torch(wanted: int | str, requirements: Document) -> int | str:
    """A number, or the word that makes torchrun look for itself."""
    wanted = as_number(wanted)
    if wanted == "cpu" or (wanted == "auto" and not gpu_count(requirements)):
        return max(1, cpu_count(requirements))
    return wanted


def processes(wanted: int | str | None, policy: int, requirements: Document) -> int:
    """Processes per node outside torch; nothing said is `auto`, and `auto` without a GPU is the policy's number."""
    wanted = as_number(wanted or "auto")
    if wanted == "cpu":
        return max(1, cpu_count(requirements))
    if wanted == "gpu":
        return max(1, gpu_count(requirements))
    return (gpu_count(requirements) or policy) if isinstance(wanted, str) else wanted


def as_number(wanted: int | str) -> int | str:
    """Seed 003 writes the count as a decimal string."""
    return int(wanted) if isinstance(wanted, str) and wanted.isdecimal() else wanted


def pod_requests(spec: Document) -> Resources:
    """What one pod reserves: containers summed, against the highest point of the init phase, and the overhead."""
    running = total(_requests(container) for container in spec.get("containers") or [])
    sidecars: Resources = {}
    peak: Resources = {}
    for container in spec.get("initContainers") or []:
        step = total((_requests(container), sidecars))
        if container.get("restartPolicy") == "Always":
            running, sidecars = total((running, _requests(container))), step
        peak = largest((peak, step))
    found = largest((running, peak)) | _pod_level(spec)
    return total((found, resources(spec.get("overhead"))))


def reserved(spec: Document) -> Resources:
    """What one pod reserves after the API server filled requests in from limits (defect 16)."""
    filled = {kind: [_filled(c) for c in spec.get(kind) or []] for kind in ("containers", "initContainers")}
    return pod_requests({**spec, **filled, "resources": _fill(spec.get("resources") or {})})


def limited(spec: Document, limit_ranges: Documents) -> Document:
    """The pod with the defaults that limit ranges will give its containers."""
    items = [item for found in limit_ranges for item in (found.get("spec") or {}).get("limits") or []]
    defaults = [item for item in items if item.get("type") == "Container"]
    if not defaults:
        return spec
    named = {kind: [_limited(c, defaults) for c in spec.get(kind) or []] for kind in ("containers", "initContainers")}
    return {**spec, **named}


def _limited(container: Document, defaults: Documents) -> Document:
    requirements = dict(container.get("resources") or {})
    for item in defaults:
        limits, requests = item.get("default") or {}, item.get("defaultRequest") or {}
        # A limit that the author gave also stands for the request he left out.
        own = {**requests, **(requirements.get("limits") or {})}
        requirements["requests"] = {**own, **(requirements.get("requests") or {})}
        requirements["limits"] = {**limits, **(requirements.get("limits") or {})}
    return {**container, "resources": requirements}


def resource_texts(vector: Resources) -> Document:
    return resource_list(vector)


def _requests(container: Document) -> Resources:
    return resources((container.get("resources") or {}).get("requests"))


def _pod_level(spec: Document) -> Resources:
    stated = resources((spec.get("resources") or {}).get("requests"))
    return {name: amount for name, amount in stated.items() if _is_pod_level(name)}


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _filled(container: Document) -> Document:
    return {**container, "resources": _fill(container.get("resources") or {})}


def _fill(requirements: Document) -> Document:
    requests = {**(requirements.get("limits") or {}), **(requirements.get("requests") or {})}
    return {**requirements, "requests": requests} if requests else requirements


def product(vectors: Iterable[tuple[Resources, int]]) -> Resources:
    """Pods of several kinds together: each vector times its count."""
    return total({name: amount * count for name, amount in vector.items()} for vector, count in vectors)
