"""Resolve, freeze and patch the runtime: from a runtime object and a TrainJob to `Info`."""

from __future__ import annotations

import sys

import msgspec
import yaml

from allaboard.api.documents import Document, Documents, dig
from allaboard.api.errors import AboardError
from allaboard.api.labels import TRAIN_JOB_ANCESTOR
from allaboard.api.meta import is_controlled_by, name_of
from allaboard.api.twins import made_once
from allaboard.training import patches, resources
from allaboard.training.info import NODE, TRAINER, Container, Info, PodSet
from allaboard.training.job import TrainJob

SNAPSHOT_KEY = "runtime"


class BadSnapshot(AboardError):
    """The frozen copy of the runtime is not this job's, or cannot be read."""


def snapshot(job: TrainJob, runtime: Document) -> Document:
    """The ConfigMap that freezes the runtime for this job; JSON is YAML, and quicker to read back."""
    return job.child("v1", "ConfigMap", job.snapshot_name, data={SNAPSHOT_KEY: _frozen(runtime)})


@made_once
def _frozen(runtime: Document) -> str:
    # Every job of a runtime holds the same text: it is held once.
    return sys.intern(msgspec.json.format(msgspec.json.encode(runtime, order="sorted"), indent=2).decode())


def thaw(job: TrainJob, config_map: Document) -> Document:
    """The runtime in a snapshot, once it is certain that it is this job's."""
    # Upstream has these two openings, and people search for them.
    opening = "unable to get" if job.runtime.kind == "TrainingRuntime" else "getting"
    where = f"{opening} runtime snapshot: invalid runtime snapshot"
    if not is_controlled_by(config_map, job.document):
        raise BadSnapshot(f"{where}: a snapshot configmap exists but is owned by another object")
    where = f'{where}: configmap "{name_of(config_map)}"'
    text = (config_map.get("data") or {}).get(SNAPSHOT_KEY)
    if text is None:
        raise BadSnapshot(f'{where}: has no key "{SNAPSHOT_KEY}"; delete it, and it is written anew')
    runtime = _parsed(text, where)
    group = str(runtime.get("apiVersion", "")).rpartition("/")[0]
    wanted = job.runtime
    if (group, runtime.get("kind"), name_of(runtime)) != (wanted.group, wanted.kind, wanted.name):
        held = f'{runtime.get("kind")}.{group} "{name_of(runtime)}"'
        raise BadSnapshot(f'{where}: holds {held} but the TrainJob names {wanted} "{wanted.name}"; delete it')
    return runtime


def _parsed(text: str, where: str) -> Document:
    try:
        found = msgspec.json.decode(text) if text.startswith("{") else yaml.load(text, _Loader)
    except (msgspec.DecodeError, yaml.YAMLError) as error:
        raise BadSnapshot(f"{where}: is no YAML ({error}); delete it, and it is written anew") from error
    if not isinstance(found, dict):
        raise BadSnapshot(f"{where}: holds no object; delete it, and it is written anew")
    return found


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def info(runtime: Document, job: TrainJob) -> Info:
    """A runtime's template with the TrainJob's patches, read into what plugins shape."""
    spec = runtime.get("spec") or {}
    template, policy = spec.get("template") or {}, spec.get("mlPolicy") or {}
    metadata = template.get("metadata") or {}
    merged = patches.merge(template.get("spec") or {}, job.patches)
    jobs, main = _adopt(merged.get("replicatedJobs") or [], policy)
    jobs = [_with_resources(replicated, main, policy, job) for replicated in jobs]
    gang = spec.get("podGroupPolicy") or {}
    return Info(
        labels=patches.metadata(metadata, job.patches, "labels"),
        annotations=patches.metadata(metadata, job.patches, "annotations"),
        ml_policy=policy,
        gang_policy=gang,
        template={**merged, "replicatedJobs": jobs},
        pod_sets=[_pod_set(replicated, main, policy, gang) for replicated in jobs],
        command=job.trainer.get("command"),
        args=job.trainer.get("args"),
    )


def ancestor_of(replicated: Document) -> str | None:
    labels: Document = dig(replicated, "template", "metadata", "labels", default={})
    return labels.get(TRAIN_JOB_ANCESTOR)


def pod_spec_of(replicated: Document) -> Document:
    found: Document = dig(replicated, "template", "spec", "template", "spec", default={})
    return found


def with_pod_spec(replicated: Document, spec: Document) -> Document:
    """A copy of the replicated job with another pod spec."""
    template = replicated.get("template") or {}
    job_spec = template.get("spec") or {}
    pod = {**(job_spec.get("template") or {}), "spec": spec}
    return {**replicated, "template": {**template, "spec": {**job_spec, "template": pod}}}


def _adopt(jobs: Documents, policy: Document) -> tuple[Documents, str]:
    """The replicated jobs and what their main container is called.

    A job that stands alone without a label is the trainer, and its only container is the main one (ruling 19). In an
    MPI runtime a lone `node` is a worker whose launcher is missing, which admission has a word for.
    """
    if len(jobs) != 1 or ancestor_of(jobs[0]) or (policy.get("mpi") is not None and jobs[0]["name"] == NODE):
        return jobs, NODE
    template = jobs[0].get("template") or {}
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), TRAIN_JOB_ANCESTOR: TRAINER}
    containers = pod_spec_of(jobs[0]).get("containers") or []
    main = containers[0]["name"] if len(containers) == 1 else NODE
    return [{**jobs[0], "template": {**template, "metadata": {**metadata, "labels": labels}}}], main


def _with_resources(replicated: Document, main: str, policy: Document, job: TrainJob) -> Document:
    """The TrainJob's resources, laid over those of the container that trains."""
    wanted = job.trainer.get("resourcesPerNode")
    if wanted is None or not _takes_resources(replicated, policy):
        return replicated
    spec = pod_spec_of(replicated)
    containers = list(spec.get("containers") or [])
    for index, container in enumerate(containers):
        if container["name"] == main:
            merged = resources.merge(container.get("resources") or {}, wanted)
            containers[index] = {**container, "resources": merged}
            return with_pod_spec(replicated, {**spec, "containers": containers})
    return replicated


def _takes_resources(replicated: Document, policy: Document) -> bool:
    is_mpi_node = replicated["name"] == NODE and runs_launcher_as_node(policy)
    return is_mpi_node or ancestor_of(replicated) == TRAINER


def runs_launcher_as_node(policy: Document) -> bool:
    return bool((policy.get("mpi") or {}).get("runLauncherAsNode"))


def _pod_set(replicated: Document, main: str, policy: Document, gang: Document) -> PodSet:
    spec, ancestor = pod_spec_of(replicated), ancestor_of(replicated)
    return PodSet(
        name=replicated["name"],
        ancestor=ancestor,
        count=_count(replicated, policy, ancestor),
        volumes=list(spec.get("volumes") or []),
        init_containers=[_container(container) for container in spec.get("initContainers") or []],
        containers=[_container(container) for container in spec.get("containers") or []],
        replicas=1 if replicated.get("replicas") is None else replicated["replicas"],
        main=main,
        requests=resources.resource_texts(resources.reserved(spec)) if gang else {},
    )


def _count(replicated: Document, policy: Document, ancestor: str | None) -> int:
    """Pods of a job before the TrainJob speaks: the policy's nodes for the trainer, its own parallelism otherwise."""
    if ancestor == TRAINER and policy:
        # An MPI launcher is one program, however many nodes it starts processes on (defect 24).
        nodes = 1 if policy.get("mpi") is not None and replicated["name"] != NODE else policy.get("numNodes")
    else:
        nodes = dig(replicated, "template", "spec", "parallelism")
    return max(1, 1 if nodes is None else nodes)


def _container(document: Document) -> Container:
    return Container(
        name=document["name"],
        image=document.get("image") or "",
        command=list(document.get("command") or []),
        env=list(document.get("env") or []),
        ports=list(document.get("ports") or []),
        mounts=list(document.get("volumeMounts") or []),
    )


def node_resources(info: Info) -> Document:
    """What a training container asks for, the TrainJob's wishes included (ruling 2).

    The first job named `node` or labelled trainer decides, even where it asks for nothing.
    """
    for pods, replicated in zip(info.pod_sets, info.jobs):
        if pods.name != NODE and pods.ancestor != TRAINER:
            continue
        for container in pod_spec_of(replicated).get("containers") or []:
            if container["name"] == pods.main:
                found: Document = container.get("resources") or {}
                return found
    return {}
