"""What the rulings make of a recorded answer: where the reference shows a defect, this says what is right instead.

Written from the rulings alone and applied to the recording, so that such a case is compared in full like any other.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.conformance.trainer_oracles import merged_ports, number

WORKERS, LAUNCHER = "node", "launcher"
MARKS = (("labels", "scheduling.x-k8s.io/pod-group"), ("annotations", "scheduling.k8s.io/group-name"))
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def ruled(case: Any, want: Any) -> Any:
    """The recorded answer as the rulings want it."""
    bugs, made = case.get("head_bug") or [], want.get("objects")
    if not isinstance(made, list):
        return want
    made = copy.deepcopy(made)
    job_set = next((document for document in made if document["kind"] == "JobSet"), None)
    if job_set is not None:
        jobs = job_set["spec"]["replicatedJobs"]
        if 23 in bugs and _is_alone(case["given"]):
            _leave_out_workers(jobs, made)
        if 19 in bugs and (image := _trainer(case["given"]).get("image")):
            _give_image(jobs, image)
        if 27 in bugs or 25 in bugs:
            _open_shared_memory(jobs)
        if 17 in bugs:
            _keep_ports(jobs, case["given"])
    return {**want, "objects": made}


def _trainer(given: Any) -> Any:
    return given["trainJob"]["spec"].get("trainer") or {}


def _policy(given: Any) -> Any:
    return (given["runtimes"][0]["spec"].get("mlPolicy") or {}) if given.get("runtimes") else {}


def _is_alone(given: Any) -> bool:
    """Ruling 4: a launcher that is a node, and the only one."""
    policy = _policy(given)
    nodes = _trainer(given).get("numNodes", policy.get("numNodes", 1))
    return bool((policy.get("mpi") or {}).get("runLauncherAsNode")) and nodes == 1


def _leave_out_workers(jobs: list[Any], made: list[Any]) -> None:
    jobs[:] = [job for job in jobs if job["name"] != WORKERS]
    for job in jobs:
        job["dependsOn"] = [other for other in job.get("dependsOn") or [] if other["name"] != WORKERS]
    for document in made:
        if "hostfile" in (document.get("data") or {}):
            lines = document["data"]["hostfile"].splitlines(keepends=True)
            document["data"]["hostfile"] = "".join(line for line in lines if f"-{LAUNCHER}-" in line)


def _containers(jobs: list[Any], job: str = "", container: str = "") -> Iterator[Any]:
    for found in jobs:
        spec = found["template"]["spec"]["template"]["spec"]
        if job in ("", found["name"]):
            yield from (each for each in spec.get("containers") or [] if container in ("", each["name"]))


def _give_image(jobs: list[Any], image: str) -> None:
    """Defect 19: workers run what the launcher runs."""
    if any(job["name"] == LAUNCHER for job in jobs):
        for container in _containers(jobs, WORKERS, "node"):
            container["image"] = image


def _open_shared_memory(jobs: list[Any]) -> None:
    for container in _containers(jobs):
        for mount in container.get("volumeMounts") or []:
            if mount["name"] == "shared-memory":
                mount.pop("readOnly", None)


def _keep_ports(jobs: list[Any], given: Any) -> None:
    """Defect 17: a port of the template stays, unless the same number and protocol is opened again."""
    template = given["runtimes"][0]["spec"]["template"]["spec"]["replicatedJobs"]
    for job in template:
        for container in job["template"]["spec"]["template"]["spec"].get("containers") or []:
            for found in _containers(jobs, job["name"], container["name"]):
                found["ports"] = merged_ports(container.get("ports") or [], found.get("ports") or [])


# --- gangs (ruling 10) ---


def without_gang(made: Any) -> Any:
    """Objects without PodGroups and without their marks on pods; those are judged by `gang_problems`."""
    if not isinstance(made, list):
        return made
    kept = [copy.deepcopy(document) for document in made if document["kind"] != "PodGroup"]
    for document in kept:
        for job in document["spec"]["replicatedJobs"] if document["kind"] == "JobSet" else []:
            metadata = job["template"]["spec"]["template"].get("metadata") or {}
            for member, key in MARKS:
                (metadata.get(member) or {}).pop(key, None)
    return kept


def gang_problems(made: Any, given: Any) -> Iterator[str]:
    """One gang is the trainer's phase: counted, sized and marked from the JobSet that stands beside it."""
    group = next((document for document in made if document["kind"] == "PodGroup"), None)
    job_set = next((document for document in made if document["kind"] == "JobSet"), None)
    if group is None or job_set is None:
        yield "ruling 10: want a PodGroup and a JobSet"
        return
    jobs = job_set["spec"]["replicatedJobs"]
    members = _members(jobs, is_mpi="mpi" in _policy(given))
    spec = group["spec"]
    if spec["minMember"] != (count := sum(_count(job) for job in jobs if job["name"] in members)):
        yield f"ruling 10: minMember: want {count}, got {spec['minMember']}"
    want = _sum((_requests(job), _count(job)) for job in jobs if job["name"] in members)
    got = {name: number(str(amount)) for name, amount in (spec.get("minResources") or {}).items()}
    if want != got:
        yield f"ruling 10: minResources: want {want}, got {got}"
    for job in jobs:
        metadata = job["template"]["spec"]["template"].get("metadata") or {}
        marked = any(key in (metadata.get(member) or {}) for member, key in MARKS)
        if marked != (job["name"] in members):
            yield f"ruling 10: {job['name']}: want marked {job['name'] in members}, got {marked}"


def _members(jobs: list[Any], *, is_mpi: bool) -> set[str]:
    awaited = {other["name"] for job in jobs for other in job.get("dependsOn") or []}
    if is_mpi and WORKERS in awaited:
        return {WORKERS}
    return {job["name"] for job in jobs if job["name"] not in awaited}


def _count(job: Any) -> int:
    return int(job["template"]["spec"].get("parallelism", 1))


def _requests(job: Any) -> dict[str, Fraction]:
    """One pod: what its containers request, a limit standing for a request that is not there (defect 16)."""
    containers = job["template"]["spec"]["template"]["spec"].get("containers") or []
    stated = [
        {**(r.get("limits") or {}), **(r.get("requests") or {})} for r in (c.get("resources") or {} for c in containers)
    ]
    return _sum(({name: number(str(amount)) for name, amount in each.items()}, 1) for each in stated)


def _sum(vectors: Any) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for vector, count in vectors:
        for name, amount in vector.items():
            total[name] = total.get(name, Fraction(0)) + amount * count
    return total


# --- the key of a Flux job (defect 29) ---


def with_good_curve(want: Any, ours: Any) -> Any:
    """The recorded objects with our key in place of theirs, once ours is proven to be a good one and another."""
    if not isinstance(want, list) or not isinstance(ours, list):
        return want
    keys = {document["metadata"]["name"]: document["data"]["curve.cert"] for document in ours if _is_curve(document)}
    return [_with_key(document, keys) if _is_curve(document) else document for document in want]


def _is_curve(document: Any) -> bool:
    return document["kind"] == "Secret" and "curve.cert" in (document.get("data") or {})


def _with_key(document: Any, keys: Any) -> Any:
    ours, theirs = keys.get(document["metadata"]["name"], ""), document["data"]["curve.cert"]
    good = ours != theirs and _is_certificate(base64.b64decode(ours).decode())
    return {**document, "data": {"curve.cert": ours}} if good else document


def _is_certificate(text: str) -> bool:
    found = dict(re.findall(r'^    (public-key|secret-key) = "(.{40})"$', text, re.MULTILINE))
    if len(found) != 2:
        return False
    secret = X25519PrivateKey.from_private_bytes(_bytes(found["secret-key"]))
    return secret.public_key().public_bytes_raw() == _bytes(found["public-key"])


def _bytes(text: str) -> bytes:
    words = (text[at : at + 5] for at in range(0, len(text), 5))
    values = (sum(Z85.index(letter) * 85 ** (4 - place) for place, letter in enumerate(word)) for word in words)
    return b"".join(value.to_bytes(4, "big") for value in values)
