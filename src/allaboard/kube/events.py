"""Words for people, as Event documents: the same words again only raise a count, too many alike become one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import EVENT, kind_of
from allaboard.api.meta import key_of, micro_stamp, stamp, uid_of
from allaboard.kube.correlation import COMBINED, Correlator, keep
from allaboard.kube.plan import Create, Event, Patch

LONGEST_MESSAGE = 1024


class _Told(NamedTuple):
    """An event that was made, or would have been had there not been too many; and how often."""

    key: Key | None
    times: int


_NEVER = _Told(None, 0)


class Recorder:
    """Turns events into writes; what was said before is said again by raising its count."""

    def __init__(self, source: str, token: Callable[[], str]) -> None:
        self.source, self.token = source, token
        self._correlator = Correlator()
        self._said: OrderedDict[tuple[str, ...], _Told] = OrderedDict()

    def write(self, event: Event, now: datetime) -> Create | Patch | None:
        """The write that says it; None where too much was said of its object already."""
        group = (uid_of(event.regarding), event.type, event.reason)
        if event.action:  # upstream tells it by events.k8s.io, where nothing is combined or left out
            return self._written((*group, event.message), event, now)
        combined = self._correlator.is_one_of_many(group, event.message, now)
        silent = self._correlator.is_too_much(group, now)
        if combined:
            return self._written(group, replace(event, message=COMBINED + event.message), now, silent=silent)
        return self._written((*group, event.message), event, now, silent=silent)

    def _written(
        self, words: tuple[str, ...], event: Event, now: datetime, *, silent: bool = False
    ) -> Create | Patch | None:
        key, times = self._said.get(words, _NEVER)
        write: Create | Patch | None = None
        if key is not None and not silent:
            write = Patch(EVENT, key, {"count": times + 1, "lastTimestamp": stamp(now), **_latest(words, event)})
        elif not silent:
            document = event_document(event, self.source, self.token(), now)
            document["count"] = times + 1
            key, write = key_of(document), Create(EVENT, document)
        keep(self._said, words, _Told(key, times + 1))
        return write

    def forget(self, event: Event) -> None:
        """The event expired on the server: say it afresh next time."""
        group = (uid_of(event.regarding), event.type, event.reason)
        self._said.pop((*group, event.message), None)
        self._said.pop(group, None)


def _latest(words: tuple[str, ...], event: Event) -> Document:
    """One of many shows the latest of them."""
    return {} if words[-1] == event.message else {"message": event.message[:LONGEST_MESSAGE]}


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
