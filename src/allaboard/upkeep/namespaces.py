"""The end of a namespace: its content is deleted, pods first; when nothing is left the namespace may go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from allaboard.api.documents import Document, Documents, Key, replace
from allaboard.api.kinds import NAMESPACE, POD, Kind
from allaboard.api.meta import is_leaving, key_of, name_of, uid_of, with_condition
from allaboard.kube.client import Reader, Select
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch
from allaboard.kube.plan import NOTHING, Delete, Plan, Status, Update

FINALIZER = "kubernetes"
# Whoever deleted the namespace may have requests under way. Upstream waits five seconds before it takes content away.
COURTESY = timedelta(milliseconds=500)
FIRST_LOOK, LONGEST_WAIT = timedelta(milliseconds=50), timedelta(seconds=5)

Content = Mapping[Kind, Documents]


def decide(namespace: Document, content: Content, now: datetime) -> Plan:
    """One step towards emptiness: delete what is not yet leaving, or finish when nothing is left."""
    if not is_leaving(namespace) or FINALIZER not in (namespace.get("spec") or {}).get("finalizers", ()):
        return NOTHING
    left = {kind: documents for kind, documents in content.items() if documents}
    if not left:
        return Plan(update=(Update(NAMESPACE, _finalized(namespace), subresource="finalize"),))
    told = _told(namespace, left, now)
    status = (Status(NAMESPACE, told),) if told is not namespace else ()
    return Plan(delete=tuple(_deletions(left)), status=status, again=now + _patience(namespace, now))


def _deletions(left: Content) -> list[Delete]:
    """Pods first: what they use must outlive them. Upstream: OrderedNamespaceDeletion."""
    kinds = [POD] if POD in left else list(left)
    return [
        Delete(kind, key_of(document), uid=uid_of(document), propagation="Background")
        for kind in kinds
        for document in left[kind]
        if not is_leaving(document)
    ]


def _finalized(namespace: Document) -> Document:
    rest = [finalizer for finalizer in namespace["spec"]["finalizers"] if finalizer != FINALIZER]
    return replace(namespace, "spec", "finalizers", value=rest)


def _patience(namespace: Document, now: datetime) -> timedelta:
    """Look often at first; the longer it takes the longer it will take."""
    since = datetime.fromisoformat(namespace["metadata"]["deletionTimestamp"].replace("Z", "+00:00"))
    return min(max((now - since) / 4, FIRST_LOOK), LONGEST_WAIT)


def _told(namespace: Document, left: Content, now: datetime) -> Document:
    """The namespace with its conditions brought up to date; the same object where nothing changed."""
    old = (namespace.get("status") or {}).get("conditions") or []
    new = list(old)
    for condition in _conditions(left):
        new = with_condition(new, condition, now)
    return namespace if new == old else replace(namespace, "status", "conditions", value=new)


def _conditions(left: Content) -> list[Document]:
    held = Counter(name for documents in left.values() for d in documents for name in _finalizers(d))
    rest = ", ".join(f"{kind.resource}. has {len(d)} resource instances" for kind, d in _by_name(left))
    holders = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(held.items()))
    finalizers = (
        ("True", "SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {holders}")
        if held
        else ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
    )
    rows = (
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {rest}"),
        ("NamespaceFinalizersRemaining", *finalizers),
    )
    return [dict(zip(("type", "status", "reason", "message"), row, strict=True)) for row in rows]


def _by_name(left: Content) -> list[tuple[Kind, Documents]]:
    return sorted(left.items(), key=lambda item: item[0].resource)


def _finalizers(document: Document) -> list[str]:
    return document["metadata"].get("finalizers") or []


class Namespaces:
    """Empties the namespaces that were asked to go.

    `kinds` names every namespaced kind the server has at that moment; `live` reads them past the informers,
    because nobody watches all of them.
    """

    name = "namespace-controller"
    manager = "kube-controller-manager"
    watches = (Watch(NAMESPACE),)

    def __init__(self, reader: Reader, clock: Clock, live: Reader, kinds: Callable[[], Sequence[Kind]]) -> None:
        self.reader, self.clock, self.live, self.kinds = reader, clock, live, kinds
        self._since: dict[str, datetime] = {}  # when a leaving namespace was first seen

    async def reconcile(self, key: Key) -> Plan:
        namespace = await self.reader.get(NAMESPACE, key)
        if namespace is None or not is_leaving(namespace):
            self._since.pop(key.name, None)
            return NOTHING
        due = self._since.setdefault(key.name, self.clock.now()) + COURTESY
        if self.clock.now() < due:
            return Plan(again=due)
        inside = Select(namespace=name_of(namespace))
        content = {kind: await self.live.list(kind, inside) for kind in self.kinds() if kind.namespaced}
        return decide(namespace, content, self.clock.now())
