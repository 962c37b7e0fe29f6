"""What an answer looks like: JSON or YAML, whole objects, tables or metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

import yaml

from allaboard.api.documents import Document
from allaboard.api.errors import ApiError, BadRequest, NotAcceptable
from allaboard.cluster.memory import Store
from allaboard.cluster.read import Page, metadata_only
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import Item, decode, encode
from allaboard.cluster.table import table
from allaboard.cluster.versions import prefix_of, served
from allaboard.merge.apply import blank

JSON, YAML, TEXT = "application/json", "application/yaml", "text/plain; charset=utf-8"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_FORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


@dataclass(slots=True)
class Answer:
    """A whole answer: code, body, content type and what else stands in the headers."""

    code: int
    body: bytes
    type: str = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Form:
    """The form a client asked for; `shape` is "" for the object itself."""

    media: str = JSON
    shape: str = ""
    version: str = "v1"


@lru_cache(maxsize=256)
def negotiate(accept: str, *, streams: bool = False) -> Form:
    """The first form in an Accept header that we can give; a collection can also be watched."""
    ranges = sorted(enumerate(accept.split(",")), key=lambda pair: (-_weight(pair[1]), pair[0]))
    refused: ApiError | None = None
    for _, text in ranges:
        media, *parameters = (part.strip() for part in text.split(";"))
        named = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if media.lower() not in ("", "*/*", JSON, YAML, "application/yml"):
            continue
        shape = named.get("as", "")
        if shape and (
            shape not in _FORMS or named.get("g") != "meta.k8s.io" or named.get("v") not in ("v1", "v1beta1")
        ):
            refused = NotAcceptable(f"only the following media types are accepted: {JSON}, {YAML}, {PROTOBUF}")
            continue
        return Form(YAML if "ya" in media else JSON, shape, named.get("v", "v1"))
    more = f", {JSON};stream=watch, {PROTOBUF};stream=watch" if streams else ""
    raise refused or NotAcceptable(
        f"406: Not Acceptable\n\nAvailable representations: {JSON}, {YAML}, {PROTOBUF}{more}", details={}
    )


def _weight(text: str) -> float:
    for part in text.split(";")[1:]:
        if part.strip().startswith("q="):
            try:
                return float(part.strip()[2:])
            except ValueError:
                return 0.0
    return 1.0


def written(form: Form, document: Document, code: int = 200) -> Answer:
    """A document in the wanted notation."""
    return _noted(form, encode(document), code)


def _noted(form: Form, data: bytes, code: int) -> Answer:
    if form.media == YAML:
        text = yaml.dump(decode(data), Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True)
        return Answer(code, text.encode(), YAML)
    return Answer(code, data + b"\n")


class Shaper:
    """Turns items and pages into bodies; knows the time (for ages) and how rows include objects."""

    def __init__(self, store: Store, rules: Rules, form: Form, clock: Callable[[], datetime], include: str) -> None:
        self.store, self.rules, self.form, self.clock = store, rules, form, clock
        self.include = include or "Metadata"
        if form.shape == "Table" and self.include not in ("Metadata", "Object", "None"):
            words = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            raise BadRequest(f"Unable to convert to Table as requested: includeObject: {words}")

    def one(self, item: Item, code: int = 200) -> Answer:
        if not self.form.shape:
            return _noted(self.form, item.data, code)
        if self.form.shape == "PartialObjectMetadataList":
            raise _other_shape(self.form, f"not a list ({self._go_name()})")
        return written(self.form, self._shaped(item, headers=True), code)

    def bytes_of(self, item: Item, *, headers: bool = False) -> bytes:
        """An item as it stands in a watch."""
        item = served(self.rules, item, self.store)
        return encode(self._shaped(item, headers=headers)) if self.form.shape else item.data

    def _shaped(self, item: Item, *, headers: bool) -> Document:
        document = self.store.document(item)
        if self.form.shape == "Table":
            return self._table([document], headers=headers)
        return {**metadata_only(document), "apiVersion": f"meta.k8s.io/{self.form.version}"}

    def bookmark(self, revision: int, annotations: Document, *, headers: bool) -> Document:
        """An object that says nothing but how far a watch has come."""
        metadata: Document = {"resourceVersion": str(revision)} | ({"annotations": annotations} if annotations else {})
        kind = self.rules.kind
        empty = {**blank(self.rules.structure), "kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self.form.shape == "Table":
            return self._table([empty], headers=headers)
        if self.form.shape:
            return {**metadata_only(empty), "apiVersion": f"meta.k8s.io/{self.form.version}"}
        return empty

    def _table(self, documents: Sequence[Document], *, headers: bool = True) -> Document:
        now, version = self.clock(), self.form.version
        return table(self.rules, documents, now, include=self.include, headers=headers, version=version)

    def page(self, page: Page) -> Answer:
        items = [served(self.rules, item, self.store) for item in page.items]
        if not self.form.shape:
            return _noted(self.form, self._list(items, page), 200)
        if self.form.shape == "PartialObjectMetadata":
            raise _other_shape(self.form, f"a list ({self._go_name()}List)")
        documents = [self.store.document(item) for item in items]
        if self.form.shape == "Table":
            body = self._table(documents)
        else:
            parts = [metadata_only(document) for document in documents]
            body = {
                "kind": "PartialObjectMetadataList",
                "items": parts,
                "apiVersion": f"meta.k8s.io/{self.form.version}",
            }
        return written(self.form, {**body, "metadata": {**body.get("metadata", {}), **self._list_meta(page)}})

    def _go_name(self) -> str:
        """The type as upstream's own code calls it."""
        if self.rules.custom:
            return "*unstructured.Unstructured"
        return f"*{self.rules.kind.group.split('.')[0] or 'core'}.{self.rules.kind.kind}"

    def _list_meta(self, page: Page) -> Document:
        meta: Document = {"resourceVersion": str(page.revision)}
        if page.following or (self.rules.custom and not self.form.shape):
            meta["continue"] = page.following
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
        return meta

    def _list(self, items: Sequence[Item], page: Page) -> bytes:
        """A list put together from stored bytes; items of built-in kinds leave out what the list says already."""
        kind = self.rules.kind
        head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": self._list_meta(page)}
        if self.rules.custom:
            bodies = b",".join([item.data for item in items])
        else:
            prefix = prefix_of(self.rules)
            bodies = b",".join([_untyped(item.data, prefix) for item in items])
        return b'%s,"items":[%s]}' % (encode(head)[:-1], bodies)


def _other_shape(form: Form, what: str) -> NotAcceptable:
    return NotAcceptable(f"you requested {form.shape}, but the requested object is {what}")


def _untyped(data: bytes, prefix: bytes) -> bytes:
    """An object without its kind and version."""
    if data.startswith(prefix):
        return b"{" + data[len(prefix) :]
    return encode({name: value for name, value in decode(data).items() if name not in ("kind", "apiVersion")})


def refused(error: ApiError, form: Form | None = None) -> Answer:
    """An error as a Status document."""
    answer = written(form or Form(), error.status(), error.code)
    if retry := error.details.get("retryAfterSeconds"):
        answer.headers.append((b"retry-after", str(retry).encode()))
    return answer
