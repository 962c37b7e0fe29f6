"""How a pod is shown: the columns kubectl prints, and the warnings its author gets."""

from __future__ import annotations

from datetime import datetime

from allaboard.api.documents import Document, Documents, dig
from allaboard.cluster import ages
from allaboard.cluster.kinds import shown
from allaboard.cluster.kinds.shown import column

COLUMNS = (
    shown.NAME,
    column("Ready", "How many of the pod's containers are ready, out of how many there are in it."),
    column("Status", "The aggregate status of the containers in this pod."),
    column("Restarts", "How often containers of this pod were restarted, and how long ago the last restart was."),
    shown.AGE,
    column("IP", "The address of the pod, which every other pod of the cluster can reach it at.", wide=True),
    column("Node", "The node this pod was assigned to; empty while the scheduler has not chosen one.", wide=True),
    column("Nominated Node", "The node on which room is being made for this pod by preempting others.", wide=True),
    column("Readiness Gates", "Further conditions that must hold before this pod counts as being ready.", wide=True),
)


def row(pod: Document, now: datetime) -> list[object]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    initializing, word = _initializing(spec, status)
    counted = _statuses(spec, status)
    ready = sum(1 for one in counted if one.get("ready") and dig(one, "state", "running") is not None)
    if not initializing:
        word = _word(word, status)
    return [
        shown.name_of(pod),
        f"{ready}/{len(spec.get('containers') or ()) + len(_sidecars(spec))}",
        _deleted(pod, word),
        _restarts(spec, status, now, initializing=initializing),
        shown.age_of(pod, now),
        dig(status, "podIPs", 0, "ip", default=status.get("podIP")) or shown.NONE,
        spec.get("nodeName") or shown.NONE,
        status.get("nominatedNodeName") or shown.NONE,
        _gates(spec, status),
    ]


def _sidecars(spec: Document) -> dict[str, Document]:
    return {c["name"]: c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}


def _statuses(spec: Document, status: Document) -> Documents:
    """The containers that count for readiness: the regular ones and the sidecars."""
    sidecars = _sidecars(spec)
    helpers = [one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars]
    return [*helpers, *(status.get("containerStatuses") or ())]


def _initializing(spec: Document, status: Document) -> tuple[bool, str]:
    """Whether the pod is still being set up, and the word for it."""
    word = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    sidecars, total = _sidecars(spec), len(spec.get("initContainers") or ())
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        if dig(one, "state", "terminated", "exitCode") == 0 and dig(one, "state", "terminated") is not None:
            continue
        if one.get("name") in sidecars and one.get("started"):
            continue
        return True, _init_word(one, index, total)
    return False, word


def _init_word(one: Document, index: int, total: int) -> str:
    ended, waiting = dig(one, "state", "terminated"), dig(one, "state", "waiting")
    if ended is not None:
        return f"Init:{ended.get('reason') or _ending(ended)}"
    if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
        return f"Init:{waiting['reason']}"
    return f"Init:{index}/{total}"


def _ending(ended: Document) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _word(word: str, status: Document) -> str:
    """The last container with something to say speaks for the pod."""
    running = False
    for one in reversed(status.get("containerStatuses") or ()):
        waiting, ended = dig(one, "state", "waiting"), dig(one, "state", "terminated")
        if waiting is not None and waiting.get("reason"):
            word = waiting["reason"]
        elif ended is not None:
            word = ended.get("reason") or _ending(ended)
        elif one.get("ready") and dig(one, "state", "running") is not None:
            running = True
    if word == "Completed" and running:
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
        return "Running" if ready else "NotReady"
    return word


def _deleted(pod: Document, word: str) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return word
    if dig(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    return word if dig(pod, "status", "phase") in ("Succeeded", "Failed") else "Terminating"


def _restarts(spec: Document, status: Document, now: datetime, *, initializing: bool) -> str:
    counted = list(status.get("initContainerStatuses") or ()) if initializing else _statuses(spec, status)
    count = sum(one.get("restartCount") or 0 for one in counted)
    ends = [ages.instant(dig(one, "lastState", "terminated", "finishedAt")) for one in counted]
    last = max((end for end in ends if end is not None), default=None)
    return f"{count} ({ages.span((now - last).total_seconds())} ago)" if count and last else str(count)


def _gates(spec: Document, status: Document) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return shown.NONE
    true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    return f"{sum(1 for gate in gates if gate.get('conditionType') in true)}/{len(gates)}"
