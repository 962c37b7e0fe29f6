"""Calls to webhooks: where they listen, what a reply must be, and the words for one that does not come.

The call itself is a function that main hands in: this module reaches nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key
from allaboard.cluster.access import View


class Unreachable(Exception):
    """Nobody answered, or not in a way that could be used; the words are those of upstream's client."""


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook: its address as errors name it, and where to knock instead, if it stands for a service."""

    url: str
    host: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    code: int
    body: bytes


# (where, what, seconds, CA bundle) → what came back; raises `Unreachable`.
Call = Callable[[Target, bytes, float, bytes], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Outside:
    """What main hands in."""

    call: Call


class Caller:
    """Posts reviews to webhooks."""

    def __init__(self, outside: Outside, view: View, uid: Callable[[], str]) -> None:
        self.outside, self.view, self.uid = outside, view, uid

    async def post(self, client: Document, review: Document, seconds: float, query: str = "") -> Document:
        """The review that comes back; raises `Unreachable`."""
        target = self._target(client, query)
        bundle = base64.b64decode(client.get("caBundle") or "")
        reply = await self.outside.call(target, json.dumps(review).encode(), seconds, bundle)
        return _read(reply, review)

    def _target(self, client: Document, query: str) -> Target:
        if url := client.get("url"):
            return Target(f"{url}{query}")
        service = client.get("service") or {}
        space, name, port = service.get("namespace", ""), service.get("name", ""), service.get("port") or 443
        path = service.get("path") or "/"
        url = f"https://{name}.{space}.svc:{port}{path if path.startswith('/') else f'/{path}'}{query}"
        try:
            return Target(url, *self._endpoint(Key(space, name), port))
        except LookupError as fault:
            raise Unreachable(f'Post "{url}": {fault.args[0]}') from None

    def _endpoint(self, key: Key, port: int) -> tuple[str, int]:
        """An address behind a service. Upstream: proxy.go, ResolveEndpoint."""
        service = self.view.get(kinds.SERVICE, key)
        if service is None:
            raise LookupError(f'service "{key.name}" not found')
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName", "")), port
        named = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
        if named is None:
            raise LookupError(f'no service port {port} found for service "{key.name}"')
        slices = self.view.list(kinds.ENDPOINT_SLICE, key.namespace)
        found = _ready([s for s in slices if _serves(s, key.name)], named.get("name") or "")
        if found is None:
            raise LookupError(f'no endpoints available for service "{key.name}"')
        return found


def _serves(endpoints: Document, service: str) -> bool:
    return (endpoints["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == service


def _ready(slices: Documents, name: str) -> tuple[str, int] | None:
    for each in slices:
        ports = [port for port in each.get("ports") or () if (port.get("name") or "") == name and port.get("port")]
        for endpoint in each.get("endpoints") or ():
            ready = (endpoint.get("conditions") or {}).get("ready") is not False
            if ports and ready and endpoint.get("addresses"):
                return str(endpoint["addresses"][0]), int(ports[0]["port"])
    return None


# What a client of Go says about an answer that says nothing itself.
_BARE = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "unknown",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
_TYPE = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_NAMES = {str: "string", list: "array", bool: "bool", int: "number", float: "number"}


def _read(reply: Reply, review: Document) -> Document:
    """The review in a reply; it must be of the kind that was sent, or say nothing about its kind."""
    try:
        body = json.loads(reply.body)
    except ValueError:
        body = ""  # upstream reads it as YAML, in which most noise is a text
    if not 200 <= reply.code < 300:
        is_status = isinstance(body, dict) and body.get("kind") == "Status" and body.get("message")
        raise Unreachable(body["message"] if is_status else _bare(reply.code))
    if not isinstance(body, dict):
        found = _NAMES.get(type(body), "string")
        words = "couldn't get version/kind; json parse error: json: cannot unmarshal"
        raise Unreachable(f"{words} {found} into Go value of type {_TYPE}")
    version, kind = body.get("apiVersion") or "", body.get("kind") or ""
    if kind and kind != review["kind"]:
        words = f'no kind "{kind}" is registered for version "{version}"'
        raise Unreachable(f'{words} in scheme "pkg/runtime/scheme.go:111"')
    if kind and version != review["apiVersion"]:
        sent, got = (each.rpartition("/")[2] for each in (review["apiVersion"], version))
        raise Unreachable(f"converting ({got}.{kind}) to ({sent}.{kind}): unknown conversion")
    return body


def _bare(code: int) -> str:
    if code in _BARE:
        return _BARE[code]
    if code >= 500:
        return 'an error on the server ("unknown") has prevented the request from succeeding'
    return f"the server responded with the status code {code} but did not return more information"
