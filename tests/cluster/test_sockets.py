"""Real sockets and clients that behave badly: the server stays, and forgets them."""

import asyncio
import contextlib
import gzip
import json

from allaboard.api import kinds
from allaboard.cluster.server import Address, serve
from tests.cluster.plane import Plane, config_map
from tests.patience import PATIENCE

CMS = "/api/v1/namespaces/default/configmaps"


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", "Authorization: Bearer admin", *lines, "", ""]).encode()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    return int(lines[0].split()[1]), headers, await reader.readexactly(int(headers.get("content-length", 0)))


def served(story):
    async def run():
        plane = await Plane().furnish()
        async with serve(plane.app, Address()) as serving:

            async def connect():
                return await asyncio.open_connection("127.0.0.1", serving.port)

            async with asyncio.timeout(PATIENCE):
                await story(plane, connect)

    asyncio.run(run())


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_requests_follow_each_other_on_one_connection():
    async def story(plane, connect):
        reader, writer = await connect()
        body = json.dumps(config_map("a", k="v")).encode()
        writer.write(head("POST", CMS, f"Content-Length: {len(body)}") + body + head("GET", f"{CMS}/a"))
        assert [(await answer(reader))[0] for _ in range(2)] == [201, 200]
        writer.close()

    served(story)


def test_a_client_that_hangs_up_in_the_middle_of_a_body_leaves_nothing():
    async def story(plane, connect):
        for _ in range(5):
            _, writer = await connect()
            writer.write(head("POST", CMS, "Content-Length: 1000") + b'{"metadata":')
            await writer.drain()
            writer.close()
        reader, writer = await connect()
        writer.write(head("GET", CMS))
        code, _, data = await answer(reader)
        assert (code, json.loads(data)["items"]) == (200, [])
        writer.close()

    served(story)


def test_a_watch_is_flushed_at_once_and_forgotten_when_its_client_goes():
    async def story(plane, connect):
        table = plane.cluster.store.table("configmaps")
        reader, writer = await connect()
        writer.write(head("GET", f"{CMS}?watch=true"))
        await reader.readuntil(b"\r\n\r\n")
        await until(lambda: table.watchers)
        await plane.client.create(kinds.CONFIG_MAP, config_map("a"), manager="t")
        assert b'"type":"ADDED"' in await reader.readuntil(b"}\n")
        writer.close()
        await until(lambda: not table.watchers)

    served(story)


def test_a_watcher_that_does_not_read_falls_off_and_is_let_go():
    async def story(plane, connect):
        table = plane.cluster.store.table("configmaps")
        table.ring.limit = 8
        reader, writer = await connect()
        writer.transport.pause_reading()
        writer.write(
            head("GET", f"{CMS}?watch=true&resourceVersion={plane.cluster.store.committed}", "Connection: close")
        )
        await until(lambda: table.watchers)
        for index in range(200):
            await plane.client.create(kinds.CONFIG_MAP, config_map(f"n{index}", k="x" * 200_000), manager="t")
            await asyncio.sleep(0)
        writer.transport.resume_reading()
        told = await reader.read()
        assert b'"code":410' in told and told.endswith(b"0\r\n\r\n")
        assert not table.watchers
        writer.close()

    served(story)


def test_a_large_answer_is_packed_for_who_can_unpack_it():
    async def story(plane, connect):
        await plane.client.create(kinds.CONFIG_MAP, config_map("a", k="x" * 200_000), manager="t")
        reader, writer = await connect()
        writer.write(head("GET", f"{CMS}/a", "Accept-Encoding: gzip"))
        _, headers, data = await answer(reader)
        assert headers["content-encoding"] == "gzip" and len(data) < 20_000
        assert json.loads(gzip.decompress(data))["data"]["k"] == "x" * 200_000
        packed = gzip.compress(json.dumps(config_map("b")).encode())
        lines = (f"Content-Length: {len(packed)}", "Content-Encoding: gzip")
        writer.write(head("POST", CMS, *lines) + packed)
        assert (await answer(reader))[0] == 201
        writer.close()

    served(story)


def test_a_body_beyond_the_limit_is_refused_before_it_is_read():
    async def story(plane, connect):
        reader, writer = await connect()
        writer.write(head("POST", CMS, "Content-Length: 999999999"))
        assert (await answer(reader))[0] == 413
        writer.close()

    served(story)


def test_noise_is_answered_and_does_not_hurt():
    async def story(plane, connect):
        for noise in (b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"\x00" * 100, b"POST / HTTP/9.9\r\n\r\n"):
            reader, writer = await connect()
            writer.write(noise)
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        reader, writer = await connect()
        writer.write(head("GET", "/healthz"))
        assert (await answer(reader))[2] == b"ok"
        writer.close()

    served(story)
