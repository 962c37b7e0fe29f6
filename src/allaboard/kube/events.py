"""Words for people, as Event documents: the same words again only raise a count."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import EVENT, kind_of
from allaboard.api.meta import key_of, micro_stamp, stamp, uid_of
from allaboard.kube.plan import Create, Event, Patch

REMEMBERED = 4096
LONGEST_MESSAGE = 1024


class Recorder:
    """Turns events into writes; what was said before is said again by raising its count."""

    def __init__(self, source: str, token: Callable[[], str]) -> None:
        self.source, self.token = source, token
        self._said: OrderedDict[tuple[str, str, str, str], tuple[Key, int]] = OrderedDict()

    def write(self, event: Event, now: datetime) -> Create | Patch:
        """The write that says it."""
        words = (uid_of(event.regarding), event.type, event.reason, event.message)
        if words in self._said:
            key, count = self._said[words]
            self._said[words] = (key, count + 1)
            return Patch(EVENT, key, {"count": count + 1, "lastTimestamp": stamp(now)})
        document = event_document(event, self.source, self.token(), now)
        self._said[words] = (key_of(document), 1)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        return Create(EVENT, document)

    def forget(self, event: Event) -> None:
        """The event expired on the server: say it afresh next time."""
        self._said.pop((uid_of(event.regarding), event.type, event.reason, event.message), None)


def event_document(event: Event, source: str, token: str, now: datetime) -> Document:
    """A core/v1 Event, with both timestamps set."""
    about, moment = reference(event.regarding), stamp(now)
    document: Document = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name'][:230]}.{token}", "namespace": about.get("namespace", "default")},
        "involvedObject": about,
        "reason": event.reason,
        "message": event.message[:LONGEST_MESSAGE],
        "type": event.type,
        "action": event.action or event.reason,
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "source": {"component": source},
        "reportingComponent": source,
        "reportingInstance": "",
    }
    if event.instant:
        document |= {"eventTime": micro_stamp(now), "source": {}, "reportingInstance": f"{source}-0"}
    return document


def reference(document: Document) -> Document:
    """How an event names what it is about."""
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not api_version:
        known = kind_of(document)
        api_version, kind = known.api_version, known.kind
    metadata = document["metadata"]
    named = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata.get("uid", "")}
    return named | {field: metadata[field] for field in ("namespace", "resourceVersion") if metadata.get(field)}
