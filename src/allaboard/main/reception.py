"""The door for a real API server: our hooks over https, their certificate kept in a Secret, their registration."""

from __future__ import annotations

import asyncio
import base64
import logging
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import AlreadyExists, ApiError, Conflict
from allaboard.api.kinds import kind_of
from allaboard.cluster.asgi import Receive, Scope, Send
from allaboard.cluster.server import Address, Serving, serve
from allaboard.kube.admission import Hook
from allaboard.kube.certificates import Pair, is_good_for, issue, keep, make_authority
from allaboard.kube.client import Client
from allaboard.kube.clock import Clock
from allaboard.kube.pacing import Pace
from allaboard.kube.registration import Door, configurations
from allaboard.kube.remote import RemoteClient
from allaboard.kube.webhook import Webhook
from allaboard.main.doors import REPORTS
from allaboard.main.settings import BadSetting
from allaboard.main.tasks import end
from allaboard.training.facts import Settings as TrainingSettings
from allaboard.training.progress import ProgressDoor
from allaboard.training.tls import Tls

log = logging.getLogger("allaboard")

MANAGER = "aboard"
NAMESPACE = TrainingSettings().namespace
PARTS = ("ca.crt", "ca.key", "tls.crt", "tls.key")
EARLY = timedelta(days=60)  # a certificate is renewed that long before it ends
LOOK_AGAIN = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Reception:
    """Where we listen, and where the API server finds us there: at a URL, or behind a Service."""

    port: int
    host: str = "127.0.0.1"
    url: str = ""
    service: str = ""  # NAMESPACE/NAME[:PORT]
    secret: str = "aboard-webhook-cert"
    reports: int | None = None  # a second port, where pods report their progress
    pace: Pace | None = None  # of the calls that reports cause
    tls: Tls = Tls()  # noqa: RUF009 - frozen

    def door(self, authority: bytes) -> Door:
        if not self.service:
            return Door(authority, self.url or f"https://127.0.0.1:{self.port}")
        namespace, name, port = self._service()
        return Door(authority, namespace=namespace, service=name, port=port)

    @property
    def address(self) -> str:
        """Where pods reach us."""
        if not self.service:
            return self.url or f"https://127.0.0.1:{self.reports or self.port}"
        namespace, name, port = self._service()
        return f"https://{name}.{namespace}.svc:{self.reports or port}"

    @property
    def names(self) -> list[str]:
        """What the certificate must be good for."""
        return sorted({urlsplit(self.address).hostname or "", "127.0.0.1", "localhost"})

    def _service(self) -> tuple[str, str, int]:
        place, _, port = self.service.partition(":")
        namespace, _, name = place.partition("/")
        if not namespace or not name or not (port or "443").isdecimal():
            raise BadSetting(f'--webhook-service: "{self.service}" must be NAMESPACE/NAME or NAMESPACE/NAME:PORT')
        return namespace, name, int(port or 443)


class Front:
    """What is asked there: progress reports of running jobs, and everything else is admission."""

    def __init__(self, desk: Desk) -> None:
        self.reporter = desk.reporter
        self.webhook = Webhook(desk.hooks, desk.client)
        self.progress = ProgressDoor(desk.reporter, desk.reporter, self._review)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        report = scope["type"] == "http" and scope["method"] == "POST" and REPORTS.match(scope["path"])
        await (self.progress if report else self.webhook)(scope, receive, send)

    async def _review(self, token: str, audience: str) -> Document:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        review = {**body, "spec": {"token": token, "audiences": [audience]}}
        return await self.reporter.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=review)


@dataclass(frozen=True, slots=True)
class Desk:
    """What a reception needs to work: the hooks, the cluster they are for, and a clock."""

    hooks: Sequence[Hook]
    client: RemoteClient
    reporter: RemoteClient  # for progress reports, so that many of them slow nobody else down
    clock: Clock


@asynccontextmanager
async def receiving(reception: Reception, desk: Desk) -> AsyncIterator[Address]:
    """Serve the hooks and tell the API server about them until the block ends; gives what others may serve with."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aboard-")))
        secret = Key(NAMESPACE, reception.secret)
        authority, pair = await certificates(desk.client, secret, reception.names, desk.clock.now())
        address, app = _address(reception, folder, pair), Front(desk)
        doors = [await stack.enter_async_context(serve(app, address))]
        if reception.reports:
            doors.append(await stack.enter_async_context(serve(app, replace(address, port=reception.reports))))
        await register(desk.client, desk.hooks, reception.door(authority.certificate))
        log.warning('msg="Admission is served" port=%s hooks=%s', doors[0].port, len(desk.hooks))
        keeping = asyncio.create_task(_keep_fresh(doors, reception, desk, folder))
        stack.push_async_callback(end, keeping)
        yield address


def _address(reception: Reception, folder: Path, pair: Pair) -> Address:
    certificate, key = keep(folder, "tls", pair)
    wishes = {"tls_version": reception.tls.version, "ciphers": reception.tls.ciphers}
    return Address(reception.host, reception.port, certificate=str(certificate), key=str(key), **wishes)  # type: ignore[arg-type]


async def _keep_fresh(doors: Sequence[Serving], reception: Reception, desk: Desk, folder: Path) -> None:
    secret = Key(NAMESPACE, reception.secret)
    while True:
        await desk.clock.sleep_until(desk.clock.now() + LOOK_AGAIN)
        try:
            authority, pair = await certificates(desk.client, secret, reception.names, desk.clock.now())
            address = _address(reception, folder, pair)
            for door in doors:
                door.renew(address)
            await register(desk.client, desk.hooks, reception.door(authority.certificate))
        except (ApiError, OSError) as error:  # the old one is good for weeks yet: look again later
            log.error('msg="Certificates could not be renewed" error="%s"', error)


async def certificates(client: Client, place: Key, names: list[str], now: datetime) -> tuple[Pair, Pair]:
    """The authority and the serving certificate of all copies of us: those in the Secret, or new ones put there."""
    while True:
        secret = await client.get(kinds.SECRET, place)
        authority, pair = _held(secret)
        if authority and pair and is_good_for(pair, authority, names, now + EARLY):
            return authority, pair
        if authority is None or not is_good_for(issue(authority, MANAGER, names, now), authority, names, now + EARLY):
            authority = make_authority(MANAGER, now)
        pair = issue(authority, MANAGER, names, now)
        try:
            write = client.create if secret is None else client.update
            await write(kinds.SECRET, _secret(secret, place, authority, pair), manager=MANAGER)
        except (AlreadyExists, Conflict):
            continue  # another copy of us was quicker: take what it made
        return authority, pair


def _held(secret: Document | None) -> tuple[Pair | None, Pair | None]:
    data = (secret or {}).get("data") or {}
    if not all(data.get(part) for part in PARTS):
        return None, None
    values = [base64.b64decode(data[part]) for part in PARTS]
    return Pair(*values[:2]), Pair(*values[2:])


def _secret(old: Document | None, place: Key, authority: Pair, pair: Pair) -> Document:
    values = (authority.certificate, authority.key, pair.certificate, pair.key)
    data = {part: base64.b64encode(value).decode() for part, value in zip(PARTS, values)}
    metadata = (old or {}).get("metadata") or {"name": place.name, "namespace": place.namespace}
    kind = (old or {}).get("type", "kubernetes.io/tls")
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}


async def register(client: Client, hooks: Sequence[Hook], door: Door) -> None:
    """Tell the API server whom to ask."""
    for document in configurations(hooks, door):
        await client.apply(kind_of(document), document, manager=MANAGER, force=True)
