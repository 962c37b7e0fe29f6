"""Event, in both of its groups: the old one is hardly checked, the new one is."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import ages, complaints
from allaboard.cluster.kinds import shown
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.metadata import path_segment
from allaboard.cluster.rules import Column, Rules, Value, built_in
from allaboard.cluster.words import text

WORD_LIMIT = 128
NOTE_LIMIT = 1024
# A new-style event tells its own story once; only its series goes on.
FIXED = (
    "eventTime",
    "reportingController",
    "reportingInstance",
    "action",
    "reason",
    "regarding",
    "related",
    "note",
    "type",
)


def check_core(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    """Upstream: core events of old clients pass with almost anything; only the namespaces must agree."""
    if new.get("eventTime"):
        return _strict(new, core=True) if old is None else []
    return _namespace(new, dig(new, "involvedObject", "namespace", default=""), "involvedObject.namespace")


def check_new(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    if old is None:
        return _strict(new, core=False)
    found: list[Cause] = []
    for field in FIXED:
        value: object = new.get(field)
        if field in ("regarding", "related") and value is not None:
            value = complaints.struct("core.ObjectReference", value)
        if not complaints.same(new.get(field), old.get(field)):
            # Upstream names fields as old events do.
            where = {"note": "message", "regarding": "involvedObject"}.get(field, field)
            found.append(complaints.invalid(where, value, complaints.IMMUTABLE))
    return found


def _namespace(event: Document, about: str, field: str) -> list[Cause]:
    mine = event["metadata"].get("namespace", "")
    if about == mine or (not about and mine == "default"):
        return []
    return [complaints.invalid(field, about, "does not match event.namespace")]


def _strict(new: Document, *, core: bool) -> list[Cause]:
    subject = "involvedObject" if core else "regarding"
    about = dig(new, subject, "namespace", default="")
    found = _namespace(new, about, "involvedObject.namespace") if core else []
    if not new.get("eventTime"):
        found.append(complaints.required("eventTime"))
    else:
        found += _reporter(new, core=core)
    note = new.get("message" if core else "note") or ""
    if len(note.encode()) > NOTE_LIMIT:
        found.append(complaints.invalid("message", "", "can have at most 1024 characters"))
    if new.get("type") not in ("Normal", "Warning"):
        found.append(complaints.invalid("type", "", f"has invalid value: {new.get('type') or ''}"))
    return found


def _reporter(event: Document, *, core: bool) -> list[Cause]:
    controller = event.get("reportingComponent" if core else "reportingController") or ""
    where = "reportingComponent" if core else "reportingController"
    found = [] if controller else [complaints.required(where)]
    found += complaints.all_invalid(where, controller, names.qualified_name(controller))
    for field in ("reportingInstance", "action", "reason"):
        if not event.get(field):
            found.append(complaints.required(field))
        elif len(event[field]) > WORD_LIMIT:
            found.append(complaints.invalid(field, "", f"can have at most {WORD_LIMIT} characters"))
    return found + ([] if core else _unused(event))


def _unused(event: Document) -> list[Cause]:
    """What new events leave to old ones, and what a series must say."""
    series, found = event.get("series"), list[Cause]()
    if series is not None and (series.get("count") or 0) < 2:
        found.append(complaints.invalid("series.count", "", "should be at least 2"))
    if series is not None and not series.get("lastObservedTime"):
        found.append(complaints.required("series.lastObservedTime"))
    old = {"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp"}
    old |= {"deprecatedCount": "count", "deprecatedSource": "source"}
    for key, name in old.items():
        if event.get(key):
            found.append(complaints.invalid(name, "", "needs to be unset"))
    return found


COLUMNS = (
    column("Last Seen", "How long ago the event was seen for the last time, however often it happened before that."),
    column("Type", "Whether the event is business as usual (Normal) or something to look into (Warning)."),
    column("Reason", "A short word for machines that says why the object came into the state it is in now."),
    column("Object", "The object that this event is about."),
    column("Subobject", "Which part of the object the event is about, a container of a pod for example.", wide=True),
    column("Source", "Who reported the event: the name of a component and perhaps the host it runs upon.", wide=True),
    column("Message", "What happened, in words for people; it can be as long as a paragraph if it must be."),
    column(
        "First Seen", "How long ago the event was seen for the first time; aggregation keeps this moment.", wide=True
    ),
    column("Count", "The number of times this event has occurred.", wide=True),
    Column("Name", format="name", priority=1, description=shown.NAME.description),
)


def row(event: Document, now: datetime) -> list[object]:
    event = _as_core(event)
    first = ages.age(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = ages.age(event["lastTimestamp"], now) if event.get("lastTimestamp") else first
    count = event.get("count") or 1
    if series := event.get("series"):
        last, count = ages.age(series.get("lastObservedTime"), now), series.get("count", 0)
    about = event.get("involvedObject") or {}
    kind, name = str(about.get("kind", "")).lower(), about.get("name")
    return [
        last,
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        about.get("fieldPath", ""),
        _source(event),
        str(event.get("message", "")).strip(),
        first,
        count,
        shown.name_of(event),
    ]


def _as_core(event: Document) -> Document:
    if "regarding" not in event:
        return event
    renamed = {"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent"}
    plain = {renamed.get(key, key): value for key, value in event.items()}
    for key in ("Source", "FirstTimestamp", "LastTimestamp", "Count"):
        plain[key[0].lower() + key[1:]] = event.get(f"deprecated{key}")
    return plain


def _source(event: Document) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else str(component)


def _text(*path: str) -> Value:
    def read(event: Document) -> str:
        return str(dig(event, *path, default=""))

    return read


def _component(event: Document) -> str:
    return str(dig(event, "source", "component", default="") or event.get("reportingComponent") or "")


ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
CORE_FIELDS: dict[str, Value] = {f"involvedObject.{part}": _text("involvedObject", part) for part in ABOUT}
SHARED: dict[str, Value] = {"reason": _text("reason"), "type": _text("type")}
NEW_FIELDS: dict[str, Value] = {f"regarding.{part}": _text("regarding", part) for part in ABOUT}

_CORE, _NEW = built_in(kinds.EVENT), built_in(kinds.EVENT_V1)
_BOTH = frozenset({kinds.EVENT.api_version, kinds.EVENT_V1.api_version})
RULES: tuple[Rules, ...] = (
    replace(
        _CORE,
        others=_BOTH,
        names=path_segment,
        check=check_core,
        fields={
            **CORE_FIELDS,
            **SHARED,
            "reportingComponent": _text("reportingComponent"),
            "source": _component,
        },
        create_on_update=True,
        columns=COLUMNS,
        row=row,
        own_words={
            "involvedObject": {"name": text, "uid": text, "resourceVersion": text},
            "message": lambda word: 0 < len(word.encode()) <= NOTE_LIMIT,
        },
    ),
    replace(
        _NEW,
        others=_BOTH,
        store="events",
        judged_as=kinds.EVENT,
        check=check_new,
        fields={**NEW_FIELDS, **SHARED, "reportingController": _text("reportingController")},
        create_on_update=True,
        columns=COLUMNS,
        row=row,
    ),
)
