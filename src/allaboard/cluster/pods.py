"""What pods have beside themselves: binding to a node, eviction, and which container a log is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from msgspec import structs

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import BadRequest, Cause, Conflict
from allaboard.api.kinds import Kind
from allaboard.api.meta import is_leaving, stamp
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.delete import Outcome, Wish, check, delete
from allaboard.cluster.kinds.pod import bound, marked
from allaboard.cluster.options import delete_causes
from allaboard.cluster.plane import Cluster
from allaboard.cluster.registry import table_of
from allaboard.cluster.store import Happening
from allaboard.cluster.update import Build, check_uid, rewrite

LOG_OPTIONS = Kind("", "v1", "PodLogOptions", "")


async def bind(cluster: Cluster, place: Place, binding: Document, ask: Ask) -> None:
    """Give a pod its node, once. Upstream: a binding is nobody's field and passes no validation of pods."""
    await rewrite(cluster, place, _with_node(cluster, place, binding), ask)


def begin_bind(cluster: Cluster, place: Place, uid: str, node: str) -> Happening:
    """The change that gives a pod its node; it is not committed yet, which the caller does at once."""
    before = cluster.latest(place)
    if before is None:
        raise refusals.not_found(place.rules.kind, place.key.name)
    pod = cluster.store.document(before)
    check_uid(place, uid, pod)
    check_bindable(place, pod)
    return cluster.store.put(table_of(place.rules), bound(pod, node, cluster.world.now()), before)


def _with_node(cluster: Cluster, place: Place, binding: Document) -> Build:
    target, metadata = binding.get("target") or {}, binding.get("metadata") or {}
    check_binding(target)

    def build(pod: Document) -> Document:
        check_uid(place, metadata.get("uid"), pod)
        check_bindable(place, pod)
        return bound(marked(pod, metadata), target["name"], cluster.world.now())

    return build


def check_binding(target: Document) -> None:
    """Upstream says these as bare errors of the binding itself."""
    if target.get("kind") not in (None, "", "Node"):
        words = f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise refusals.bare(500, words)
    if not target.get("name"):
        raise refusals.bare(500, "target.name: Required value")


def check_bindable(place: Place, pod: Document) -> None:
    """Refuse a binding of a pod that leaves, waits at a gate, or has a node already."""
    name, node = place.key.name, pod["spec"].get("nodeName")
    if is_leaving(pod):
        raise _unbindable(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node:
        raise _unbindable(name, f'pod {name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _unbindable(name, f"pod {name} has non-empty .spec.schedulingGates")


def _unbindable(name: str, why: str) -> Conflict:
    return refusals.conflict(Kind("", "v1", "Binding", "pods/binding"), name, why)


async def evict(cluster: Cluster, place: Place, eviction: Document, ask: Ask) -> Outcome:
    """Delete a pod because it must make room; there are no disruption budgets that could speak against it."""
    if (eviction.get("metadata") or {}).get("name", "") != place.key.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = eviction.get("deleteOptions") or {}
    if causes := delete_causes(options):
        raise refusals.options_invalid("DeleteOptions", causes)
    ask = structs.replace(ask, dry_run=ask.dry_run or bool(options.get("dryRun")))
    wish = wish_of(options)
    if not ask.dry_run:
        moved = await rewrite(cluster, place, _evicted(place, wish, cluster.world.now()), ask)
        wish = replace(wish, revision=str(moved.revision) if wish.revision else "")
    return await delete(cluster, place._replace(subresource=""), wish, ask)


def _evicted(place: Place, wish: Wish, now: datetime) -> Build:
    """The pod with a condition that says why it goes: a Job tells a disruption from a failure by it."""
    disrupted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def build(pod: Document) -> Document:
        check(place, wish, pod)
        status = pod.get("status") or {}
        known: Documents = status.get("conditions") or []
        if any(condition.items() >= disrupted.items() for condition in known):
            return pod
        said = {**disrupted, "lastProbeTime": None, "lastTransitionTime": stamp(now)}
        others = [condition for condition in known if condition["type"] != disrupted["type"]]
        return {**pod, "status": {**status, "conditions": [*others, said]}}

    return build


def wish_of(options: Document) -> Wish:
    """How to delete, as DeleteOptions say it."""
    preconditions = options.get("preconditions") or {}
    propagation = options.get("propagationPolicy") or ""
    if options.get("orphanDependents") is not None:
        propagation = "Orphan" if options["orphanDependents"] else "Background"
    return Wish(
        propagation,
        options.get("gracePeriodSeconds"),
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        options,
    )


def log_container(pod: Document, asked: str) -> str:
    """The container a log is about; one must be named where there are several."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    plain = [container["name"] for container in spec.get("containers") or ()]
    initial = [container["name"] for container in spec.get("initContainers") or ()]
    others = [container["name"] for container in spec.get("ephemeralContainers") or ()]
    if asked:
        if asked not in (*plain, *initial, *others):
            raise BadRequest(f"container {asked} is not valid for pod {name}")
        return asked
    if len(plain) == 1 and not initial and not others:
        return str(plain[0])
    chosen = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container", "")
    if chosen in plain:
        return str(chosen)
    words = f"a container name must be specified for pod {name}, choose one of: [{' '.join(plain)}]"
    if initial:
        words += f" or one of the init containers: [{' '.join(initial)}]"
    raise BadRequest(words)


def check_log_options(name: str, query: Mapping[str, Sequence[str]]) -> None:
    """Refuse numbers that mean nothing."""
    causes = []
    for option, least, words in (
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ):
        text = (query.get(option) or [""])[0]
        if text.lstrip("-").isdecimal() and int(text) < least:
            causes.append(Cause("FieldValueInvalid", option, f"Invalid value: {int(text)}: {words}"))
    if "sinceSeconds" in query and "sinceTime" in query:
        words = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append(Cause("FieldValueForbidden", "[]", words))
    if causes:
        raise refusals.invalid(LOG_OPTIONS, name, causes)
