"""The HTTP and WebSocket protocols as our server speaks them: uvicorn's, and who is at the other end by certificate."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

PEER = "peer"  # where a request's scope has the client's certificate (DER), if it showed one


def certificate_of(transport: asyncio.BaseTransport) -> bytes | None:
    """The certificate a client showed; the handshake has verified it."""
    ssl_object = transport.get_extra_info("ssl_object")
    return ssl_object.getpeercert(True) if ssl_object is not None else None  # noqa: FBT003 - the form, for ssl


class Http(HttpToolsProtocol):
    """HTTP, with the client's certificate in every request's scope."""

    peer: bytes | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.peer = certificate_of(transport)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self.peer:
            self.scope[PEER] = self.peer  # type: ignore[literal-required]


class WebSocket(WebSocketsSansIOProtocol):
    """WebSockets, likewise."""

    async def run_asgi(self) -> None:
        if peer := certificate_of(self.transport):
            self.scope[PEER] = peer  # type: ignore[literal-required]
        await super().run_asgi()
