"""The transport against a real server on loopback: reuse, streams, broken connections, unreachable servers."""

import asyncio

import pytest

from allaboard.api.errors import Unavailable
from allaboard.kube.http import Address, Call, Transport

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


async def serving(answers):
    """A server that gives one answer per request; an answer of None hangs up. Counts its connections."""
    connections = 0

    async def serve(reader, writer):
        nonlocal connections
        connections += 1
        while answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            await reader.readexactly(length[0] if length else 0)
            answer = answers.pop(0)
            if answer is None:
                break
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, Transport(Address(*server.sockets[0].getsockname())), lambda: connections


def test_a_connection_is_used_again():
    async def story():
        server, transport, connections = await serving([PLAIN, PLAIN])
        async with server:
            bodies = [(await transport.call(Call("GET", "/"))).body for _ in range(2)]
        await transport.close()
        return bodies, connections()

    assert asyncio.run(story()) == ([b"ok", b"ok"], 1)


def test_an_idle_connection_the_server_closed_is_replaced():
    async def story():
        server, transport, connections = await serving([PLAIN, None, PLAIN])
        async with server:
            await transport.call(Call("GET", "/"))
            answer = await transport.call(Call("POST", "/", body=b"x"))
        await transport.close()
        return answer.body, connections()

    assert asyncio.run(story()) == (b"ok", 2)


def test_a_stream_comes_in_pieces():
    async def story():
        server, transport, _ = await serving([CHUNKED])
        async with server:
            answer, pieces = await transport.stream(Call("GET", "/"))
            return answer.status, b"".join([piece async for piece in pieces])

    assert asyncio.run(story()) == (200, b"onetwo")


def test_nobody_there_is_one_sentence():
    with pytest.raises(Unavailable, match="nobody answers there; `aboard up` starts a plane"):
        asyncio.run(Transport(Address("127.0.0.1", 1)).call(Call("GET", "/")))
