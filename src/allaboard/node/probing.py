"""Probes and hooks carried out: a command in the container, a request to its port, or a pause."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Awaitable, Callable

from allaboard.api.documents import Document
from allaboard.node.porter import Porter, connected
from allaboard.node.probes import KINDS, Probe, Score, after, grpc_request, grpc_verdict, port_of, probe_of
from allaboard.node.processes import Attempt
from allaboard.node.streams import Command, readable
from allaboard.node.tenants import Tenant, container_of

Told = Callable[[str, bool | None, str], None]  # probe kind, what it concludes, words about the last answer


class Actions:
    """What may be done to a container from outside."""

    def __init__(self, porter: Porter) -> None:
        self.porter = porter

    async def perform(self, tenant: Tenant, attempt: Attempt, action: Document, seconds: float) -> str:
        """Do it; "" when it went well, else why not."""
        try:
            async with asyncio.timeout(max(seconds, 0.001)):
                return await self._kind(tenant, attempt, action)
        except TimeoutError:
            return f"timed out after {seconds:g}s"
        except (OSError, ValueError, EOFError) as problem:
            return str(problem) or type(problem).__name__

    def _kind(self, tenant: Tenant, attempt: Attempt, action: Document) -> Awaitable[str]:
        container = container_of(tenant.document, attempt.container)
        if "exec" in action:
            return self._exec(attempt, action["exec"].get("command") or [])
        if "httpGet" in action:
            return self._http(tenant, container, action["httpGet"])
        if "tcpSocket" in action:
            return self._tcp(tenant, container, action["tcpSocket"])
        if "grpc" in action:
            return self._grpc(tenant, action["grpc"])
        return _pause(action.get("sleep") or {})

    async def _exec(self, attempt: Attempt, command: list[str]) -> str:
        reading, writing = os.pipe()
        null, sink = os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
        try:
            await self.porter.execute(attempt, Command(command), [null, sink, sink, writing])
        finally:
            for descriptor in (null, sink, writing):
                os.close(descriptor)
        try:
            await readable(reading)
            found: Document = json.loads(os.read(reading, 65536) or b'{"code": 137}')
        finally:
            os.close(reading)
        return "" if found["code"] == 0 else f"command exited with {found['code']}"

    async def _link(self, tenant: Tenant, host: str, port: int) -> socket.socket:
        if self.porter.processes.level in "AB":
            _, given = await self.porter.processes.ask({"do": "socket"})
            return await connected(socket.socket(fileno=given[0]), host or tenant.address, port)
        try:
            return await connected(socket.socket(), host or tenant.address, port)
        except OSError:
            return await connected(socket.socket(), "127.0.0.1", port)

    async def _tcp(self, tenant: Tenant, container: Document, spec: Document) -> str:
        (await self._link(tenant, spec.get("host", ""), port_of(container, spec["port"]))).close()
        return ""

    async def _http(self, tenant: Tenant, container: Document, spec: Document) -> str:
        """Upstream: anything from 200 to 399 is well."""
        port = port_of(container, spec["port"])
        link = await self._link(tenant, spec.get("host", ""), port)
        context = _unverified() if str(spec.get("scheme", "HTTP")).upper() == "HTTPS" else None
        name = "" if context else None
        reader, writer = await asyncio.open_connection(sock=link, ssl=context, server_hostname=name)
        try:
            writer.write(_http_request(spec, tenant.address, port))
            status = (await reader.readline()).split()
        finally:
            writer.close()
        code = int(status[1]) if len(status) > 1 and status[1].isdigit() else 0
        return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"

    async def _grpc(self, tenant: Tenant, spec: Document) -> str:
        link = await self._link(tenant, "", int(spec["port"]))
        reader, writer = await asyncio.open_connection(sock=link)
        heard = b""
        try:
            writer.write(grpc_request(spec.get("service") or ""))
            while (verdict := grpc_verdict(heard)) is None:
                piece = await reader.read(4096)
                if not piece:
                    return "the server closed the call"
                heard += piece
            return verdict
        finally:
            writer.close()

    async def watch(self, tenant: Tenant, attempt: Attempt, told: Told) -> None:
        """Every probe of one attempt, for as long as it lives: startup first, then the other two."""
        container = container_of(tenant.document, attempt.container)
        probes = {kind: probe for kind in KINDS if (probe := probe_of(container, kind)) is not None}
        startup = probes.pop("startup", None)
        if startup is not None and not await self._until_settled(tenant, attempt, startup, told):
            return
        async with asyncio.TaskGroup() as group:
            for probe in probes.values():
                group.create_task(self._for_ever(tenant, attempt, probe, told))

    async def _until_settled(self, tenant: Tenant, attempt: Attempt, probe: Probe, told: Told) -> bool:
        """A startup probe: its first conclusion is final."""
        await asyncio.sleep(probe.delay.total_seconds())
        score = Score()
        while score.holds is None:
            score = await self._ask(tenant, attempt, probe, score, told)
            if score.holds is None:
                await asyncio.sleep(probe.period.total_seconds())
        return score.holds

    async def _for_ever(self, tenant: Tenant, attempt: Attempt, probe: Probe, told: Told) -> None:
        await asyncio.sleep(probe.delay.total_seconds())
        score = Score()
        while True:
            score = await self._ask(tenant, attempt, probe, score, told)
            await asyncio.sleep(probe.period.total_seconds())

    async def _ask(self, tenant: Tenant, attempt: Attempt, probe: Probe, score: Score, told: Told) -> Score:
        words = await self.perform(tenant, attempt, probe.action, probe.timeout)
        score = after(score, probe, not words)
        told(probe.kind, score.holds, words)
        return score


async def _pause(spec: Document) -> str:
    await asyncio.sleep(float(spec.get("seconds") or 0))
    return ""


def _unverified() -> ssl.SSLContext:
    """Upstream: a probe does not check certificates."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _http_request(spec: Document, address: str, port: int) -> bytes:
    headers = {"Host": f"{address}:{port}", "User-Agent": "kube-probe/1.35", "Accept": "*/*", "Connection": "close"}
    headers |= {entry["name"]: entry["value"] for entry in spec.get("httpHeaders") or []}
    path = spec.get("path") or "/"
    lines = [f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()
