"""Defaults and validation: what may come in as a TrainJob or a runtime, and why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key, replace
from allaboard.api.errors import Cause, Forbidden
from allaboard.api.labels import TRAIN_JOB_ANCESTOR
from allaboard.api.meta import labels_of, name_of
from allaboard.kube.admission import ALLOWED, Request, Verdict, View
from allaboard.training import checks, names, patch_rules, runtime
from allaboard.training.facts import Case
from allaboard.training.framework import OURS, Framework
from allaboard.training.info import DATASET, MODEL, NODE, TRAINER
from allaboard.training.job import TrainJob
from allaboard.training.patches import UnmergeablePatch
from allaboard.training.problems import invalid, told

SUPPORT, DEPRECATED = "trainer.kubeflow.org/support", "deprecated"
UNCHECKED = ("trainer.kubeflow.org/webhook-validation", "disabled")
# Which runtimes a real API server asks about.
CHECKED: Document = {"matchExpressions": [{"key": UNCHECKED[0], "operator": "NotIn", "values": [UNCHECKED[1]]}]}
POLICY_PAGE = "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"
PLAIN = "Plain"  # a refusal that is about no field
REQUIRED_CONTAINER = {TRAINER: NODE, DATASET: DATASET, MODEL: MODEL}
WRITES = ("CREATE", "UPDATE")


def stamped(new: Document, old: Document | None, now: str) -> Document:
    """The TrainJob with a time on every patch: when its content was first seen as it is."""
    patches: Documents = TrainJob(new).patches
    if not patches:
        return new
    before = {patch.get("manager"): patch for patch in TrainJob(old).patches} if old else {}
    return replace(new, "spec", "runtimePatches", value=[_stamped(patch, before, now) for patch in patches])


def _stamped(patch: Document, before: dict[str | None, Document], now: str) -> Document:
    old = before.get(patch.get("manager"))
    if old is None:
        return patch if patch.get("time") else {**patch, "time": now}
    if _content(old) != _content(patch):
        return {**patch, "time": now}
    return {**_content(patch), "time": old["time"]} if old.get("time") else _content(patch)


def _content(patch: Document) -> Document:
    return {name: value for name, value in patch.items() if name != "time"}


def _has_patches(document: Document) -> bool:
    """Whether there is something to stamp; what is misshapen is the schema's to refuse, which speaks after us."""
    spec = document.get("spec")
    found = spec.get("runtimePatches") if isinstance(spec, dict) else None
    return isinstance(found, list) and bool(found) and all(isinstance(patch, dict) for patch in found)


class StampPatches:
    """The defaulter: all other defaults stand in the schema."""

    name = "defaulter.trainjob.trainer.kubeflow.org"
    kinds = (kinds.TRAIN_JOB,)
    operations = WRITES
    subresources = ("",)

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now

    def mutate(self, request: Request, view: View) -> Document | None:
        if request.new is None or not _has_patches(request.new):
            return None
        return stamped(request.new, request.old, self.now().strftime("%Y-%m-%dT%H:%M:%SZ"))


class CheckTrainJob:
    """The validator of TrainJobs: everything that is wrong, at once."""

    name = "validator.trainjob.trainer.kubeflow.org"
    kinds = (kinds.TRAIN_JOB,)
    operations = WRITES
    subresources = ("",)

    def __init__(self, framework: Framework = OURS) -> None:
        self.framework = framework

    def validate(self, request: Request, view: View) -> Verdict:
        if request.new is None:
            return ALLOWED
        job, old = TrainJob(request.new), TrainJob(request.old) if request.old else None
        causes, warnings = trainjob_problems(job, old, view, self.framework)
        return Verdict(_refusal(causes), tuple(warnings))


class CheckRuntime:
    """The validator of one kind of runtime; one that opted out by label is not asked."""

    operations = WRITES
    subresources = ("",)
    selector = CHECKED

    def __init__(self, kind: kinds.Kind) -> None:
        self.name = f"validator.{kind.singular}.trainer.kubeflow.org"
        self.kinds = (kind,)

    def validate(self, request: Request, view: View) -> Verdict:
        new = request.new
        if new is None or labels_of(new).get(UNCHECKED[0]) == UNCHECKED[1]:
            return ALLOWED
        return Verdict(_refusal(list(runtime_problems(new))), tuple(runtime_warnings(new, request.old)))


def hooks(now: Callable[[], datetime], framework: Framework = OURS) -> tuple[object, ...]:
    """Everything this room says before a document is stored."""
    runtimes = (CheckRuntime(kinds.TRAINING_RUNTIME), CheckRuntime(kinds.CLUSTER_TRAINING_RUNTIME))
    return StampPatches(now), CheckTrainJob(framework), *runtimes


def _refusal(causes: list[Cause]) -> Forbidden | None:
    return Forbidden(told(causes), causes=[cause for cause in causes if cause.field]) if causes else None


def trainjob_problems(
    job: TrainJob, old: TrainJob | None, view: View, framework: Framework = OURS
) -> tuple[list[Cause], list[str]]:
    """Why a TrainJob may not come in (or change like this), and what its author should know."""
    if not job.runtime.is_supported:
        return [Cause(PLAIN, "", f"unsupported runtime: {job.runtime if job.runtime.name else ''}")], []
    found, frozen = _runtime(job, old, view)
    if found is None and old is None:
        return [_missing_runtime(job, view)], []
    warnings = [] if frozen else list(_reference_warnings(job, found))
    # A runtime that went away takes nothing from a job it was frozen for (defect 5).
    return list(_problems(job, old, found or {}, view, framework)), warnings


def _problems(
    job: TrainJob, old: TrainJob | None, found: Document, view: View, framework: Framework
) -> Iterator[Cause]:
    try:
        info = runtime.info(found, job)
    except UnmergeablePatch as error:
        # The rest is judged as if there were no patches, so that everything wrong is said at once.
        yield invalid(patch_rules.FIELD, [patch.get("manager") for patch in job.patches], str(error))
        info = runtime.info(found, job.without_patches())
    case = Case(job, old, found, info, view.get)
    yield from checks.change_problems(case)
    yield from checks.size_problems(case)
    job_set = view.get(kinds.JOB_SET, job.key) if old else None
    yield from patch_rules.change_problems(case, job_set)
    if not found:
        return
    yield from names.problems(case) if old is None else ()
    yield from checks.initializer_problems(case)
    yield from patch_rules.problems(case)
    yield from framework.problems(case)


def _runtime(job: TrainJob, old: TrainJob | None, view: View) -> tuple[Document | None, bool]:
    """What the job is judged by: its frozen runtime once there is one, the live one before; and which it was."""
    if old is not None and (snapshot := view.get(kinds.CONFIG_MAP, Key(job.namespace, job.snapshot_name))):
        try:
            return runtime.thaw(job, snapshot), True
        except runtime.BadSnapshot:
            # A damaged snapshot is the controller's to report; it must not lock the TrainJob.
            return None, True
    return view.get(*_place(job)), False


def _place(job: TrainJob) -> tuple[kinds.Kind, Key]:
    if job.runtime.kind == kinds.TRAINING_RUNTIME.kind:
        return kinds.TRAINING_RUNTIME, Key(job.namespace, job.runtime.name)
    return kinds.CLUSTER_TRAINING_RUNTIME, Key("", job.runtime.name)


def _missing_runtime(job: TrainJob, view: View) -> Cause:
    kind, key = _place(job)
    called = kind.kind[0].lower() + kind.kind[1:]
    words = f'{kind.resource} "{key.name}" not found: specified {called} must be created before the TrainJob is created'
    return invalid("spec.runtimeRef", job.runtime_ref, words + _remedy(job, kind, view))


def _remedy(job: TrainJob, kind: kinds.Kind, view: View) -> str:
    """The names that do exist; a runtime of the other kind is the likeliest slip (ruling 19)."""
    if kind is kinds.CLUSTER_TRAINING_RUNTIME:
        if view.get(kinds.TRAINING_RUNTIME, Key(job.namespace, job.runtime.name)):
            return f'; namespace "{job.namespace}" has a TrainingRuntime of that name: add `kind: TrainingRuntime`'
        where, others = "the cluster", view.list(kind)
    else:
        where, others = f'namespace "{job.namespace}"', view.list(kind, job.namespace)
    found = sorted(name_of(other) for other in others)
    return f"; {where} has: {', '.join(found)}" if found else f"; {where} has none"


def _reference_warnings(job: TrainJob, found: Document | None) -> Iterable[str]:
    if found is not None and labels_of(found).get(SUPPORT) == DEPRECATED:
        yield f'Referenced {job.runtime.kind} "{job.runtime.name}" {_deprecation()}'


def runtime_warnings(document: Document, old: Document | None) -> Iterable[str]:
    """A deprecated runtime says so; upstream says it of a cluster's runtime only once, when it is created."""
    is_said = old is not None and document["kind"] == kinds.CLUSTER_TRAINING_RUNTIME.kind
    if labels_of(document).get(SUPPORT) == DEPRECATED and not is_said:
        yield f'{document["kind"]} "{name_of(document)}" {_deprecation()}'


def _deprecation() -> str:
    return (
        "is deprecated and will be removed in a future release of Kubeflow Trainer. "
        f"See runtime deprecation policy: {POLICY_PAGE}"
    )


def runtime_problems(document: Document) -> Iterable[Cause]:
    """What a runtime must have, so that TrainJobs can use it."""
    spec = document.get("spec") or {}
    template: Document = (spec.get("template") or {}).get("spec") or {}
    for index, job in enumerate(template.get("replicatedJobs") or []):
        yield from replicated_job_problems(job, f"spec.template.spec.replicatedJobs[{index}]")
    gangs = sorted(spec.get("podGroupPolicy") or {})
    if len(gangs) > 1:
        # Two PodGroups would hold the same pods for two schedulers (defect 40).
        yield invalid("spec.podGroupPolicy", gangs, "only one of the policies can be configured")


def replicated_job_problems(job: Document, where: str) -> Iterable[Cause]:
    labels = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
    ancestor = labels.get(TRAIN_JOB_ANCESTOR)
    if ancestor not in REQUIRED_CONTAINER:
        return
    if job.get("replicas") not in (None, 1):
        yield invalid(f"{where}.replicas", job["replicas"], "always must be 1")
    containers = runtime.pod_spec_of(job).get("containers") or []
    if all(container["name"] != REQUIRED_CONTAINER[ancestor] for container in containers):
        present = [container["name"] for container in containers]
        words = f"must contain the required container for the ancestor: {ancestor}"
        field = f"{where}.template.spec.template.spec.containers"
        yield invalid(field, present, f'{words}; name one "{REQUIRED_CONTAINER[ancestor]}"')
