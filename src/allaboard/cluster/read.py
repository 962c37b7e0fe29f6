"""Read: one object, or a list of them at one revision, page by page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from allaboard.api.documents import Document, Key
from allaboard.api.errors import BadRequest
from allaboard.api.selectors import EVERYTHING, FieldSelector, Selector
from allaboard.cluster import jsonwords, refusals
from allaboard.cluster.ask import Place
from allaboard.cluster.memory import Store, Table
from allaboard.cluster.plane import Cluster
from allaboard.cluster.registry import table_of
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import Item, encode
from allaboard.cluster.versions import ready, served, shown

ANY_FIELD = FieldSelector()
Accept = Callable[[Item], bool]


@dataclass(frozen=True, slots=True)
class Query:
    """Which objects of a collection, from which revision, and how many at a time."""

    labels: Selector = EVERYTHING
    fields: FieldSelector = ANY_FIELD
    limit: int = 0
    start: str = ""  # a continue token
    revision: str = ""
    match: str = ""  # resourceVersionMatch


@dataclass(frozen=True, slots=True)
class Page:
    """A list at one revision; `following` is the token of the next page."""

    items: list[Item]
    revision: int
    following: str = ""
    remaining: int | None = None


async def found(cluster: Cluster, place: Place) -> Item:
    """One object, as committed, in the version that is asked for."""
    if place.rules.converter is not None:
        item = cluster.store.table(table_of(place.rules)).get(place.key)
        await ready(place.rules, (item,) if item is not None else (), cluster.store)
    return get(cluster, place)


def get(cluster: Cluster, place: Place) -> Item:
    """One object, as committed; of a kind that others translate, `found` asks them first."""
    item = cluster.store.table(table_of(place.rules)).get(place.key)
    if item is None:
        raise refusals.not_found(place.rules.kind, place.key.name)
    return served(place.rules, item, cluster.store)


def listed(cluster: Cluster, place: Place, query: Query) -> Page:
    """The objects of a collection that a query selects."""
    table = cluster.store.table(table_of(place.rules))
    accept = acceptor(place.rules, query, cluster.store)
    token = _read_token(query.start) if query.start else None
    revision = token.revision if token and token.revision > 0 else _exact(query, cluster.store)
    items = _at(table, place.key.namespace, revision, cluster.store)
    if token:
        items = [item for item in items if _path(item.key, place) >= token.start]
    chosen = [item for item in items if accept(item)] if accept else items
    # Upstream: a list that may be served from the cache ignores the limit.
    limit = 0 if query.revision == "0" else max(query.limit, 0)
    return _page(cluster, place, chosen, revision or cluster.store.committed, limit, bool(accept))


def _page(cluster: Cluster, place: Place, items: list[Item], revision: int, limit: int, selective: bool) -> Page:
    if not limit or len(items) <= limit:
        return Page(items, revision)
    token = _Token("meta.k8s.io/v1", revision, _path(items[limit - 1].key, place) + "\0")
    text = base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()
    return Page(items[:limit], revision, text, None if selective else len(items) - limit)


def _exact(query: Query, store: Store) -> int:
    """The revision a list must show exactly; 0 for the newest."""
    # Upstream: without a match rule, a limit makes a revision exact.
    exact = query.match == "Exact" or (not query.match and query.limit > 0)
    return int(query.revision) if exact and query.revision else 0


def _at(table: Table, namespace: str, revision: int, store: Store) -> list[Item]:
    if not revision or revision >= store.committed:
        return list(table.items(namespace))
    return [item for item in table.at(revision) if namespace in ("", item.key.namespace)]


def acceptor(rules: Rules, query: Query, store: Store) -> Accept | None:
    """What decides whether an item is selected; None where everything is."""
    labels, fields = query.labels, query.fields
    if not fields.terms:
        if not labels.requirements:
            return None
        return lambda item: labels.matches(item.labels)
    tests = [(_value(rules, path, store), equal, value) for path, equal, value in fields.terms]
    # A text that is nowhere in the bytes is in no field: most items are passed over without being decoded.
    needles = [encode(value) for path, equal, value in fields.terms if equal and _is_quoted(value)]
    needles = needles if rules.converter is None else []  # what is shown need not stand in what is stored

    def accept(item: Item) -> bool:
        if labels.requirements and not labels.matches(item.labels):
            return False
        if any(needle not in item.data for needle in needles):
            return False
        return all((read(item) == value) is equal for read, equal, value in tests)

    return accept


def _is_quoted(value: str) -> bool:
    """Whether a value can only stand in a document as text."""
    return value not in ("", "true", "false") and not value.lstrip("-").isdecimal()


def _value(rules: Rules, path: str, store: Store) -> Callable[[Item], str]:
    if path == "metadata.name":
        return lambda item: item.key.name
    if path == "metadata.namespace":
        return lambda item: item.key.namespace
    read = rules.fields.get(path)
    if read is None:
        return lambda item: ""
    return lambda item: read(shown(rules, store.document(item)))


class _Token(msgspec.Struct):
    v: str = ""
    revision: int = msgspec.field(name="rv", default=0)
    start: str = ""


def _path(key: Key, place: Place) -> str:
    """The key as a continue token orders and names it, below the collection that is listed."""
    return key.name if place.key.namespace or not place.rules.kind.namespaced else f"{key.namespace}/{key.name}"


def _read_token(text: str) -> _Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, UnicodeDecodeError, msgspec.DecodeError, ValueError) as fault:
        raise BadRequest(f"{_INVALID}: {_complaint(text) or str(fault)}") from fault
    if token.v != "meta.k8s.io/v1":
        raise BadRequest(f"{_INVALID}: server does not recognize this encoded version {token.v}")
    if not token.revision:
        raise BadRequest(f"{_INVALID}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not token.start:
        raise BadRequest(f"{_INVALID}: encoded start key empty (version meta.k8s.io/v1)")
    if ".." in token.start.split("/"):
        raise BadRequest(f"{_INVALID}: {token.start}")
    return token


_INVALID = "invalid continue token: continue key is not valid"


def _complaint(text: str) -> str:
    """What is wrong with the text inside a token."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return "illegal base64 data at input byte 0"
    return jsonwords.complaint(data)


def metadata_only(document: Document) -> Document:
    """What a metadata client is shown of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}
