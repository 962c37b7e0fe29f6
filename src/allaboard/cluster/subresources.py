"""What lies below an object or beside the stored kinds: bindings, evictions, tokens, scale, logs, reviews."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from allaboard.api.documents import Document, Key
from allaboard.api.errors import BadRequest, Unavailable
from allaboard.api.kinds import NODE, POD, Kind
from allaboard.cluster import body, options
from allaboard.cluster.answers import TEXT, Answer, negotiate, written
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.call import Call, asked, check_patch_type, read_patch, read_typed
from allaboard.cluster.intake import accept, check_kind
from allaboard.cluster.nodes import STATS, Nodes, node_named, not_running, way_to_log, way_to_process
from allaboard.cluster.patch import Patch
from allaboard.cluster.plane import Cluster
from allaboard.cluster.pods import bind, evict
from allaboard.cluster.reviews import Reviews
from allaboard.cluster.scale import apply_scale, read_scale, shaped, write_scale

BOUND = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
APPLY = "application/apply-patch+yaml"
# Kinds of bodies that are never stored.
BINDING, EVICTION = Kind("", "v1", "Binding", "bindings"), Kind("policy", "v1", "Eviction", "")
SCALE, TOKEN_REQUEST = Kind("autoscaling", "v1", "Scale", ""), Kind("authentication.k8s.io", "v1", "TokenRequest", "")


@dataclass(frozen=True, slots=True)
class Flow:
    """An answer that comes in pieces, from a node."""

    code: int
    type: str
    chunks: AsyncGenerator[bytes, None]


class Subresources:
    """Answers what the plain verbs do not; None where they do."""

    def __init__(self, cluster: Cluster, reviews: Reviews, nodes: Nodes | None) -> None:
        self.cluster, self.reviews, self.nodes = cluster, reviews, nodes

    async def answer(self, call: Call, place: Place) -> Answer | Flow | None:
        """By the subresource, or by a kind that is never stored."""
        match place.subresource:
            case "binding":
                return await self._bind(call, place)
            case "eviction":
                return await self._evict(call, place)
            case "token":
                return self._token(call, place)
            case "scale":
                return await self._scale(call, place)
            case "log":
                return await self._log(call, place)
            case "exec" | "attach" | "portforward":
                way_to_process(self.cluster, place, call.query)
                words = not_running(self.cluster, place, call.query)
                if words and "spdy" in call.headers.get("upgrade", "").lower():  # kubectl's second try shows our words
                    return Answer(500, words.encode(), TEXT)
                raise BadRequest("Upgrade request required")
            case "proxy":
                return await self._proxy(call, place)
            case "":
                return await self._unstored(call, place)
        return None

    async def _unstored(self, call: Call, place: Place) -> Answer | None:
        if "get" in place.rules.verbs or call.method != "POST":
            return None
        if place.rules.kind.kind == "Binding":
            return await self._bind(call, place)
        ask = asked(call, options.read_write("CreateOptions", call.query))
        document = self._read(call, place, ask)
        review = self.reviews.answer(place, document, ask)
        return written(negotiate(call.headers.get("accept", "")), review, 201) if review else None

    def _read(self, call: Call, place: Place, ask: Ask) -> Document:
        document, twice = body.read(call.data, call.content_type, place.rules.kind.kind)
        metadata = document.get("metadata") if isinstance(document.get("metadata"), dict) else {}
        return accept(place.rules, check_kind(place.rules, {**document, "metadata": metadata}, ask), ask, twice)

    async def _bind(self, call: Call, place: Place) -> Answer:
        ask = asked(call, options.read_write("CreateOptions", call.query))
        document = read_typed(call, BINDING, ask, place.key.namespace)
        key = place.key if place.key.name else Key(place.key.namespace, document["metadata"].get("name") or "")
        if not key.name:
            raise BadRequest("Name parameter required.")
        if (document["metadata"].get("name") or "") != key.name:
            raise BadRequest("name in URL does not match name in Binding object")
        pods = self.cluster.registry.of(POD)
        await bind(self.cluster, Place(pods, key, "binding"), document, ask)
        return written(negotiate(call.headers.get("accept", "")), BOUND, 201)

    async def _evict(self, call: Call, place: Place) -> Answer:
        ask = asked(call, options.read_write("CreateOptions", call.query))
        document = read_typed(call, EVICTION, ask, place.key.namespace)
        await evict(self.cluster, place, document, ask)
        return written(negotiate(call.headers.get("accept", "")), BOUND, 201)

    def _token(self, call: Call, place: Place) -> Answer:
        ask = asked(call, options.read_write("CreateOptions", call.query))
        document = read_typed(call, TOKEN_REQUEST, ask, place.key.namespace)
        answer = self.reviews.request_token(place, document, ask)
        return written(negotiate(call.headers.get("accept", "")), answer, 201)

    async def _scale(self, call: Call, place: Place) -> Answer:
        form, now = negotiate(call.headers.get("accept", "")), self.cluster.world.now()
        if call.method == "GET":
            return written(form, shaped(form, await read_scale(self.cluster, place), now))
        if call.method == "PUT":
            ask = asked(call, options.read_write("UpdateOptions", call.query))
            document = read_typed(call, SCALE, ask, place.key.namespace)
            return written(form, shaped(form, await write_scale(self.cluster, place, document, ask), now))
        media = call.content_type.split(";")[0].strip().lower()
        check_patch_type(media, place)
        ask = asked(call, options.read_write("PatchOptions", call.query, apply=media == APPLY))
        if media == APPLY:
            await apply_scale(self.cluster, place, ask)
        value, twice = read_patch(call.data, media)
        scale = await write_scale(self.cluster, place, Patch(media, value, twice), ask)
        return written(form, shaped(form, scale, now))

    async def _log(self, call: Call, place: Place) -> Answer | Flow:
        way = way_to_log(self.cluster, place, call.query)
        if way is None:
            return Answer(204, b"", "")
        if self.nodes is None:
            raise Unavailable("logs are not served here: this server has no way to reach nodes")
        fetched = await self.nodes.fetch(way.node, way.target)
        return Flow(fetched.code, fetched.type or TEXT, _chunks(fetched.chunks))

    async def _proxy(self, call: Call, place: Place) -> Flow:
        """Of what lives behind objects, what the pods of a node use; nothing else is passed on."""
        if place.rules.kind != NODE or not call.path.endswith(f"/proxy{STATS}") or self.nodes is None:
            raise BadRequest("address not allowed")
        fetched = await self.nodes.fetch(node_named(self.cluster, place.key.name), STATS)
        return Flow(fetched.code, fetched.type or TEXT, _chunks(fetched.chunks))


async def _chunks(chunks) -> AsyncGenerator[bytes, None]:  # type: ignore[no-untyped-def]
    async for chunk in chunks:
        yield chunk
