"""Path → what it is about: a collection, an object, a subresource, or one of the server's own pages."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from allaboard.api.documents import Key
from allaboard.api.errors import NotFound
from allaboard.cluster import refusals
from allaboard.cluster.ask import Place
from allaboard.cluster.registry import Registry

# Namespaces contain objects, but have subresources too.
_NAMESPACE_PARTS = (["status"], ["finalize"])


class NoSuchPath(NotFound):
    """Nothing lives here, not even an API group: answered in plain text."""


class Path(NamedTuple):
    """The parts of a resource path; empty where the path does not say."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str
    rest: str
    watch: bool = False  # the old way to ask for a watch: /api/v1/watch/…


@lru_cache(maxsize=4096)  # who follows an object asks for it again and again
def parse(path: str) -> Path | None:
    """The parts of a path below /api/v1 or /apis/group/version; None for other paths."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    rest = rest[1:] if watch else rest
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2:] in _NAMESPACE_PARTS):
        namespace, rest = rest[1], rest[2:]
    rest = rest + [""] * (3 - len(rest))
    return Path(group, version, namespace, rest[0], rest[1], rest[2], "/".join(rest[3:]), watch)


def place(registry: Registry, path: Path, method: str) -> Place:
    """The kind and key a path names; refuses what is not served in the words its group uses."""
    rules = registry.find(path.group, path.version, path.plural)
    if rules is None:
        if path.group in registry.builtin_groups:
            raise refusals.no_resource()
        raise NoSuchPath("404 page not found")
    if path.namespace and not rules.kind.namespaced:
        raise _missing(rules.custom)
    if path.name and ("get" not in rules.verbs or (rules.kind.namespaced and not path.namespace)):
        raise _missing(rules.custom)
    if not path.name and rules.kind.namespaced and not path.namespace and "list" in rules.verbs and method != "GET":
        raise NoSuchPath("404 page not found") if rules.custom else refusals.no_method()
    if path.subresource and path.subresource not in rules.subresources:
        raise refusals.not_found(rules.kind, path.name) if rules.custom else refusals.no_resource()
    return Place(rules, Key(path.namespace, path.name), path.subresource)


def _missing(custom: bool) -> NotFound:
    return NoSuchPath("404 page not found") if custom else refusals.no_resource()
