"""JobSet: everything the phases decided becomes one JobSet; a running one is left alone."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.training import upsert
from allaboard.training.facts import Facts
from allaboard.training.info import DATASET, LAUNCHER, MODEL, NODE, TRAINER, Container, Info, PodSet
from allaboard.training.job import TrainJob
from allaboard.training.plugins import gangs
from allaboard.training.runtime import pod_spec_of, runs_launcher_as_node, with_pod_spec

KIND = kinds.JOB_SET


class JobSet:
    name = "jobset"

    def prepare(self, info: Info, job: TrainJob) -> None:
        """Every pod set's count becomes its job's parallelism: all pods of a job run at once, each once."""
        counts = {pods.name: pods.count for pods in info.pod_sets}
        jobs = [_counted(replicated, counts.get(replicated["name"])) for replicated in info.jobs]
        info.template = {**info.template, "replicatedJobs": jobs}

    def build(self, info: Info, job: TrainJob, facts: Facts) -> Iterable[Document]:
        existing = facts.find(KIND, job.name)
        if existing is not None and not job.suspended and not (existing.get("spec") or {}).get("suspend"):
            return
        marked = {pods.name for pods in gangs.members(info)} if info.pod_labels or info.pod_annotations else set()
        jobs = [_job(info, job, at, marked=pods.name in marked) for at, pods in enumerate(info.pod_sets)]
        spec = {**info.template, "replicatedJobs": jobs, "suspend": job.spec.get("suspend")}
        if spec["suspend"] is None:
            del spec["suspend"]
        document = job.child(KIND.api_version, KIND.kind, job.name, spec=spec)
        for member in ("labels", "annotations"):
            if found := getattr(info, member):
                document["metadata"][member] = found
        yield document


def _counted(replicated: Document, count: int | None) -> Document:
    if count is None:
        return replicated
    template = replicated.get("template") or {}
    spec = {**(template.get("spec") or {}), "parallelism": count, "completions": count}
    return {**replicated, "template": {**template, "spec": spec}}


def _job(info: Info, job: TrainJob, at: int, *, marked: bool) -> Document:
    """One replicated job: the template with what plugins shaped, then the TrainJob's own words, which win."""
    replicated, pods = info.jobs[at], info.pod_sets[at]
    spec = dict(pod_spec_of(replicated))
    if pods.volumes:
        spec["volumes"] = pods.volumes
    spec["containers"] = _overlaid(spec.get("containers") or [], pods.containers)
    if pods.init_containers:
        spec["initContainers"] = _overlaid(spec.get("initContainers") or [], pods.init_containers)
    if pods.ancestor in (DATASET, MODEL):
        _initialize(spec, pods.ancestor, job)
    if pods.ancestor == TRAINER or _is_mpi_worker(info, pods):
        _train(spec, info, job, pods)
    if pods.ancestor in (TRAINER, DATASET, MODEL):
        replicated = {**replicated, "replicas": 1}
    built = with_pod_spec(replicated, spec)
    return _marked(built, info) if marked else built


def _overlaid(template: Documents, shaped: list[Container]) -> Documents:
    known = [_container(document, container) for document, container in zip(template, shaped)]
    return known + [_container({"name": container.name}, container) for container in shaped[len(template) :]]


def _container(document: Document, shaped: Container) -> Document:
    found = dict(document)
    if shaped.image:
        found["image"] = shaped.image
    if shaped.command:
        found["command"] = shaped.command
    for member, take_in, new in (
        ("env", upsert.env, shaped.env), ("ports", upsert.ports, shaped.ports),
        ("volumeMounts", upsert.mounts, shaped.mounts),
    ):  # fmt: skip
        if new:
            found[member] = list(found.get(member) or [])
            take_in(found[member], new)
    return found


def _initialize(spec: Document, step: str, job: TrainJob) -> None:
    """What the TrainJob says about fetching its data set or model."""
    wanted = (job.spec.get("initializer") or {}).get(step.removesuffix("-initializer"))
    index = _index(spec, step)
    if wanted is None or index is None:
        return
    container = dict(spec["containers"][index])
    env = list(container.get("env") or [])
    if (uri := wanted.get("storageUri")) is not None:
        upsert.env(env, [{"name": "STORAGE_URI", "value": uri}])
    upsert.env(env, job.converted(wanted.get("env") or []))
    if env:
        container["env"] = env
    if (secret := wanted.get("secretRef")) is not None:
        source = {"secretRef": {"name": secret.get("name") or ""}}
        container["envFrom"] = [*(container.get("envFrom") or []), source]
    spec["containers"][index] = container


def _train(spec: Document, info: Info, job: TrainJob, pods: PodSet) -> None:
    """What the TrainJob says about its program: image, command, arguments, and variables over everyone's."""
    index = _index(spec, pods.main)
    if index is None:
        return
    container = dict(spec["containers"][index])
    works_for_launcher = _is_mpi_worker(info, pods) and info.pod_set(LAUNCHER) is not None
    if (image := job.trainer.get("image")) is not None and (not works_for_launcher or _shares_image(info, pods)):
        container["image"] = image
    # A worker runs sshd, and the launcher's program would end it (defect 19).
    if pods.ancestor == TRAINER and not works_for_launcher:
        for member, value in (("command", info.command), ("args", info.args)):
            if value is not None:
                container[member] = value
    if job.env and (pods.ancestor == TRAINER or runs_launcher_as_node(info.ml_policy)):
        env = list(container.get("env") or [])
        upsert.env(env, job.env)
        container["env"] = env
    spec["containers"][index] = container


def _is_mpi_worker(info: Info, pods: PodSet) -> bool:
    return info.ml_policy.get("mpi") is not None and pods.name == NODE


def _shares_image(info: Info, workers: PodSet) -> bool:
    """A runtime that gives workers an image of their own means it; where both have one, they change together."""
    specs = {job["name"]: pod_spec_of(job) for job in info.jobs if job["name"] in (LAUNCHER, workers.name)}
    containers = [container for spec in specs.values() for container in spec.get("containers") or []]
    return len({container.get("image") for container in containers if container["name"] == workers.main}) == 1


def _index(spec: Document, name: str) -> int | None:
    names = [container["name"] for container in spec.get("containers") or []]
    return names.index(name) if name in names else None


def _marked(replicated: Document, info: Info) -> Document:
    """The pods of the gang carry its name."""
    template = replicated["template"]
    pod = template["spec"]["template"]
    metadata = dict(pod.get("metadata") or {})
    for member, values in (("labels", info.pod_labels), ("annotations", info.pod_annotations)):
        if values:
            metadata[member] = {**(metadata.get(member) or {}), **values}
    spec = {**template["spec"], "template": {**pod, "metadata": metadata}}
    return {**replicated, "template": {**template, "spec": spec}}
