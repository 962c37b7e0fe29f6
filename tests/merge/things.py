"""A custom kind with every sort of list and map, for the tests of merging."""

from allaboard.merge.apply import Actor, apply, track
from allaboard.schema import structure

INT, STR = {"type": "integer"}, {"type": "string"}
HOSTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["host", "port"],
    "items": {
        "type": "object",
        "properties": {"host": STR, "port": {**INT, "default": 80}, "note": STR},
    },
}
PROPERTIES = {
    "n": INT,
    "on": {"type": "boolean"},
    "atomic": {"type": "array", "items": STR},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": STR},
    "hosts": HOSTS,
    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": STR, "b": STR}},
    "free": {"type": "object", "additionalProperties": STR},
    "struct": {"type": "object", "properties": {"x": INT, "y": INT}},
    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
THING = structure.compile(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": PROPERTIES},
            "status": {"type": "object", "properties": {"n": INT}},
        },
    }
)
VERSION = "example.com/v1"


def stated(spec):
    return {"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def born(document):
    return {**document, "metadata": {**document["metadata"], "uid": "u"}}


def actor(manager, second=0, subresource=""):
    return Actor(manager, VERSION, f"2026-01-01T00:00:{second:02d}Z", subresource)


def applied(live, manager, spec, *, force=False, second=0):
    return born(apply(live, stated(spec), THING, actor(manager, second), force=force))


def updated(live, manager, spec, *, second=0):
    new = {**(live or stated({})), "spec": spec}
    return born(track(live, new, THING, actor(manager, second)))


def owned(document):
    """Owner -> what it owns of the spec."""
    found = document["metadata"].get("managedFields") or []
    return {f"{entry['manager']}/{entry['operation']}": entry["fieldsV1"].get("f:spec") for entry in found}
