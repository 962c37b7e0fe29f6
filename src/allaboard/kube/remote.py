"""The client contract over the wire: any Kubernetes API server, ours or a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError, Gone, NotFound, from_status
from allaboard.api.kinds import POD, Kind, kind_of
from allaboard.api.meta import controller_of, key_of, namespace_of, uid_of
from allaboard.kube.client import EVERYTHING, Change, Listing, PatchType, Select
from allaboard.kube.http import Answer, Call, Transport

PAGE = "2000"
APPLY = "application/apply-patch+yaml"  # the body is JSON, which is YAML
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder().decode


class RemoteClient:
    """Reads, writes and watches through HTTP. Errors are those of `api/errors.py`."""

    def __init__(self, transport: Transport, agent: str = "aboard", *, strict: bool = False) -> None:
        self.transport = transport
        self.headers = {"Accept": "application/json", "User-Agent": agent}
        self.warnings: list[str] = []  # what the server said beside its answers; the doors print them
        self.validation = {"fieldValidation": "Strict"} if strict else {}

    async def get(self, kind: Kind, key: Key) -> Document | None:
        try:
            return await self._ask("GET", kind.path(key.namespace, key.name))
        except NotFound:
            return None

    async def listing(self, kind: Kind, select: Select = EVERYTHING) -> Listing:
        items: Documents = []
        query = {**_selection(select), "limit": PAGE}
        while True:
            page = await self._ask("GET", kind.path(select.namespace), query)
            # Lists leave kind and apiVersion out of their items; a document always says what it is.
            said = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [item if "kind" in item else {**said, **item} for item in page.get("items") or []]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return Listing(items, str(metadata.get("resourceVersion", "0")))
            query["continue"] = metadata["continue"]

    async def owned(self, kind: Kind, owner: Document) -> Documents:
        found = await self.list(kind, Select(namespace_of(owner)))
        return [d for d in found if (controller_of(d) or {}).get("uid") == uid_of(owner)]

    async def list(self, kind: Kind, select: Select = EVERYTHING) -> Documents:
        return sorted((await self.listing(kind, select)).items, key=key_of)

    async def watch(self, kind: Kind, since: str, select: Select = EVERYTHING) -> AsyncIterator[Sequence[Change]]:
        query = {**_selection(select), "watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true"}
        answer, pieces = await self.transport.stream(Call("GET", kind.path(select.namespace), query, self.headers))
        _raise_for(answer)
        rest = b""
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            if lines:
                yield [_change(line) for line in lines if line]

    async def create(self, kind: Kind, document: Document, *, manager: str) -> Document:
        return await self._ask("POST", kind.path(namespace_of(document)), {"fieldManager": manager}, document)

    async def update(self, kind: Kind, document: Document, *, manager: str, subresource: str = "") -> Document:
        path = kind.path_to(key_of(document), subresource)
        return await self._ask("PUT", path, {"fieldManager": manager}, document)

    async def patch(
        self, kind: Kind, key: Key, body: object, *, type: PatchType, manager: str, subresource: str = ""
    ) -> Document:
        return await self._patch(kind.path_to(key, subresource), {"fieldManager": manager}, body, type.value)

    async def apply(
        self, kind: Kind, document: Document, *, manager: str, force: bool = True, subresource: str = ""
    ) -> Document:
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._patch(kind.path_to(key_of(document), subresource), query, document, APPLY)

    async def delete(
        self, kind: Kind, key: Key, *, uid: str = "", propagation: str = "", grace: int | None = None
    ) -> None:
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if propagation:
            options["propagationPolicy"] = propagation
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._ask("DELETE", kind.path_to(key), {}, options)

    async def together(self, documents: Sequence[Document], *, manager: str) -> Documents:
        """A cluster has no transactions: created in order, and taken back at the first failure."""
        created: Documents = []
        try:
            for document in documents:
                created.append(await self.create(kind_of(document), document, manager=manager))
        except ApiError:
            for document in created:
                await self._take_back(document)
            raise
        return created

    async def bind(self, pod: Key, uid: str, node: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._ask("POST", POD.path_to(pod, "binding"), {}, binding)

    async def ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None
    ) -> Document:
        """Any other call that answers with JSON: discovery, reviews, tokens."""
        return await self._ask(method, path, query or {}, body)

    async def table(self, kind: Kind, select: Select = EVERYTHING) -> Document:
        """The server's own columns for a kind."""
        headers = {**self.headers, "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
        call = Call("GET", kind.path(select.namespace), _selection(select), headers)
        return self._document(await self.transport.call(call))

    async def pieces(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """An answer that is not JSON, as it comes: logs, also those that go on."""
        answer, pieces = await self.transport.stream(Call("GET", path, query, {**self.headers, "Accept": "*/*"}))
        _raise_for(answer)
        async for piece in pieces:
            yield piece

    async def _take_back(self, document: Document) -> None:
        try:
            await self.delete(kind_of(document), key_of(document), uid=uid_of(document), propagation="Background")
        except NotFound:
            return

    async def _patch(self, path: str, query: Mapping[str, str], body: object, content_type: str) -> Document:
        headers = {**self.headers, "Content-Type": content_type}
        query = {**query, **self.validation}
        return self._document(await self.transport.call(Call("PATCH", path, query, headers, _encode(body))))

    async def _ask(self, method: str, path: str, query: Mapping[str, str] = {}, body: object = None) -> Document:
        if body is None:
            return self._document(await self.transport.call(Call(method, path, query, self.headers)))
        headers = {**self.headers, "Content-Type": "application/json"}
        if method != "DELETE":
            query = {**query, **self.validation}
        return self._document(await self.transport.call(Call(method, path, query, headers, _encode(body))))

    def _document(self, answer: Answer) -> Document:
        if "warning" in answer.headers:
            self.warnings += [_warning(line) for line in answer.headers["warning"].split("\n")]
        _raise_for(answer)
        document: Document = _decode(answer.body)
        return document


def _selection(select: Select) -> dict[str, str]:
    chosen = {"labelSelector": select.labels, "fieldSelector": select.fields}
    return {name: text for name, text in chosen.items() if text}


def _warning(line: str) -> str:
    """The words of a Warning header: `299 - "words"`."""
    return line.split('"', 1)[-1].rsplit('"', 1)[0].replace('\\"', '"')


def _raise_for(answer: Answer) -> None:
    if answer.status < 400:
        return
    try:
        body = _decode(answer.body)
    except msgspec.DecodeError:
        body = answer.body.decode("utf-8", "replace").strip()
    raise from_status(answer.status, body)


def _change(line: bytes) -> Change:
    event = _decode(line)
    if event["type"] == "ERROR":
        status = event["object"]
        error = from_status(int(status.get("code", 500)), status)
        raise error if error.code != 410 else Gone(error.message)
    return Change(event["type"], event["object"])
