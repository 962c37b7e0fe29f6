"""Function rows of the trainer's recordings: small pure functions, as tables."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from allaboard.api import mpi, names, quantity
from allaboard.training import patches, resources, runtime, upsert
from allaboard.training.info import Info, PodSet
from allaboard.training.job import TrainJob
from allaboard.training.plugins import flux, flux_scripts, progress, torchtune
from allaboard.training.plugins.mpi import LAUNCHER, NODE
from tests.conformance.trainer_compare import differences, normal
from tests.conformance.trainer_oracles import away, exactly, merged_ports, number

RULES: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.qualified_name,
    "labelValue": names.label_value,
    "envVarName": names.env_name,
    "configMapKey": names.config_key,
    "portName": names.port_name,
    "domainPrefixedPath": lambda text: [f"{c.reason}: {c.message}" for c in names.domain_prefixed_path(text)],
}


def decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def judge(row: dict[str, Any]) -> Iterator[str]:
    """Every difference between the recorded result and ours."""
    answer = ANSWERS.get(row["fn"])
    if answer is None:
        yield f"{row['fn']}: nothing of ours answers this"
        return
    if row.get("quirk"):
        yield from differences(exactly(row["args"], answer(row["args"])), answer(row["args"]), f"exact {row['fn']}")
        return
    if row["result"] == "random":
        if answer(row["args"]) not in (possible := _possible(row["args"])):
            yield f"{row['fn']}: want one of {possible}, got {answer(row['args'])}"
        return
    want = (row.get("want") or {}).get("processes", row["result"])
    if row["fn"] == "upsert.ports":  # recorded with defect 17
        want = merged_ports(row["args"]["existing"] or [], row["args"]["new"] or [])
    yield from differences(_normal(row["fn"], want), _normal(row["fn"], answer(row["args"])), row["fn"])


def _normal(name: str, value: Any) -> Any:
    if name == "patches.merge":
        return _in_order(value)
    if name == "resources.merge":
        return normal(value)
    return {"requests": normal(value, "requests")} if name == "pod.requests" else value


def _in_order(value: Any) -> Any:
    """Without what is empty, quantities as numbers; every list keeps its order."""
    if isinstance(value, dict):
        kept = {key: _in_order(item) for key, item in value.items()}
        kept = {key: item for key, item in kept.items() if item not in (None, {}, [])}
        return {key: normal(item, key) if key in ("requests", "limits") else item for key, item in kept.items()}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _quantity(text: str) -> Any:
    try:
        found = quantity.parse(text)
    except quantity.BadQuantity as error:
        return {"error": str(error)}
    return {
        "canonical": str(found),
        "format": found.format,
        "milliValue": found.milli_value(),
        "sign": found.sign,
        "value": found.value(),
    }


def _possible(requirements: Any) -> list[int]:
    """Where the reference takes any of several devices: the count of each."""
    for side in ("requests", "limits"):
        amounts = (requirements.get(side) or {}).items()
        if counts := [away(number(str(amount))) for name, amount in amounts if "gpu" in name.lower()]:
            return counts
    return [0]


def _compared(args: Any) -> Any:
    sign = quantity.compare(quantity.parse(args[0]), quantity.parse(args[1]))
    return {"cmp": sign, "equal": sign == 0}


def _summed(args: Any) -> str:
    total = quantity.parse(args[0])
    for text in args[1:]:
        total = total + quantity.parse(text)
    return str(quantity.Quantity(total.nanos, total.format))


def _multiplied(args: Any) -> Any:
    found = quantity.parse(args["q"]) * args["n"]
    return {"exactInt64": True, "result": str(quantity.Quantity(found.nanos, found.format))}


def _merged(args: Any) -> Any:
    return patches.merge(args["source"], args["patches"])


def _endpoints(args: Any) -> Any:
    spec = args["jobSetSpec"]
    info = Info(template=spec, pod_sets=[_pods(job, args) for job in spec.get("replicatedJobs") or []])
    found = {pods.name: info.endpoints(args["trainJobName"], pods) for pods in info.pod_sets}
    result = {"endpoints": found}
    if args.get("mpi"):
        training = (NODE, LAUNCHER) if args.get("runLauncherAsNode") else (NODE,)
        hosts = [host for name, names_ in found.items() if name in training for host in names_]
        result["hostfile"] = mpi.hostfile(hosts, args.get("slots") or 1)
    return result


def _pods(job: Any, args: Any) -> PodSet:
    """The counts as the row was made: the policy's for the trainer, the TrainJob's for `node`."""
    count = job["template"]["spec"].get("parallelism", 1)
    ancestor = runtime.ancestor_of(job)
    if ancestor == "trainer" and (args.get("mpi") or "policyNumNodes" in args):
        count = args.get("policyNumNodes", 1)
    nodes = args.get("trainerNumNodes")
    if nodes is not None and job["name"] == NODE and args.get("mpi"):
        count = max(nodes - 1, 1) if args.get("runLauncherAsNode") else nodes
    elif nodes is not None and ancestor == "trainer" and not args.get("mpi"):
        count = nodes
    return PodSet(job["name"], ancestor, count, replicas=job.get("replicas", 1))


def _recipe(args: Any) -> Any:
    asked = torchtune.Asked(args["numNodes"], args["numProcPerNode"], args["gpus"], args["args"] or [])
    recipe, ending = torchtune.recipe_for(asked)
    config = torchtune.model_of(args["runtimeName"]) + ending
    return {"config": config, "lora": asked.is_lora, "qlora": asked.is_qlora, "recipe": recipe}


def _upsert(function: Callable[[list[Any], list[Any]], None]) -> Callable[[Any], Any]:
    def answer(args: Any) -> Any:
        existing = list(args["existing"] or [])
        function(existing, args["new"] or [])
        return existing

    return answer


def _curve(args: Any) -> str:
    return flux.curve(args["name"], hashlib.sha256(args["uid"].encode()).digest())


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "quantity": _quantity,
    "quantity.compare": _compared,
    "quantity.sum": _summed,
    "quantity.mul": _multiplied,
    "resources.cpuCount": resources.cpu_count,
    "resources.gpuCount": resources.gpu_count,
    "resources.merge": lambda args: resources.merge(args["base"] or {}, args["override"] or {}),
    "pod.requests": lambda args: resources.resource_texts(resources.pod_requests(args)),
    "patches.merge": _merged,
    "endpoints": _endpoints,
    "torchtune.model": torchtune.model_of,
    "torchtune.recipe": _recipe,
    "validate": lambda args: RULES[args["rule"]](args["value"]),
    "upsert.env": _upsert(upsert.env),
    "upsert.ports": _upsert(upsert.ports),
    "upsert.volumes": _upsert(upsert.volumes),
    "upsert.volumeMounts": _upsert(upsert.mounts),
    "env.convert": TrainJob.converted,
    "flux.range": lambda args: flux_scripts.span(*args),
    "flux.hostlist": lambda args: flux_scripts.hostlist(f"{args['prefix']}-{NODE}", args["size"]),
    "flux.z85": lambda text: flux.z85(bytes.fromhex(text)),
    "flux.curve": _curve,
    "status.url": lambda args: {"audience": progress.audience(*args), "url": progress.path(*args)},
}
