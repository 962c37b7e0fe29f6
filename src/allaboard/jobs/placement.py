"""Exclusive placement: one Job per topology domain. The first pod chooses the domain, the others follow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api import kinds, labels
from allaboard.api.documents import Document, Key
from allaboard.api.errors import Forbidden, NotFound
from allaboard.api.meta import (
    annotations_of,
    controller_of,
    is_leaving,
    key_of,
    labels_of,
    namespace_of,
    uid_of,
)
from allaboard.jobs import names
from allaboard.kube.admission import ALLOWED, Request, Verdict, View
from allaboard.kube.client import PatchType
from allaboard.kube.plan import NOTHING, Delete, Patch, Plan

VIOLATION = "ExclusivePlacementViolation"
_PLACE = (labels.JOBSET_NAME, labels.REPLICATED_JOB, labels.JOB_INDEX)


def domain_key(pod: Document) -> str:
    """The node label this pod's Job wants to have for itself, if the pod hooks are to see to it."""
    marks = annotations_of(pod)
    return "" if names.NODE_SELECTOR in marks else marks.get(names.EXCLUSIVE, "")


def is_leader(pod: Document) -> bool:
    return annotations_of(pod).get(labels.COMPLETION_INDEX) == "0"


# Which pods a real API server asks about: those of JobSets.
OF_JOB_SETS: Document = {"matchExpressions": [{"key": labels.JOBSET_NAME, "operator": "Exists"}]}


class PodDefaults:
    """Pods of JobSets carry their priority; leaders keep other Jobs away; followers go where their leader is."""

    name = "mpod.kb.io"
    kinds: tuple[kinds.Kind, ...] = (kinds.POD,)
    operations: tuple[str, ...] = ("CREATE",)
    subresources: tuple[str, ...] = ("",)
    selector = OF_JOB_SETS

    def alike(self, pod: Document) -> bool:
        """Pods with a domain of their own are led by the first."""
        return not domain_key(pod)

    def mutate(self, request: Request, view: View) -> Document | None:
        pod = request.new
        if pod is None or labels.JOBSET_NAME not in labels_of(pod) or names.NODE_SELECTOR in annotations_of(pod):
            return None
        return _placed(_ranked(pod), request.key.namespace, view)


def _ranked(pod: Document) -> Document:
    priority = pod["spec"].get("priority")
    if priority is None:
        return pod
    metadata = {**pod["metadata"], "labels": {**labels_of(pod), names.PRIORITY: str(priority)}}
    return {**pod, "metadata": metadata}


def _placed(pod: Document, namespace: str, view: View) -> Document:
    domain = domain_key(pod)
    if not domain:
        return pod
    if is_leader(pod):
        return {**pod, "spec": {**pod["spec"], "affinity": _alone(pod, domain)}}
    chosen = _chosen(pod, namespace, domain, view)
    if not chosen:
        return pod
    selector = {**(pod["spec"].get("nodeSelector") or {}), domain: chosen}
    return {**pod, "spec": {**pod["spec"], "nodeSelector": selector}}


def _alone(pod: Document, domain: str) -> Document:
    """Near to pods of its own Job, away from pods of any other of the same priority."""
    key, rank = labels_of(pod).get(names.JOB_KEY, ""), labels_of(pod).get(names.PRIORITY, "")
    own = [{"key": names.JOB_KEY, "operator": "In", "values": [key]}]
    other: list[Document] = [
        {"key": names.JOB_KEY, "operator": "Exists"},
        {"key": names.JOB_KEY, "operator": "NotIn", "values": [key]},
    ]
    if rank:
        other.append({"key": names.PRIORITY, "operator": "In", "values": [rank]})
    affinity = dict(pod["spec"].get("affinity") or {})
    for word, expressions in (("podAffinity", own), ("podAntiAffinity", other)):
        terms = affinity.get(word) or {}
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": domain, "namespaceSelector": {}}
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        affinity[word] = {**terms, field: [*(terms.get(field) or ()), term]}
    return affinity


def _chosen(pod: Document, namespace: str, domain: str, view: View) -> str:
    """The domain of the leader's node, once it has one."""
    leader = _leader(pod, view.list(kinds.POD, namespace))
    node = (leader or {}).get("spec", {}).get("nodeName")
    if not node:
        return ""
    if (found := view.get(kinds.NODE, Key("", node))) is None:
        raise NotFound(f'Node "{node}" not found')
    if not (chosen := labels_of(found).get(domain, "")):
        raise Forbidden(f"node does not have topology label: {domain}")
    return chosen


def _leaders(pod: Document, pods: Iterable[Document]) -> list[Document]:
    """Pods that lead the Job of this one by name; a leader that failed is one until it is gone."""
    place = [labels_of(pod).get(key) for key in _PLACE]
    there = (other for other in pods if is_leader(other) and not is_leaving(other))
    return [other for other in there if [labels_of(other).get(key) for key in _PLACE] == place]


def _leader(pod: Document, pods: Iterable[Document]) -> Document | None:
    """The one leader of the same Job; with two of them nobody knows whom to follow."""
    leaders = _leaders(pod, pods)
    if len(leaders) != 1 or (controller_of(leaders[0]) or {}).get("uid") != (controller_of(pod) or {}).get("uid"):
        return None
    return leaders[0]


class PodRules:
    """A follower is not made before its leader has a place."""

    name = "vpod.kb.io"
    kinds: tuple[kinds.Kind, ...] = (kinds.POD,)
    operations: tuple[str, ...] = ("CREATE",)
    subresources: tuple[str, ...] = ("",)
    selector = OF_JOB_SETS

    def validate(self, request: Request, view: View) -> Verdict:
        pod = request.new
        if pod is None or labels.JOBSET_NAME not in labels_of(pod):
            return ALLOWED
        domain = domain_key(pod)
        if not domain or is_leader(pod):
            return ALLOWED
        words = _objection(pod, domain, view.list(kinds.POD, request.key.namespace))
        return Verdict(Forbidden(words)) if words else ALLOWED


def _objection(pod: Document, domain: str, pods: Sequence[Document]) -> str:
    selector = pod["spec"].get("nodeSelector")
    if not selector:
        return "follower pod node selector not set"
    if domain not in selector:
        return f"follower pod node selector for topology domain not found. missing selector: {domain}"
    leaders, leader = _leaders(pod, pods), _leader(pod, pods)
    if len(leaders) != 1:
        jobset, replicated, index = (labels_of(pod).get(key, "") for key in _PLACE)
        job = names.job_name(jobset, replicated, index)
        return f"expected 1 leader pod ({job}-0), but got {len(leaders)}. this is an expected, transient error"
    if leader is None or not leader["spec"].get("nodeName"):
        return "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"
    return ""


def scheduled_leaders(pod: Document) -> Iterable[Key]:
    """Leaders with a node: the only pods whose news can put followers in the wrong."""
    if not pod["spec"].get("nodeName") or not domain_key(pod) or not is_leader(pod):
        return ()
    return (key_of(pod),)


def evict_strays(leader: Document, pods: Sequence[Document], node: Document | None, now: str) -> Plan:
    """Followers that are bound for another domain than their leader's are sent away, to be made again."""
    domain = domain_key(leader)
    chosen = labels_of(node).get(domain) if node else None
    if not domain or not chosen:
        return NOTHING
    strays = [pod for pod in pods if not is_leader(pod) and not is_leaving(pod)]
    strays = [pod for pod in strays if (pod["spec"].get("nodeSelector") or {}).get(domain) != chosen]
    return Plan(
        patch=tuple(_marked(pod, now) for pod in strays),
        delete=tuple(Delete(kinds.POD, key_of(pod), uid_of(pod)) for pod in strays),
    )


def _marked(pod: Document, now: str) -> Patch:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": VIOLATION,
        "message": "Pod violated JobSet exclusive placement policy",
        "lastTransitionTime": now,
    }
    body = {"status": {"conditions": [condition]}}
    return Patch(kinds.POD, Key(namespace_of(pod), pod["metadata"]["name"]), body, PatchType.STRATEGIC, "status")
