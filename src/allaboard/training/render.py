"""Seeing the merge: the final objects of a TrainJob, and who set every field of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from allaboard.api import crds, kinds
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import AboardError
from allaboard.api.kinds import Kind, kind_of
from allaboard.points import Plugin, nearest
from allaboard.schema.structure import Structure
from allaboard.training import runtime as runtimes
from allaboard.training.facts import Facts
from allaboard.training.framework import OURS, Framework
from allaboard.training.info import Info
from allaboard.training.job import TrainJob
from allaboard.training.plugins.jobset import JobSet
from allaboard.training.runtimes import shipped_runtimes

JOB, DEFAULT = "TrainJob", "default"
# Members of a TrainJob that the JobSet takes over word by word.
TAKEN = ("image", "command", "args", "env")
OF_JOB = ("metadata.name", "metadata.namespace", "metadata.ownerReferences", "spec.suspend")

Authors = dict[str, str]


@dataclass(frozen=True, slots=True)
class Explained:
    """An object and the author of each of its fields, by path."""

    document: Document
    authors: Authors = field(default_factory=dict)


@cache
def structure(kind: Kind) -> Structure:
    crd = crds.crd(kind.resource)
    return Structure(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def with_defaults(document: Document) -> Document:
    """The document as the API server would store it."""
    return structure(kind_of(document)).default(document)


def render(runtime: Document, trainjob: Document, facts: Facts, framework: Framework = OURS) -> Documents:
    """Every object of a TrainJob, the JobSet first."""
    job = TrainJob(with_defaults(trainjob))
    return sorted(framework.build(with_defaults(runtime), job, facts), key=_importance)


class NothingToRender(AboardError):
    """The files hold no TrainJob, or one whose runtime is nowhere to be found."""

    exit_code = 3


def texts(documents: Documents, entropy: Callable[[int], bytes], *, explained: bool = False) -> Iterator[str]:
    """The final objects of every TrainJob among these documents, as YAML; runtimes come from here or are shipped."""
    jobs = [document for document in documents if document.get("kind") == kinds.TRAIN_JOB.kind]
    if not jobs:
        raise NothingToRender("there is no TrainJob to render; give a file that holds one")
    known = {
        document["metadata"]["name"]: document
        for document in (*shipped_runtimes(), *documents)
        if _is_runtime(document)
    }
    for job in jobs:
        named = {**job, "metadata": {"namespace": "default", "uid": "", **job["metadata"]}}
        name = TrainJob(job).runtime.name
        if name not in known:
            raise NothingToRender(f'runtime "{name}" is in no file and is not shipped{nearest(name, known)}')
        for found in explain(known[name], named, Facts(entropy=entropy)):
            shown = _without_keys(found)
            yield annotated(shown if explained else Explained(shown.document))


def _is_runtime(document: Document) -> bool:
    return document.get("kind") in (kinds.TRAINING_RUNTIME.kind, kinds.CLUSTER_TRAINING_RUNTIME.kind)


def _without_keys(explained: Explained) -> Explained:
    """Keys are made when a job is created; the ones of a rendering are nobody's."""
    document = explained.document
    if document["kind"] != "Secret":
        return explained
    return Explained({**document, "data": dict.fromkeys(document["data"], "<generated>")}, explained.authors)


def _importance(document: Document) -> tuple[bool, str, str]:
    return document["kind"] != kinds.JOB_SET.kind, document["kind"], document["metadata"]["name"]


def explain(runtime: Document, trainjob: Document, facts: Facts, framework: Framework = OURS) -> list[Explained]:
    """The same objects, each field with who set it: runtime, patch, plugin, TrainJob or default."""
    job = TrainJob(with_defaults(trainjob))
    info = Info()
    authors: Authors = {}
    before: Authors = {}
    for author, info in _stages(runtime, job, facts, framework):
        now = dict(leaves(_bare(info, job)))
        authors = {path: authors[path] if before.get(path) == now[path] else author for path in now}
        before = now
    authors |= dict.fromkeys(_filled_in(runtime, authors), DEFAULT)
    found = []
    for plugin in framework.plugins:
        for document in plugin.build(info, job, facts) if hasattr(plugin, "build") else ():
            is_job_set = document["kind"] == kinds.JOB_SET.kind
            found.append(
                Explained(document, _final(document, before, authors, plugin, job=job if is_job_set else None))
            )
    if "suspend" not in (trainjob.get("spec") or {}):
        for one in found:
            one.authors.update({path: DEFAULT for path in one.authors if path == "spec.suspend"})
    return sorted(found, key=lambda explained: _importance(explained.document))


def _filled_in(runtime: Document, authors: Authors) -> Iterator[str]:
    """How often each job is made, where the runtime leaves it to its schema."""
    stated = dict(leaves(dig(runtime, "spec", "template", default={})))
    return (path for path in authors if path.endswith(".replicas") and path not in stated)


def _stages(runtime: Document, job: TrainJob, facts: Facts, framework: Framework) -> Iterator[tuple[str, Info]]:
    """The middle form, one author after another."""
    bare = TrainJob({**job.document, "spec": {**job.spec, "trainer": {}, "runtimePatches": []}})
    name = f"runtime {job.runtime.name}"
    yield name, runtimes.info(runtime, bare)
    full = with_defaults(runtime)
    yield DEFAULT, runtimes.info(full, bare)
    for count, patch in enumerate(job.patches, start=1):
        patched = TrainJob({**bare.document, "spec": {**bare.spec, "runtimePatches": job.patches[:count]}})
        yield f"patch {patch.get('manager')}", runtimes.info(full, patched)
    info = runtimes.info(full, job)
    yield JOB, info
    for point, extra in (
        ("enforce_ml_policy", ()),
        ("enforce_pod_group_policy", ()),
        ("enforce_pod_spec", (facts.settings,)),
        ("prepare", ()),
    ):
        for plugin in framework.plugins:
            if hasattr(plugin, point):
                getattr(plugin, point)(info, job, *extra)
                yield f"plugin {plugin.name}", info


def _bare(info: Info, job: TrainJob) -> Document:
    """The JobSet of a stage, before the TrainJob's own words are laid over it."""
    trainer = {name: value for name, value in job.trainer.items() if name not in TAKEN}
    spec = {**job.spec, "trainer": trainer, "initializer": None}
    command, args = info.command, info.args
    if command == job.trainer.get("command"):
        info.command = None
    if args == job.trainer.get("args"):
        info.args = None
    try:
        return next(iter(JobSet().build(info, TrainJob({**job.document, "spec": spec}), Facts())))
    finally:
        info.command, info.args = command, args


def _final(document: Document, before: Authors, authors: Authors, plugin: Plugin, *, job: TrainJob | None) -> Authors:
    if job is None:
        return dict.fromkeys(dict(leaves(document)), f"plugin {plugin.name}")
    own = tuple(f".env[{entry['name']}]" for entry in job.env)
    found = {}
    for path, value in leaves(document):
        is_own = path.startswith(OF_JOB) or any(part in path for part in own)
        found[path] = JOB if is_own or before.get(path) != value else authors[path]
    return found | {"apiVersion": f"plugin {plugin.name}", "kind": f"plugin {plugin.name}"}


def leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every field that holds a value, with its path; items of lists go by name where they have one."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{item_name(item, index)}]")
    else:
        yield path, repr(value)


def item_name(item: object, index: int) -> str:
    for key in ("mountPath", "name", "containerPort"):
        if isinstance(item, dict) and item.get(key):
            return str(item[key])
    return str(index)


def annotated(explained: Explained) -> str:
    """The object as YAML, each line with a word about its author."""
    lines = list(_lines(explained.document, explained.authors, "", ""))
    width = min(100, max((len(text) for text, _ in lines), default=0))
    return "".join(f"{text:<{width}}  # {author}\n" if author else f"{text}\n" for text, author in lines)


def _lines(value: object, authors: Authors, path: str, indent: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(f"{key}:", item, authors, f"{path}.{key}" if path else str(key), indent)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _item(item, authors, f"{path}[{item_name(item, index)}]", indent)


def _entry(head: str, value: object, authors: Authors, path: str, indent: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list) and value:
        yield f"{indent}{head}", ""
        yield from _lines(value, authors, path, indent if isinstance(value, list) else indent + "  ")
    else:
        yield f"{indent}{head} {scalar(value)}", authors.get(path, "")


def _item(value: object, authors: Authors, path: str, indent: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict | list) or not value:
        yield f"{indent}- {scalar(value)}", authors.get(path, "")
        return
    inner = list(_lines(value, authors, path, indent + "  "))
    first, author = inner[0]
    yield f"{indent}- {first[len(indent) + 2 :]}", author
    yield from inner[1:]


def scalar(value: object) -> str:
    """A value as YAML writes it on one line; texts that could be read as something else are quoted."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    if not isinstance(value, str):
        return str(value)
    plain = value and value.strip() == value and all(c.isalnum() or c in "-_./" for c in value) and value[0].isalpha()
    if plain and value.lower() not in ("true", "false", "null", "yes", "no", "on", "off", "y", "n"):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
