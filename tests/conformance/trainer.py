"""The trainer's runner: recorded TrainJobs, runtimes and clusters, answered by our own admission, phases and loop."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from allaboard.api import crds, kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import AboardError
from allaboard.api.kinds import kind_of
from allaboard.api.meta import key_of, labels_of, stamp
from allaboard.cluster.rules import from_crd
from allaboard.jobs.admission import JobSetRules, defaulted
from allaboard.schema.structure import Structure
from allaboard.training import admission, lifecycle, runtime, status
from allaboard.training.facts import Facts, Settings, known
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from tests.conformance import trainer_functions, trainer_upstream
from tests.conformance.results import Result
from tests.conformance.trainer_compare import differences, lookup, normal, objects, rows, with_expectations
from tests.conformance.trainer_rulings import gang_problems, ruled, with_good_curve, without_gang

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENTROPY = bytes(range(1, 73))
Case = dict[str, Any]


def run(data: Path) -> Iterator[Result]:
    """Every case and every function row under the data directory."""
    for path in sorted([*data.glob("*.json"), *data.glob("*.json.gz")]):
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        answer = {"functions": trainer_functions.judge, "upstream": trainer_upstream.judge}.get(
            path.name.partition(".")[0], judge
        )
        for case in json.loads(text)["cases"]:
            yield Result(case["id"], list(_tagged(case, answer)))


def _tagged(case: Case, answer: Any) -> Iterable[str]:
    """A difference that a ruling or an open defect wants says so, for the list of accepted ones."""
    why = [f"ruling {n}" for n in case.get("ruling") or [] if "want" not in case]
    if not case.get("better"):
        why += [f"defect {n}" for n in case.get("head_bug") or []]
    if '"cache://' in json.dumps(case.get("given", "")):
        why.append("ruling 23")
    prefix = f"{', '.join(why)}: " if why else ""
    return [prefix + line for line in answer(case)]


# --- the world of a case ---


def moments(value: Any) -> Any:
    """`$NOW-60` as a time."""
    if isinstance(value, dict):
        return {key: moments(item) for key, item in value.items()}
    if isinstance(value, list):
        return [moments(item) for item in value]
    if isinstance(value, str) and (found := re.fullmatch(r"\$NOW(?:-(\d+))?", value)):
        return stamp(NOW - timedelta(seconds=int(found[1] or 0)))
    return value


STRUCTURES: dict[str, Structure] = {}


def structure(kind: kinds.Kind) -> Structure:
    if kind.resource not in STRUCTURES:
        crd = crds.crd(kind.resource)
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        STRUCTURES[kind.resource] = Structure(schema)
    return STRUCTURES[kind.resource]


def validated(document: Document, old: Document | None) -> list[Any]:
    """What the API server's schema says, its metadata rules included; not that rules were skipped."""
    rules = from_crd(crds.crd(kind_of(document).resource))[0]
    causes = [*structure(rules.kind).validate(document, old), *rules.validate(document, old, "")]
    return [cause for cause in dict.fromkeys(causes) if "rules were not checked" not in cause.message]


class Cluster:
    """What exists in a case; it answers admission's and the controller's questions."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.documents = {(kind_of(d), key_of(d)): d for d in documents}

    def get(self, kind: kinds.Kind, key: Key) -> Document | None:
        return self.documents.get((kind, key))

    def list(self, kind: kinds.Kind, namespace: str = "") -> list[Document]:
        return [d for (k, key), d in self.documents.items() if k is kind and namespace in ("", key.namespace)]

    def put(self, document: Document) -> None:
        self.documents[kind_of(document), key_of(document)] = document

    def facts(self, given: Case) -> Facts:
        config = given.get("config") or {}
        certificates = config.get("certManagement") or {}
        gates = frozenset(gate for gate, on in (given.get("featureGates") or {}).items() if on)
        settings = Settings(
            service=certificates.get("webhookServiceName") or Settings().service,
            secret=certificates.get("webhookSecretName") or Settings().secret,
            status_port=(config.get("statusServer") or {}).get("port") or Settings().status_port,
            gates=gates,
        )
        secret = self.get(kinds.SECRET, Key(settings.namespace, settings.secret)) or {}
        text = (secret.get("data") or {}).get("ca.crt")
        authority = trainer_functions.decoded(text) if text is not None else None
        existing = known((kind, document) for (kind, _), document in self.documents.items())
        return Facts(existing, settings, authority, lambda size: ENTROPY[:size])


# --- one case ---


def judge(case: Case) -> Iterator[str]:
    """Every difference between what is right and what we answer."""
    given, actual, better = moments(case["given"]), case["actual"], case.get("better") or {}
    ours = answer(given)
    if better.get("runtimeAdmitted") is False:
        if not any(a["errors"] for a in ours["runtimeAdmission"].values()):
            yield "runtime: want refused, got admitted"
        return
    if "admitted" in better:
        if ours.get("admitted") != better["admitted"]:
            yield f"admitted: want {better['admitted']}, got {ours.get('admitted')} {ours.get('trainJobAdmission')}"
        return
    if "warnings" in better:
        said = [w for a in ours["runtimeAdmission"].values() for w in a["warnings"]]
        if len(said) != 1 or "deprecated" not in said[0]:
            yield f"warnings: want one deprecation warning, got {said}"
        return
    if 10 in (case.get("ruling") or []):
        yield from gang_problems(ours.get("objects") or [], given)
        ours["objects"] = without_gang(ours.get("objects"))
        actual = {**actual, "objects": without_gang(actual.get("objects"))}
    yield from _against(case, actual, better, ours)


def _against(case: Case, actual: Any, better: Any, ours: Any) -> Iterator[str]:
    if "jobSetExistsAfterLastPass" in better:
        got = ours["reconcile"]["passes"][-1]["jobSetExists"]
        if got != better["jobSetExistsAfterLastPass"]:
            yield f"jobSetExists: want {better['jobSetExistsAfterLastPass']}, got {got}"
        return
    if "status" in better:
        got = normal(_timeless(ours["reconcile"]["passes"][-1]["status"]))
        yield from differences(normal(better["status"]), got, "status")
        return
    expectations = better.get("expect") or []
    if better and not better.get("complete"):
        for expectation in expectations:
            if not _is_overruled(expectation, case):
                yield from _expectation(expectation, actual, ours)
        return
    want = with_expectations(
        {**actual, **({"objects": better["objects"]} if "objects" in better else {})}, expectations
    )
    if better and "jobSetAdmission" in want:  # what is better is also what JobSet takes
        want["jobSetAdmission"] = {"operation": want["jobSetAdmission"]["operation"]}
    want = ruled(case, want)
    if {25, 29} & set(case["head_bug"]) and not any(expectation.get("differs") for expectation in expectations):
        want["objects"] = with_good_curve(want.get("objects"), ours.get("objects"))
    versions = [_wanted_processes(want, case.get("want") or {}), *(case.get("alternatives") or [])]
    if better and case.get("want"):
        versions.append(want)  # a mended defect may leave no number to want
    found = [list(compare(version, ours, expectations)) for version in versions]
    yield from min(found, key=len)


def _is_overruled(expectation: Any, case: Case) -> bool:
    """A launcher alone (ruling 4) leaves no worker to expect something of; a gang is judged by ruling 10."""
    path = expectation["path"]
    is_gang = any(isinstance(step, dict) and step.get("kind") == "PodGroup" for step in path)
    if is_gang and 10 in (case.get("ruling") or []):
        return True
    return 23 in case["head_bug"] and ({"name": "node"} in path or path[-1] == "hostfile")


def _timeless(status: Any) -> Any:
    conditions = [{k: v for k, v in c.items() if k != "lastTransitionTime"} for c in status.get("conditions") or []]
    return {**status, "conditions": conditions}


def _wanted_processes(want: Any, wish: Any) -> Any:
    if "processes" not in wish:
        return want
    text = json.dumps(want)
    shape = r'(\{"name": "PET_NPROC_PER_NODE", "value": ")[^"]*(")'
    return json.loads(re.sub(shape, rf"\g<1>{wish['processes']}\g<2>", text))


def _expectation(expectation: Any, actual: Any, ours: Any) -> Iterator[str]:
    path = expectation["path"]
    got, name = lookup(ours, path), str(path[-1])
    if expectation.get("absent"):
        if got is not None:
            yield f"expect {path}: want nothing, got {got!r}"
    elif expectation.get("differs"):
        if got is None or got == lookup(actual, path):
            yield f"expect {path}: want another value than recorded, got {got!r}"
    else:
        yield from differences(normal(expectation["value"], name), normal(got, name), f"expect {path}")


def compare(want: Any, ours: Any, expectations: Any) -> Iterator[str]:
    """The whole answer, member by member."""
    for member in ("runtimeSchema", "runtimeAdmission"):
        for name, answer in (want.get(member) or {}).items():
            yield from _answer(answer, (ours.get(member) or {}).get(name) or {}, f"{member}.{name}")
    if "trainJobSchema" in want:
        yield from _answer(want["trainJobSchema"], ours.get("trainJobSchema") or {}, "trainJobSchema")
    # Also where the schema refused already: no API server would ask, but the recorded webhook was.
    if "trainJobAdmission" in want and not want.get("trainJobUndecodable"):
        yield from _answer(want["trainJobAdmission"], ours.get("trainJobAdmission") or {}, "trainJobAdmission")
    if "admitted" in want and want["admitted"] != ours.get("admitted"):
        yield f"admitted: want {want['admitted']}, got {ours.get('admitted')}"
    if "defaulted" in want:
        yield from differences(normal(_typed(want["defaulted"])), normal(_typed(ours.get("defaulted"))), "defaulted")
    for member in ("snapshot", "status"):
        if member in want:
            yield from differences(normal(want[member]), normal(ours.get(member)), member)
    if "objects" in want:
        yield from _objects(want["objects"], ours.get("objects"), expectations)
    if "jobSetAdmission" in want:
        yield from _job_set_admission(want["jobSetAdmission"], ours.get("jobSetAdmission") or {})
    if "reconcile" in want:
        yield from _passes(want["reconcile"]["passes"], ours["reconcile"]["passes"])


def _job_set_admission(want: Any, ours: Any) -> Iterator[str]:
    """Whether JobSet takes what was made of the TrainJob, at its first apply or at a later one."""
    theirs = rows([*(want.get("schemaErrors") or []), *(want.get("errors") or [])])
    operation = want["operation"]
    yield from differences(theirs, rows(ours.get(operation)), f"jobSetAdmission.{operation}")


def _of_job_set(made: Any, before: Any) -> Iterator[Document]:
    """What schema and hooks of JobSet say about the JobSet we made, as a new one or in place of one we made before."""
    new, old = _job_set_in(made), _job_set_in(before)
    if new is None:
        return
    refused = JobSetRules().validate(Asked(new, old), Cluster([])).refusal
    yield from _rows([*structure(kinds.JOB_SET).validate(new, old), *(refused.causes if refused else ())])
    if refused and not refused.causes:
        yield {"type": "Plain", "field": "", "detail": refused.message}


def _job_set_in(made: Any) -> Document | None:
    """As the API server would store it."""
    found = next((document for document in made or [] if document["kind"] == "JobSet"), None)
    return defaulted(structure(kinds.JOB_SET).default(found)) if found else None


@dataclass(frozen=True)
class Asked:
    """A request about a JobSet, as hooks see it."""

    new: Document
    old: Document | None

    @property
    def operation(self) -> str:
        return "UPDATE" if self.old else "CREATE"


def _typed(value: Any) -> Any:
    """As a typed object would print it, which is how these were recorded: without empty texts."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items() if item != ""}
    return [_typed(item) for item in value] if isinstance(value, list) else value


def _answer(want: Any, got: Any, path: str) -> Iterator[str]:
    if not isinstance(want, dict) or want.get("panic"):
        want = {"errors": []}
    for difference in differences(rows(want.get("errors")), rows(got.get("errors")), f"{path}.errors"):
        yield f"{difference} ({got.get('errors')})"
    if "warnings" in want:
        yield from differences(sorted(want["warnings"]), sorted(got.get("warnings") or []), f"{path}.warnings")
    if want.get("pruned") or got.get("pruned"):
        yield from differences(sorted(want.get("pruned") or []), sorted(got.get("pruned") or []), f"{path}.pruned")
    if bool(want.get("skippedBySelector")) != bool(got.get("skippedBySelector")):
        yield f"{path}.skippedBySelector: want {want.get('skippedBySelector')}, got {got.get('skippedBySelector')}"


def _objects(want: Any, got: Any, expectations: Any) -> Iterator[str]:
    if isinstance(want, dict):
        if not isinstance(got, dict):
            yield f"objects: want an error ({want}), got {[o['kind'] for o in got or []]}"
        return
    if not isinstance(got, list):
        yield f"objects: want {len(want)}, got {got}"
        return
    left, right = objects(want), objects(got)
    for expectation in expectations:
        if expectation.get("differs"):
            yield from _expectation(expectation, {"objects": want}, {"objects": got})
            _forget(left, right, expectation["path"])
    yield from differences(left, right, "objects")


def _forget(left: Any, right: Any, path: list[Any]) -> None:
    for side in (left, right):
        for document in side.values():
            if all(document.get(k) == v for k, v in path[1].items()):
                lookup(document, path[2:-1]).pop(path[-1], None)


def _passes(want: Any, got: Any) -> Iterator[str]:
    for index, (left, right) in enumerate(zip(want, got)):
        path = f"passes[{index}]"
        yield from differences(normal(moments(left.get("status"))), normal(right["status"]), f"{path}.status")
        for member in ("jobSetExists", "requeueAfterSeconds"):
            if left.get(member) != right.get(member):
                yield f"{path}.{member}: want {left.get(member)}, got {right.get(member)}"
        if bool(left.get("error") or left.get("panic")) != bool(right.get("error")):
            yield f"{path}.error: want {left.get('error')}, got {right.get('error')}"
        said = [[e["type"], e["reason"], e["action"]] for e in left.get("events") or []]
        yield from differences(said, right.get("events"), f"{path}.events")


# --- our answer ---


def answer(given: Case) -> Any:
    """What we say to the same request."""
    ours: Any = {"runtimeSchema": {}, "runtimeAdmission": {}}
    raw = given.get("raw", False)
    runtimes = [_runtime(given, document, ours, raw=raw) for document in given.get("runtimes") or []]
    if given.get("onlyRuntimes") or "trainJob" not in given:
        return ours
    cluster = Cluster([*runtimes, *(given.get("objects") or [])])
    old = given.get("oldTrainJob")
    old = old if old is None or raw else structure(kinds.TRAIN_JOB).default(old)
    new, errors = _trainjob(given, old, ours, raw=raw)
    job, before = TrainJob(new), TrainJob(old) if old else None
    if any(cause.reason == "FieldValueTypeInvalid" or "should match" in cause.message for cause in errors):
        # The schema refused what no typed object could hold; nobody is asked any further.
        return ours | {"admitted": False, "defaulted": new.get("spec")}
    causes, warnings = admission.trainjob_problems(job, before, cluster)  # type: ignore[arg-type]
    ours["trainJobAdmission"] = {"errors": _rows(causes), "warnings": warnings}
    refused = [n for n, a in ours["runtimeAdmission"].items() if a["errors"] and not a["skippedBySelector"]]
    refused += [name for name, answer in ours["runtimeSchema"].items() if answer["errors"]]
    ours["admitted"] = not errors and not causes and not refused
    ours["defaulted"] = new.get("spec")
    if given.get("reconcile"):
        ours["reconcile"] = {"passes": list(_reconcile(given, job, cluster))}
    elif ours["admitted"] or given.get("skipAdmission") or raw:
        _build(given, job, cluster, ours)
    return ours


def _runtime(given: Case, document: Document, ours: Any, *, raw: bool) -> Document:
    name = f"{document['kind']}/{document['metadata']['name']}"
    if not raw:
        old = next((o for o in given.get("oldRuntimes") or [] if o["metadata"] == document["metadata"]), None)
        old = old or next(iter(given.get("oldRuntimes") or []), None)
        shape = structure(kind_of(document))
        admitted = shape.admit(document)
        document = admitted.document
        causes = validated(document, shape.default(old) if old else None)
        ours["runtimeSchema"][name] = {"errors": _rows(causes), "pruned": admitted.unknown}
    old = next(iter(given.get("oldRuntimes") or []), None)
    ours["runtimeAdmission"][name] = {
        "errors": _rows(admission.runtime_problems(document)),
        "warnings": list(admission.runtime_warnings(document, old)),
        "skippedBySelector": labels_of(document).get(admission.UNCHECKED[0]) == admission.UNCHECKED[1],
    }
    return document


def _trainjob(given: Case, old: Document | None, ours: Any, *, raw: bool) -> tuple[Document, Any]:
    new = given["trainJob"]
    if raw:
        return new, []
    shape = structure(kinds.TRAIN_JOB)
    admitted = shape.admit(new)
    new = admission.stamped(admitted.document, old, stamp(NOW))
    causes = validated(new, old)
    ours["trainJobSchema"] = {"errors": _rows(causes), "pruned": admitted.unknown}
    return new, causes


def _rows(causes: Any) -> list[Document]:
    return [{"type": c.reason, "field": c.field, "detail": c.message} for c in causes]


def _build(given: Case, job: TrainJob, cluster: Cluster, ours: Any) -> None:
    facts = cluster.facts(given)
    snapshot = cluster.get(kinds.CONFIG_MAP, Key(job.namespace, job.snapshot_name))
    live = cluster.get(*admission._place(job)) if job.runtime.is_supported else None
    try:
        if snapshot is None and live is None:
            raise AboardError("the runtime is missing")
        frozen = runtime.thaw(job, snapshot) if snapshot else live
        ours["objects"] = OURS.build(frozen, job, facts)
        ours["jobSetAdmission"] = {"create": list(_of_job_set(ours["objects"], None))}
        if "oldTrainJob" in given:
            old = TrainJob(structure(kinds.TRAIN_JOB).default(given["oldTrainJob"]))
            existing = {at: found for at, found in facts.existing.items() if at[0] is not kinds.JOB_SET}
            before = OURS.build(frozen, old, replace(facts, existing=existing))
            ours["jobSetAdmission"]["update"] = list(_of_job_set(ours["objects"], before))
    except AboardError as error:
        ours["objects"] = {"error": str(error)}
        return
    if snapshot is None:
        made = runtime.snapshot(job, frozen)
        ours["snapshot"] = {
            "dataKeys": sorted(made["data"]),
            "name": made["metadata"]["name"],
            "namespace": made["metadata"]["namespace"],
            "ownerReferences": made["metadata"]["ownerReferences"],
            "runtimeKind": json.loads(made["data"]["runtime"])["kind"],
            "runtimeName": json.loads(made["data"]["runtime"])["metadata"]["name"],
        }
    if job_set := cluster.get(kinds.JOB_SET, job.key):
        ours["status"] = status.from_job_set(job, job.document.get("status") or {}, job_set, NOW)


def _reconcile(given: Case, job: TrainJob, cluster: Cluster) -> Iterator[Any]:
    fail = given.get("failDelete", 0)
    for _ in range(given["reconcile"]):
        world = lifecycle.World(
            job=job,
            job_set=cluster.get(kinds.JOB_SET, job.key),
            snapshot=cluster.get(kinds.CONFIG_MAP, Key(job.namespace, job.snapshot_name)),
            runtime=cluster.get(*admission._place(job)) if job.runtime.is_supported else None,
            facts=cluster.facts(given),
            get=cluster.get,
        )
        plan = lifecycle.decide(world, OURS, NOW)
        for write in (*plan.apply, *plan.create):
            cluster.put(write.document)
        for write in plan.delete:
            if fail:
                fail -= 1
            else:
                cluster.documents.pop((write.kind, write.key), None)
        for write in plan.status:
            job = TrainJob(write.document)
        seen = {k: v for k, v in (job.document.get("status") or {}).items() if k != "aboard"}
        yield {
            "status": seen,
            "jobSetExists": cluster.get(kinds.JOB_SET, job.key) is not None,
            "requeueAfterSeconds": int((plan.again - NOW).total_seconds()) if plan.again else None,
            "events": [[event.type, event.reason, event.action] for event in plan.events],
            "error": bool(plan.events),
        }
