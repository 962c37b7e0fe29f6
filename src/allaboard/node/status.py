"""What a pod's status says: phase, conditions and container statuses, from what is known about its containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from allaboard.api.documents import Document, dig
from allaboard.api.meta import condition_of, is_leaving, key_of, stamp, uid_of, with_condition
from allaboard.node.facts import WELL, Doom, Facts, Member, Patience, Role, Run, may_restart, succeeded

SCHEME = "process://"
NEVER = "1970-01-01T00:00:00Z"

# Upstream: kubelet's graceful node shutdown. Who replaces disrupted pods may know by the condition that it was not
# the pod's fault.
SHUTDOWN = Doom("Terminated", "Pod was terminated in response to imminent node shutdown.")


@dataclass(frozen=True, slots=True)
class Life:
    """One pod at one moment, and the questions its rules ask."""

    pod: Document
    facts: Facts
    members: list[Member]
    doom: Doom | None
    now: datetime
    patience: Patience

    def settled(self, member: Member) -> bool:
        """This container ended and will not run again."""
        run = self.facts.last(member.name)
        return run is not None and not run.alive and not self.comes_back(member, run)

    def comes_back(self, member: Member, run: Run) -> bool:
        return not is_leaving(self.pod) and self.doom is None and may_restart(member, run)

    def is_backing_off(self, member: Member, run: Run) -> bool:
        ended = run.ended
        return ended is not None and self.comes_back(member, run) and self.now < ended + self.patience.delay(run)

    def back_off_words(self, member: Member, run: Run) -> str:
        key, wait = key_of(self.pod), int(self.patience.delay(run).total_seconds())
        name = f"{key.name}_{key.namespace}({uid_of(self.pod)})"
        return f"back-off {wait}s restarting failed container={member.name} pod={name}"

    def lets_others_start(self, member: Member) -> bool:
        """An init container that ended well, or a sidecar that has started: the next may begin."""
        run = self.facts.last(member.name)
        if member.role is Role.INIT or run is None:
            return succeeded(run)
        began = run.started is not None and self.facts.health.get(member.name, WELL).started
        # A sidecar that started once and is being restarted does not hold up a pod whose main containers run.
        return began or any(self.facts.last(main.name) for main in self.mains)

    @property
    def mains(self) -> list[Member]:
        return [member for member in self.members if member.role is Role.MAIN]

    @property
    def init_failed(self) -> bool:
        inits = [member for member in self.members if member.role is Role.INIT]
        return any(self.settled(member) and not succeeded(self.facts.last(member.name)) for member in inits)

    @property
    def must_end(self) -> bool:
        """Nothing more may start, and what still runs must stop."""
        done = bool(self.mains) and all(self.settled(member) for member in self.mains)
        return done or self.init_failed or self.doom is not None or is_leaving(self.pod) or self.was_finished

    @property
    def was_finished(self) -> bool:
        return dig(self.pod, "status", "phase") in ("Succeeded", "Failed")

    @property
    def is_over(self) -> bool:
        return self.must_end and not any(self.facts.alive(member.name) for member in self.members)


def phase_of(life: Life) -> str:
    """Upstream: kubelet's phase; a terminal one is published only when every container has stopped."""
    if life.was_finished:
        return str(life.pod["status"]["phase"])
    if life.is_over:
        return _last_phase(life)
    initialised = all(life.lets_others_start(member) for member in life.members if member.role is not Role.MAIN)
    runs = [life.facts.last(member.name) for member in life.mains]
    begun = all(run is not None and (run.started or run.ended or run.attempt) for run in runs)
    return "Running" if initialised and begun else "Pending"


def _last_phase(life: Life) -> str:
    runs = [life.facts.last(member.name) for member in life.mains]
    if life.doom is None and runs and all(succeeded(run) for run in runs):
        return "Succeeded"
    never = not any(life.facts.runs.values())
    # A pod deleted before anything started has no outcome to report.
    return "Pending" if life.doom is None and never else "Failed"


def status_of(life: Life) -> Document:
    """The whole status as this node writes it; what others wrote (PodScheduled, foreign conditions) stays."""
    old: Document = life.pod.get("status") or {}
    phase = phase_of(life)
    status: Document = {"phase": phase, "conditions": _conditions(life, phase)}
    if life.doom and phase == "Failed":
        status |= {"reason": life.doom.reason, "message": life.doom.message}
    status |= {"startTime": old.get("startTime") or stamp(life.now)} | _addresses(life, old)
    if life.doom is None or any(life.facts.runs.values()):  # upstream: a pod that was turned away tells of no container
        status |= _container_statuses(life)
    generation = dig(life.pod, "metadata", "generation")
    return status | ({"observedGeneration": generation} if generation else {})


def _container_statuses(life: Life) -> Document:
    inits = [_container_status(life, member) for member in life.members if member.role is not Role.MAIN]
    mains = [_container_status(life, member) for member in life.mains]
    return {"containerStatuses": mains} | ({"initContainerStatuses": inits} if inits else {})


def _addresses(life: Life, old: Document) -> Document:
    address = life.facts.address or old.get("podIP", "")
    host = life.facts.host
    found: Document = {"hostIP": host, "hostIPs": [{"ip": host}]}
    return found | ({"podIP": address, "podIPs": [{"ip": address}]} if address else {})


def _conditions(life: Life, phase: str) -> list[Document]:
    conditions: list[Document] = dig(life.pod, "status", "conditions", default=[])
    for new in (_sandboxed(life, phase), _initialized(life, phase), *_readiness(life, phase)):
        conditions = with_condition(conditions, _swept(conditions, new), life.now)
    if life.doom == SHUTDOWN:
        conditions = with_condition(conditions, _disrupted(life), life.now)
    if condition_of(life.pod, "PodScheduled") is None:
        conditions = with_condition(conditions, {"type": "PodScheduled", "status": "True"}, life.now)
    return [{key: value for key, value in condition.items() if value != ""} for condition in conditions]


def _swept(conditions: Sequence[Document], new: Document) -> Document:
    """A reason or message of the past must not outlive the state it explained."""
    generation = {"observedGeneration": new["observedGeneration"]} if new.get("observedGeneration") else {}
    return {"reason": "", "message": ""} | new | generation


def _condition(life: Life, type_: str, *, holds: bool, reason: str = "", message: str = "") -> Document:
    found: Document = {"type": type_, "status": "True" if holds else "False"}
    if not holds:
        found |= {"reason": reason, "message": message}
    generation = dig(life.pod, "metadata", "generation")
    return found | ({"observedGeneration": generation} if generation else {})


def _disrupted(life: Life) -> Document:
    words = {"reason": "TerminationByKubelet", "message": SHUTDOWN.message}
    return _condition(life, "DisruptionTarget", holds=True) | words


def _sandboxed(life: Life, phase: str) -> Document:
    standing = bool(life.facts.address) and phase not in ("Succeeded", "Failed")
    return _condition(life, "PodReadyToStartContainers", holds=standing)


def _initialized(life: Life, phase: str) -> Document:
    left = [
        member.name for member in life.members if member.role is not Role.MAIN and not life.lets_others_start(member)
    ]
    if phase == "Succeeded":
        return _condition(life, "Initialized", holds=True) | {"reason": "PodCompleted"}
    words = _list("incomplete", left)
    return _condition(life, "Initialized", holds=not left, reason="ContainersNotInitialized", message=words)


def _readiness(life: Life, phase: str) -> tuple[Document, Document]:
    """ContainersReady and Ready; a terminal phase makes both False in the same write."""
    if phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        ready = _condition(life, "Ready", holds=False, reason=reason)
        return _condition(life, "ContainersReady", holds=False, reason=reason), ready
    lagging = [member.name for member in life.members if member.role is not Role.INIT and not is_ready(life, member)]
    words = _list("unready", lagging)
    lag = _condition(life, "ContainersReady", holds=not lagging, reason="ContainersNotReady", message=words)
    shut = [gate["conditionType"] for gate in dig(life.pod, "spec", "readinessGates", default=[]) if _shut(life, gate)]
    if not lagging and shut:
        words = f'the status of pod readiness gate "{shut[0]}" is not "True", but False'
        return lag, _condition(life, "Ready", holds=False, reason="ReadinessGatesNotReady", message=words)
    return lag, lag | {"type": "Ready"}


def _shut(life: Life, gate: Document) -> bool:
    condition = condition_of(life.pod, gate["conditionType"])
    return condition is None or condition.get("status") != "True"


def _list(state: str, names: Sequence[str]) -> str:
    """Upstream: `containers with unready status: [a b]`."""
    return f"containers with {state} status: [{' '.join(names)}]" if names else ""


def is_ready(life: Life, member: Member) -> bool:
    run = life.facts.last(member.name)
    if member.role is Role.INIT:
        return succeeded(run)
    running = run is not None and run.alive and run.started is not None
    health = life.facts.health.get(member.name, WELL)
    return running and health.ready and health.started


def _container_status(life: Life, member: Member) -> Document:
    runs = life.facts.runs.get(member.name, ())
    run = runs[-1] if runs else None
    running = run is not None and run.alive and run.started is not None
    state, last = _states(life, member, runs)
    status: Document = {
        "name": member.name,
        "image": member.spec.get("image", ""),
        "imageID": member.spec.get("image", ""),
        "ready": is_ready(life, member),
        "started": running and life.facts.health.get(member.name, WELL).started,
        "restartCount": run.attempt if run else 0,
        "state": state,
        "lastState": last,
    }
    return status | ({"containerID": SCHEME + run.id} if run else {})


def _states(life: Life, member: Member, runs: Sequence[Run]) -> tuple[Document, Document]:
    """The present state and the one before it."""
    run, before = (runs[-1] if runs else None), (runs[-2] if len(runs) > 1 else None)
    past = _terminated(before) if before else {}
    trouble = life.facts.troubles.get(member.name)
    if run is None or (run.alive and run.started is None):
        return _waiting(life, member), past
    if run.alive:
        return {"running": {"startedAt": stamp(run.started or run.created)}}, past
    if life.is_backing_off(member, run):
        words = life.back_off_words(member, run)
        return {"waiting": {"reason": "CrashLoopBackOff", "message": words}}, _terminated(run)
    if trouble and life.comes_back(member, run):
        return {"waiting": {"reason": trouble.reason, "message": trouble.message}}, _terminated(run)
    return _terminated(run), past


def _waiting(life: Life, member: Member) -> Document:
    trouble = life.facts.troubles.get(member.name)
    if trouble and trouble.message:
        return {"waiting": {"reason": trouble.reason, "message": trouble.message}}
    initialised = all(life.lets_others_start(other) for other in life.members if other.role is not Role.MAIN)
    held = any(other.role is not Role.MAIN for other in life.members) and not initialised
    return {"waiting": {"reason": "PodInitializing" if held else "ContainerCreating"}}


def waits_for(pod: Document, container: str) -> str:
    """Why a container did not start yet, as its pod's status says."""
    status = pod.get("status") or {}
    for found in [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]:
        if found["name"] == container:
            return str(dig(found, "state", "waiting", "reason", default="ContainerCreating"))
    return "ContainerCreating"


def _terminated(run: Run) -> Document:
    reason = run.reason or ("Completed" if run.code == 0 else "Error")
    found: Document = {"exitCode": run.code, "reason": reason, "containerID": SCHEME + run.id}
    # Upstream: a runtime says 0 of what never started.
    began = stamp(run.started) if run.started else None if reason == "ContainerStatusUnknown" else NEVER
    found |= {"startedAt": began, "finishedAt": stamp(run.ended or run.created)}
    return {"terminated": found | ({"message": run.message} if run.message else {})}
