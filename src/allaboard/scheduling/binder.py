"""BindRequests become bound pods, a gang at a time: all of them, or none for longer than one pass.

A pass looks at every request of a gang. If each can be carried out, all are. If one cannot, or a pass of ours left
the gang half bound, the whole gang is taken back: its requests fail (the scheduler then decides anew) and the pods
that did get a node are deleted, since a pod cannot be unbound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct

from allaboard.api import labels
from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import BIND_REQUEST, CLAIM, NODE, POD, POD_GROUP, Kind
from allaboard.api.meta import annotations_of, is_leaving, key_of, labels_of, name_of, namespace_of, owners_of, uid_of
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, nobody
from allaboard.kube.plan import NOTHING, Bind, Delete, Event, Patch, Plan
from allaboard.scheduling import metrics, readings
from allaboard.scheduling.facts import DEFAULT_POD_SET, SubGroup
from allaboard.scheduling.groups import defect
from allaboard.scheduling.storage import claim_names, is_bound

FRACTION = "Fraction"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# Upstream: the binder's volume-binding-timeout.
VOLUME_PATIENCE, VOLUME_LOOK = timedelta(seconds=120), timedelta(milliseconds=500)


class Fate(Enum):
    """What can become of one request."""

    DONE = "the pod is on its node"
    READY = "the pod can be bound"
    BROKEN = "the pod can no longer be bound"


class Case(Struct, frozen=True):
    """One request with its pod as it is now."""

    request: Document
    pod: Document | None
    fate: Fate
    why: str = ""


def gang_key(request: Document) -> Key:
    """Requests of one gang share a key, so that one pass sees them all."""
    key = key_of(request)
    gang = annotations_of(request).get(labels.POD_GROUP)
    return Key(key.namespace, gang) if gang else key


def judge(request: Document, pod: Document | None, node: Document | None) -> Case:
    """Whether this request was, can be or can no longer be carried out."""
    spec = request["spec"]
    wanted, named = spec["selectedNode"], spec["podName"]
    if pod is None or not _is_meant(request, pod) or is_leaving(pod):
        return Case(request, None, Fate.BROKEN, f'pod "{named}" is gone')
    placed = pod["spec"].get("nodeName")
    if placed:
        done = placed == wanted
        return Case(request, pod, Fate.DONE if done else Fate.BROKEN, f'pod "{named}" is on node "{placed}" already')
    if node is None:
        return Case(request, pod, Fate.BROKEN, f'node "{wanted}" is gone')
    if dig(request, "status", "phase") == "Failed":
        return Case(request, pod, Fate.BROKEN, dig(request, "status", "reason", default="binding failed"))
    return Case(request, pod, Fate.READY)


def _is_meant(request: Document, pod: Document) -> bool:
    """The request is about this very pod, not about a namesake that came later."""
    uids = [owner.get("uid") for owner in owners_of(request)]
    return not uids or uid_of(pod) in uids


def decide(cases: Sequence[Case], *, tried: bool, enough: bool) -> Plan:
    """Bind them all, or take all back.

    `tried` says that our last pass over this gang did not get through; `enough` that the gang has its minimum
    without the requests that cannot be carried out, so that losing those breaks nothing.
    """
    broken = [case for case in cases if case.fate is Fate.BROKEN]
    done = [case for case in cases if case.fate is Fate.DONE]
    ready = [case for case in cases if case.fate is Fate.READY]
    half_bound = tried and bool(done) and bool(ready)
    if not broken and not half_bound:
        return _bind(ready, done)
    if enough and not half_bound:
        return _bind(ready, done) + _fail(broken, broken[0].why)
    why = broken[0].why if broken else f'pod "{ready[0].request["spec"]["podName"]}" could not be bound'
    return _take_back(done) + _fail([*broken, *ready, *done], f"the gang was taken back: {why}")


def _bind(ready: Sequence[Case], done: Sequence[Case]) -> Plan:
    patches, binds, events = [], [], []
    for request, pod in ((case.request, case.pod) for case in ready if case.pod is not None):
        key, spec = key_of(pod), request["spec"]
        node, groups = spec["selectedNode"], spec.get("selectedGPUGroups")
        if groups and spec.get("receivedResourceType") == FRACTION:
            patches.append(_share(key, groups))
        binds.append(Bind(key, uid_of(pod), node))
        words = f"Successfully assigned {key} to {node}"
        events.append(Event(_typed(pod), "Scheduled", words, action="Binding", instant=True))
    removals = [Delete(BIND_REQUEST, key_of(case.request), uid=uid_of(case.request)) for case in (*ready, *done)]
    return Plan(patch=tuple(patches), bind=tuple(binds), delete=tuple(removals), events=tuple(events))


def _share(pod: Key, groups: Sequence[str]) -> Patch:
    """A pod that shares GPUs learns of which groups; the node finds the devices by them."""
    worn = {labels.GPU_GROUP: groups[0]} if len(groups) == 1 else {f"{labels.GPU_GROUP}/{g}": g for g in groups}
    return Patch(POD, pod, {"metadata": {"labels": worn, "annotations": {labels.RECEIVED_TYPE: FRACTION}}})


def _typed(pod: Document) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def _take_back(done: Sequence[Case]) -> Plan:
    """The pods of a gang that will not be whole: told why, then deleted."""
    pods = [case.pod for case in done if case.pod is not None]
    words = "the gang could not be bound whole; the pod makes room for another try"
    return Plan(
        delete=tuple(Delete(POD, key_of(pod), uid=uid_of(pod)) for pod in pods),
        events=tuple(Event(_typed(pod), "GangTakenBack", words, "Warning", "Binding") for pod in pods),
    )


def _fail(cases: Sequence[Case], why: str) -> Plan:
    patches = []
    for case in cases:
        if dig(case.request, "status", "phase") != "Failed":
            attempts = dig(case.request, "status", "failedAttempts", default=0) + 1
            status = {"phase": "Failed", "reason": why, "failedAttempts": attempts}
            patches.append(Patch(BIND_REQUEST, key_of(case.request), {"status": status}, subresource="status"))
    return Plan(patch=tuple(patches))


def has_minimum(tree: SubGroup, counts: Mapping[str, int]) -> bool:
    """Whether a gang with so many pods per role is whole enough to run."""
    parts = [counts.get(leaf.name, 0) >= leaf.minimum for leaf in tree.pod_sets]
    parts += [has_minimum(branch, counts) for branch in tree.groups]
    return sum(parts) >= (len(parts) if tree.minimum is None else tree.minimum)


class Binder:
    """One pass per gang; the requests of a gang are remembered as they come."""

    name = "binder"
    manager = "default-scheduler"

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock
        read = (POD, NODE, POD_GROUP, CLAIM)
        self.watches = (Watch(BIND_REQUEST, lambda request: (gang_key(request),)), *(Watch(k, nobody) for k in read))
        self._requests: dict[Key, dict[str, Document]] = {}
        self._tried: set[Key] = set()
        self._since: dict[Key, datetime] = {}  # when a gang began to wait for its volumes

    def observe(self, _kind: Kind, old: Document | None, new: Document | None) -> bool:
        """Keep requests by gang; one that was removed asks for nothing."""
        document = new or old or {}
        gang = gang_key(document)
        requests = self._requests.setdefault(gang, {})
        if new is not None:
            requests[name_of(new)] = new
        else:
            requests.pop(name_of(document), None)
        if not requests:
            del self._requests[gang]
            self._tried.discard(gang)
            self._since.pop(gang, None)
        return new is not None

    async def reconcile(self, key: Key) -> Plan:
        cases = await self._cases([request for _, request in sorted(self._requests.get(key, {}).items())])
        if not cases or all(dig(case.request, "status", "phase") == "Failed" for case in cases):
            return NOTHING
        if (waiting := await self._volumes(key, cases)) is not None:
            return waiting
        troubled = any(case.fate is Fate.BROKEN for case in cases)
        plan = decide(cases, tried=key in self._tried, enough=troubled and await self._has_enough(key, cases))
        self._tried.add(key)
        now = self.clock.now().timestamp()
        for case in cases if plan.bind else ():
            metrics.BIND_LATENCY.observe(max(0.0, now - readings.created(case.request)) * 1000)
        return plan

    async def _cases(self, requests: Sequence[Document]) -> list[Case]:
        """The requests with their pods as they are now; several pods often go to one node."""
        named = {request["spec"]["selectedNode"] for request in requests}
        nodes = {name: await self.reader.get(NODE, Key("", name)) for name in named}
        cases = []
        for request in requests:
            spec = request["spec"]
            pod = await self.reader.get(POD, Key(namespace_of(request), spec["podName"]))
            cases.append(judge(request, pod, nodes[spec["selectedNode"]]))
        return cases

    async def _volumes(self, key: Key, cases: list[Case]) -> Plan | None:
        """Volumes made on demand come before the pods: the gang waits for them, but not for ever."""
        pending = []
        for index, case in enumerate(cases):
            for name in claim_names(case.pod) if case.pod is not None and case.fate is Fate.READY else ():
                claim = await self.reader.get(CLAIM, Key(key.namespace, name))
                if claim is not None and not is_bound(claim):
                    pending.append((index, claim))
        if not pending or any(case.fate is Fate.BROKEN for case in cases):
            self._since.pop(key, None)
            return None
        now = self.clock.now()
        if now - self._since.setdefault(key, now) >= VOLUME_PATIENCE:
            for index, claim in pending:
                why = f'persistentvolumeclaim "{name_of(claim)}" was not bound in time'
                cases[index] = Case(cases[index].request, cases[index].pod, Fate.BROKEN, why)
            return None
        patches = tuple(_choose(claim, cases[index].request) for index, claim in pending)
        return Plan(patch=tuple(patch for patch in patches if patch), again=now + VOLUME_LOOK)

    async def _has_enough(self, key: Key, cases: Sequence[Case]) -> bool:
        """Whether the gang is whole without what is broken: its pods on nodes and those about to be."""
        group = await self.reader.get(POD_GROUP, key)
        if group is None or defect(group):
            return False
        coming = {name_of(case.pod) for case in cases if case.pod is not None and case.fate is not Fate.BROKEN}
        roles: dict[str, int] = {}
        for pod in await self.reader.list(POD, Select(namespace=key.namespace)):
            if annotations_of(pod).get(labels.POD_GROUP) == key.name and _counts(pod, coming):
                role = labels_of(pod).get(labels.SUB_GROUP) if dig(group, "spec", "subGroups") else None
                roles[role or DEFAULT_POD_SET] = roles.get(role or DEFAULT_POD_SET, 0) + 1
        return has_minimum(readings.tree(group), roles)


def _choose(claim: Document, request: Document) -> Patch | None:
    """Tell whoever makes volumes on which node this one is wanted."""
    node = request["spec"]["selectedNode"]
    if annotations_of(claim).get(SELECTED_NODE) == node:
        return None
    return Patch(CLAIM, key_of(claim), {"metadata": {"annotations": {SELECTED_NODE: node}}})


def _counts(pod: Document, coming: set[str]) -> bool:
    alive = not is_leaving(pod) and dig(pod, "status", "phase") != "Failed"
    return alive and (bool(pod["spec"].get("nodeName")) or name_of(pod) in coming)
