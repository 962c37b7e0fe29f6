"""The API server: an ASGI app over the cluster's verbs, and uvicorn to serve it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import uvicorn

from allaboard.api.documents import Key
from allaboard.api.errors import ApiError, Internal, NotAcceptable, Unauthorized, Unavailable
from allaboard.cluster import options, refusals, routes, wires
from allaboard.cluster.access import Allow, Attributes, Rbac, User, forbidden
from allaboard.cluster.answers import JSON, PROTOBUF, TEXT, YAML, Answer, refused
from allaboard.cluster.asgi import (
    ClientGone,
    Receive,
    Scope,
    Send,
    Wire,
    lifespan,
    read_body,
    reject,
    send_answer,
    send_stream,
)
from allaboard.cluster.ask import Place
from allaboard.cluster.call import APPLY, Call, warning_headers
from allaboard.cluster.dispatch import Dispatcher
from allaboard.cluster.impersonation import acting
from allaboard.cluster.nodes import Nodes, Socket, Way, way_to_process
from allaboard.cluster.pages import Pages, unless_known
from allaboard.cluster.plane import Cluster
from allaboard.cluster.reviews import Reviews
from allaboard.cluster.routes import NoSuchPath
from allaboard.cluster.streams import Stream
from allaboard.cluster.subresources import Flow, Subresources
from allaboard.cluster.tokens import Signer, Tokens, user_of_certificate

log = logging.getLogger(__name__)

VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Doors:
    """Who is let in, and what the server shows of itself: handed in by main."""

    tokens: Mapping[str, User]
    mode: str = "rbac"  # or "allow": whoever is known may do everything
    signer: Signer | None = None
    metrics: Callable[[], bytes] | None = None
    anonymous: User | None = None  # who asks without a token, on a unix socket
    nodes: Nodes | None = None  # how to reach the pods of a node: logs, exec, attach, port-forward


class App:
    """The ASGI app."""

    def __init__(self, cluster: Cluster, doors: Doors) -> None:
        self.cluster, self.doors = cluster, doors
        self.tokens = Tokens(doors.tokens, doors.signer, cluster.head)
        self.access: Allow | Rbac = Rbac(cluster.head) if doors.mode == "rbac" else Allow(cluster.head)
        reviews = Reviews(cluster, self.tokens, self.access)
        self.dispatcher = Dispatcher(cluster, Subresources(cluster, reviews, doors.nodes))
        self.pages = Pages(cluster, doors.signer, doors.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            await lifespan(receive, send)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Exec, attach and port-forward: the client's socket is connected with the node's."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        protocols = list(scope.get("subprotocols") or ())
        await receive()  # websocket.connect
        try:
            way = self._way(scope, headers, protocols)
            if self.doors.nodes is None:
                raise Unavailable("this server has no way to reach nodes")
            offered = [protocol for protocol in protocols if not protocol.startswith(TOKEN_PROTOCOL)]
            await self.doors.nodes.relay(way.node, way.target, Socket(offered, receive, send))
        except ApiError as error:
            await reject(refused(error), scope, send)

    def _way(self, scope: Scope, headers: dict[str, str], protocols: list[str]) -> Way:
        token = next((p.removeprefix(TOKEN_PROTOCOL) for p in protocols if p.startswith(TOKEN_PROTOCOL)), "")
        if token and "authorization" not in headers:
            headers["authorization"] = f"Bearer {_decoded(token)}"
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        parts = routes.parse(scope["path"])
        user = acting(self._user(scope, headers), scope["headers"], self._authorize)
        if parts is None or parts.subresource not in ("exec", "attach", "portforward"):
            raise refusals.no_resource()
        self._authorize(user, Attributes("get", "", parts.plural, parts.subresource, parts.namespace, parts.name))
        return way_to_process(self.cluster, routes.place(self.cluster.registry, parts, "GET"), query)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        warnings: list[str] = []
        try:
            answer = await self._answer(scope, headers, receive, warnings)
        except NoSuchPath:
            answer = Answer(404, b"404 page not found\n", TEXT)
        except ApiError as error:
            answer = refused(error)
        except ClientGone:
            return
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            answer = refused(Internal("Internal error occurred: the request could not be answered; see the log"))
        if isinstance(answer, Stream):
            await send_stream(200, answer.shaper.form.media, answer.lines(), Wire(receive, send))
        elif isinstance(answer, Flow):
            await send_stream(answer.code, answer.type, answer.chunks, Wire(receive, send))
        else:
            answer.headers = [*answer.headers, *warning_headers(warnings)] if warnings else answer.headers
            await send_answer(answer, headers, send, body=scope["method"] != "HEAD")

    async def _answer(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, warnings: list[str]
    ) -> Answer | Stream | Flow:
        method, path, text = scope["method"], scope["path"], scope["query_string"]
        query = parse_qs(text.decode("latin-1"), keep_blank_values=True) if text else {}
        user = acting(self._user(scope, headers), scope["headers"], self._authorize)
        parts = routes.parse(path)
        if parts is None:
            return self._page(method, path, headers, query, user)
        self._authorize(user, attributes_of(method, parts, query))
        if method not in VERBS or method == "HEAD":
            raise refusals.no_method()
        place = routes.place(self.cluster.registry, parts, method)
        self._authorize_creation(method, headers, place, user)
        if place.rules.deprecation:
            warnings.append(place.rules.deprecation)
        call = Call(method, path, query, headers, await read_body(receive, headers), user, warnings)
        if parts.watch and place.key.name:
            query["fieldSelector"] = [f"metadata.name={place.key.name}"]
            place = place._replace(key=Key(place.key.namespace, ""))
        if method == "GET" and not place.key.name and (parts.watch or options.truth(query, "watch")):
            query["watch"] = ["true"]
            return self._watch(call, place)
        return await self.dispatcher.answer(call, place)

    def _user(self, scope: Scope, headers: Mapping[str, str]) -> User:
        """Who asks: by certificate, by token, or (on a unix socket) by being there."""
        if peer := scope.get(wires.PEER):
            return user_of_certificate(peer)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return self.tokens.user(token.strip(), self.cluster.world.now())[0]
        if self.doors.anonymous is not None and not scheme:
            return self.doors.anonymous
        raise Unauthorized("Unauthorized")

    def _authorize(self, user: User, wanted: Attributes) -> None:
        if not self.access.allows(user, wanted):
            raise forbidden(user, wanted)

    def _authorize_creation(self, method: str, headers: Mapping[str, str], place: Place, user: User) -> None:
        """An apply of something that is not there creates it: that needs the right to."""
        if (
            method == "PATCH"
            and headers.get("content-type", "").startswith(APPLY)
            and self.cluster.latest(place) is None
        ):
            kind = place.rules.kind
            self._authorize(user, Attributes("create", kind.group, kind.plural, "", *place.key))

    def _page(
        self, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, list[str]], user: User
    ) -> Answer:
        self._authorize(user, Attributes(method.lower(), path=path))
        if method not in ("GET", "HEAD"):
            raise refusals.no_method()
        answer = self.pages.answer(path, headers.get("accept", ""), query)
        return unless_known(answer, headers.get("if-none-match", ""))

    def _watch(self, call: Call, place: Place) -> Stream:
        wanted = options.read_list(place.rules, call.query)
        shaper = self.dispatcher.shaper(call, place)
        if shaper.form.media == YAML:
            accepted = f"{JSON};stream=watch, {PROTOBUF};stream=watch"
            raise NotAcceptable(f"only the following media types are accepted: {accepted}")
        return Stream(self.cluster.store, place, wanted, shaper)


def attributes_of(method: str, path: routes.Path, query: Mapping[str, list[str]]) -> Attributes:
    """What a request wants to do, as roles speak of it."""
    verb = VERBS.get(method, method.lower())
    if verb == "get" and not path.name:
        verb = "watch" if options.truth(query, "watch") else "list"
    elif verb == "delete" and not path.name:
        verb = "deletecollection"
    # A namespace lies in itself: a role inside of it may speak of it.
    namespace = path.name if (path.group, path.plural) == ("", "namespaces") else path.namespace
    return Attributes(verb, path.group, path.plural, path.subresource, namespace, path.name)


# Browsers cannot send headers with a WebSocket: the token comes as a protocol.
TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."


def _decoded(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        raise Unauthorized("Unauthorized") from None


@dataclass(frozen=True)
class Address:
    """Where to listen: a host and port, or a unix socket; with a certificate it is https."""

    host: str = "127.0.0.1"
    port: int = 0
    socket: str = ""
    certificate: str = ""
    key: str = ""
    tls_version: int = 0  # the least that is spoken; 0 leaves it to the library, and no ciphers likewise
    ciphers: str = ""

    authority: str = ""  # whose client certificates are believed; "" asks for none


class Serving:
    """A running server; `port` is where it listens."""

    def __init__(self, server: uvicorn.Server, task: asyncio.Task[None]) -> None:
        self._server, self._task = server, task

    @property
    def port(self) -> int:
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    def renew(self, address: Address) -> None:
        """Show another certificate to whoever connects from now on."""
        if (context := self._server.config.ssl) is not None:
            context.load_cert_chain(address.certificate, address.key)

    async def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True  # watches have no end of their own
        await self._task

    async def ended(self) -> None:
        await self._task


@contextlib.asynccontextmanager
async def serve(app: Any, address: Address) -> AsyncIterator[Serving]:
    """Serve an ASGI app until the block ends."""
    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        uds=address.socket or None,
        ssl_certfile=address.certificate or None,
        ssl_keyfile=address.key or None,
        ssl_ciphers=address.ciphers or "TLSv1",
        ssl_ca_certs=address.authority or None,
        ssl_cert_reqs=ssl.CERT_OPTIONAL if address.authority else ssl.CERT_NONE,
        http=wires.Http,
        ws=wires.WebSocket,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    config.load()
    if config.ssl is not None and address.tls_version:
        config.ssl.minimum_version = ssl.TLSVersion(address.tls_version)
    server = _Server(config)
    task = asyncio.ensure_future(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    serving = Serving(server, task)
    try:
        if task.done():
            task.result()
        yield serving
    finally:
        await serving.stop()


class _Server(uvicorn.Server):
    """Signals are main's business."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield
