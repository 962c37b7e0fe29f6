"""A PyTorchJob becomes pods and services, and knows when it is done.

Upstream: training-operator 1.8; order and texts are its.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.meta import condition_of, is_leaving, labels_of, name_of, namespace_of, stamp
from allaboard.jobs.legacy import ledger as books
from allaboard.jobs.legacy import replicas, torchpods
from allaboard.jobs.legacy.ledger import Ledger
from allaboard.jobs.legacy.torchpods import CONTAINER, MASTER, WORKER, policy_of, replica_name, replicas_of, specs
from allaboard.jobs.members import restarts
from allaboard.kube.plan import NOTHING, Create, Event, Plan

MANAGER = "kubeflow.org/training-operator"
_EXHAUSTED = "Job {} has failed because it"


def decide(job: Document, pods: Sequence[Document], services: Sequence[Document], now: datetime) -> Plan:
    """One pass over a PyTorchJob."""
    ledger, name = Ledger(kinds.PYTORCH_JOB, job, now), name_of(job)
    if is_leaving(job) or ledger.policy.get("managedBy", MANAGER) != MANAGER:
        return NOTHING
    ledger.set(books.CREATED, "PyTorchJobCreated", f"PyTorchJob {name} is created.")
    if ledger.is_finished:
        ledger.settle()
        return _cleaned(ledger, pods, services) + ledger.expire() + ledger.saved()
    if ledger.is_suspended:
        return _asleep(ledger, pods, services)
    _awake(ledger)
    if words := _exhausted(ledger, pods):
        # Said before the pods go: they are the proof, and whoever dies in between must find one or the other.
        ledger.end(books.FAILED, "PyTorchJobFailed", f"{_EXHAUSTED.format(name)} {words}")
        return ledger.saved()
    ledger.started()
    plan = _pods(ledger, pods) + _services(job, services)
    _judge(ledger, pods)
    deadline = ledger.deadline()
    return plan + ledger.saved() + (Plan(again=deadline) if deadline and not ledger.is_finished else NOTHING)


def _cleaned(ledger: Ledger, pods: Sequence[Document], services: Sequence[Document]) -> Plan:
    """What a finished job leaves behind is its policy's to say; of one that ran out of tries or time, nothing."""
    policy, failed = ledger.policy.get("cleanPodPolicy", "None"), condition_of(ledger.job, books.FAILED) or {}
    if str(failed.get("message", "")).startswith(_EXHAUSTED.format(name_of(ledger.job))):
        policy = "All"
    return NOTHING if policy == "None" else _removed(ledger.job, pods, services, books.to_clean(policy, pods))


def _removed(job: Document, pods: Sequence[Document], services: Sequence[Document], going: Sequence[Document]) -> Plan:
    """Some pods go, and with them every service whose pod goes or has gone before."""
    leaving = books.by_name(going)
    staying = {name_of(pod) for pod in pods if name_of(pod) not in leaving}
    lonely = [service for service in services if name_of(service) not in staying]
    return books.removed(kinds.POD, going, job) + books.removed(kinds.SERVICE, lonely, job)


def _asleep(ledger: Ledger, pods: Sequence[Document], services: Sequence[Document]) -> Plan:
    words = f"PyTorchJob {name_of(ledger.job)} is suspended."
    rows = ledger.status.get("replicaStatuses") or {}
    if rows:
        ledger.status["replicaStatuses"] = {
            kind: {key: value for key, value in row.items() if key != "active"} for kind, row in rows.items()
        }
    if ledger.has(books.RUNNING):
        ledger.set(books.RUNNING, "PyTorchJobSuspended", words, true=False)
    if ledger.set(books.SUSPENDED, "PyTorchJobSuspended", words):
        ledger.say("PyTorchJobSuspended", words)
    return _removed(ledger.job, pods, services, pods) + ledger.saved()


def _awake(ledger: Ledger) -> None:
    """A job that slept starts anew, so that its deadline does too."""
    if ledger.has(books.SUSPENDED):
        words = f"PyTorchJob {name_of(ledger.job)} is resumed."
        ledger.set(books.SUSPENDED, "PyTorchJobResumed", words, true=False)
        ledger.status["startTime"] = stamp(ledger.now)
        ledger.say("PyTorchJobResumed", words)


def _exhausted(ledger: Ledger, pods: Sequence[Document]) -> str:
    """Patience is at its end: too many restarts, or too long."""
    if _is_past_limit(ledger, pods):
        return "has reached the specified backoff limit"
    return "was active longer than specified deadline" if ledger.is_overdue() else ""


def _is_past_limit(ledger: Ledger, pods: Sequence[Document]) -> bool:
    limit = ledger.policy.get("backoffLimit")
    if limit is None:
        return False
    job, rows = ledger.job, ledger.status.get("replicaStatuses") or {}
    failed = sum(books.phase_of(pod) == "Failed" for pod in pods)
    active = sum(books.phase_of(pod) not in ("Failed", "Succeeded") and not is_leaving(pod) for pod in pods)
    fresh = failed > sum(row.get("failed", 0) for row in rows.values())
    if limit == 0 and fresh and active != len(torchpods.wanted(job)):
        return True
    counted = [pod for pod in pods if policy_of(specs(job)[_kind_of(job, pod)]) != replicas.NEVER]
    spent = sum(restarts(pod) for pod in counted if books.phase_of(pod) == "Running")
    return spent > 0 if limit == 0 else spent >= limit


def _services(job: Document, services: Sequence[Document]) -> Plan:
    there = books.by_name(services)
    names = {replica_name(job, kind, index): (kind, index) for kind, index in torchpods.wanted(job)}
    made = [torchpods.service_of(job, *place) for name, place in names.items() if name not in there]
    surplus = [service for name, service in there.items() if name not in names]
    words = [f"Created service: {name_of(service)}" for service in made]
    return books.removed(kinds.SERVICE, surplus, job) + Plan(
        create=tuple(Create(kinds.SERVICE, service) for service in made),
        events=tuple(Event(job, "SuccessfulCreateService", word) for word in words),
    )


def _pods(ledger: Ledger, pods: Sequence[Document]) -> Plan:
    """Missing replicas are made, failed ones that may try again are removed, and surplus ones let go."""
    job, there = ledger.job, books.by_name(pods)
    names = {replica_name(job, kind, index): (kind, index) for kind, index in torchpods.wanted(job)}
    made = [torchpods.pod_of(job, *place) for name, place in names.items() if name not in there]
    surplus = [pod for name, pod in there.items() if name not in names]
    for name, code in replicas.exit_codes(pods, CONTAINER).items():
        ledger.say("ExitedWithCode", f"Pod: {namespace_of(job)}.{name} exited with code {code}")
    again = [pod for pod in pods if books.phase_of(pod) == "Failed" and _may_try_again(ledger, pod)]
    words = [f"Created pod: {name_of(pod)}" for pod in made]
    return books.removed(kinds.POD, [*surplus, *again], job) + Plan(
        create=tuple(Create(kinds.POD, pod) for pod in made),
        events=tuple(Event(job, "SuccessfulCreatePod", word) for word in words),
    )


def _kind_of(job: Document, pod: Document) -> str:
    mark = labels_of(pod).get(replicas.REPLICA_TYPE, "")
    return next((kind for kind in specs(job) if kind.lower() == mark), WORKER)


def _may_try_again(ledger: Ledger, pod: Document) -> bool:
    """Whether this failure is tried again; a program's own mistake, told by its exit code, ends the job at once."""
    job, kind = ledger.job, _kind_of(ledger.job, pod)
    spec = specs(job).get(kind)
    policy = policy_of(spec) if spec else replicas.NEVER
    if replicas.is_retryable(pod, policy, CONTAINER):
        words = f"job {name_of(job)} is restarting because {kind} replica(s) failed."
        ledger.say("PyTorchJobRestarting", words, warning=True)
        ledger.set(books.RESTARTING, "PyTorchJobRestarting", words)
        return True
    if policy == replicas.BY_EXIT_CODE:
        words = f'job "{name_of(job)}" is failing because "{kind}" replica(s) failed.'
        ledger.end(books.FAILED, "PyTorchJobFailed", words, warning=True)
    return False


def _judge(ledger: Ledger, pods: Sequence[Document]) -> None:
    """Counts, then the verdict: the master decides, or the workers do."""
    job = ledger.job
    groups = {kind: [pod for pod in pods if _kind_of(job, pod) == kind] for kind in specs(job)}
    rows = {kind: {**books.count(group), "selector": torchpods.selector(job, kind)} for kind, group in groups.items()}
    ledger.status["replicaStatuses"] = rows
    for kind, spec in specs(job).items():
        row, whole = rows[kind], replicas_of(spec)
        if not ledger.is_finished and (kind == MASTER or MASTER not in rows):
            _note(ledger, kind, done=_is_done(job, row, whole), runs=bool(row.get("active")))
        if ledger.is_finished:
            return
        if row.get("failed") and whole > row.get("succeeded", 0) + row.get("active", 0):
            _note_loss(ledger, kind, row["failed"], policy_of(spec))


def _is_done(job: Document, row: Document, whole: int) -> bool:
    """Every one has succeeded; of ranks that come and go one is enough."""
    done = row.get("succeeded", 0)
    alone = MASTER not in specs(job) and job["spec"].get("elasticPolicy") is not None
    return done == whole or (alone and done > 0)


def _note(ledger: Ledger, kind: str, *, done: bool, runs: bool) -> None:
    job, name = ledger.job, name_of(ledger.job)
    led = kind == MASTER
    who = f"PyTorchJob {name}" if led else f"PyTorchJob {namespace_of(job)}/{name}"
    if done:
        ledger.end(
            books.SUCCEEDED, "PyTorchJobSucceeded", f"{who} {'is successfully' if led else 'successfully'} completed."
        )
    elif runs:
        ledger.set(books.RUNNING, "PyTorchJobRunning", f"{who} is running.")


def _note_loss(ledger: Ledger, kind: str, failed: int, policy: str) -> None:
    who, lost = f"PyTorchJob {name_of(ledger.job)} is", f"because {failed} {kind} replica(s) failed."
    if policy == replicas.NEVER:
        ledger.end(books.FAILED, "PyTorchJobFailed", f"{who} failed {lost}")
    else:
        ledger.say("PyTorchJobRestarting", f"{who} restarting {lost}", warning=True)
        ledger.set(books.RESTARTING, "PyTorchJobRestarting", f"{who} restarting {lost}")
