"""A plane: started in order, said to run, ended in the opposite order."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import secrets
import signal
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import generate_latest

from allaboard import __version__
from allaboard.api.errors import AboardError
from allaboard.api.meta import stamp
from allaboard.cluster.access import MASTERS, User
from allaboard.cluster.outside import Outside
from allaboard.cluster.server import Address, App, Doors, serve
from allaboard.cluster.sqlite import Sqlite
from allaboard.cluster.store import Journal, NoJournal
from allaboard.cluster.tokens import Signer, read_tokens
from allaboard.kube.certificates import Pair, issue, keep, kept, make_authority, write_private
from allaboard.kube.clock import Clock, SystemClock
from allaboard.kube.kubeconfig import write_kubeconfig
from allaboard.main.agent import NodeProcess
from allaboard.main.controllers import ADMISSION, CONTROLLERS
from allaboard.main.doors import Front, NodeCalls, call_webhook
from allaboard.main.heart import Heart, bootstrap
from allaboard.main.settings import BadSetting, Settings, chosen_names, is_loopback, read_gates
from allaboard.main.tasks import end, first_of, log_lines
from allaboard.node.config import LOOPBACK, PODS
from allaboard.node.hosts import gateway_of
from allaboard.sdk.home import Home

log = logging.getLogger("allaboard")

COLLECT = 0.05  # seconds between collections of young garbage
LONGEST_PAUSE = 16  # of so many rounds one is looked through at least
THAW_EVERY = 20_000  # collections, a quarter of an hour


class PortBusy(AboardError):
    """Somebody else listens where the plane should."""

    exit_code = 7


def read_settings(home: Home, options: Mapping[str, object]) -> Settings:
    """Settings from the command line: lists are split, words are checked."""
    chosen = dict(options)
    chosen["controllers"] = chosen_names(chosen.pop("controllers"), CONTROLLERS, "--controllers")
    chosen["admission"] = chosen_names(chosen.pop("admission"), ADMISSION, "--admission")
    chosen["plugins"] = tuple(filter(None, str(chosen.pop("plugins", "")).split(",")))
    chosen["gates"] = read_gates(str(chosen.pop("feature_gates")))
    settings = Settings(home=home, **chosen)  # type: ignore[arg-type]
    if not is_loopback(settings.host) and (settings.auth != "rbac" or settings.plain):
        raise BadSetting(f'--host "{settings.host}" is not loopback; that needs --auth rbac and no --plain')
    return settings


def run_plane(settings: Settings) -> None:
    """Run a plane until SIGTERM or SIGINT."""
    log_lines(verbose=settings.verbose)
    _tune_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Plane(settings, SystemClock()).run())


class Plane:
    """One embedded control plane, put together and kept going."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings, self.clock = settings, clock
        self.home = settings.home

    async def run(self) -> None:
        """Start everything in order, say that it runs, and end it in the opposite order."""
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        self.home.make()
        async with AsyncExitStack() as stack:
            working = await self._start(stack)
            await first_of((*working, asyncio.create_task(stopping.wait())))
            self.home.state.unlink(missing_ok=True)

    async def _start(self, stack: AsyncExitStack) -> list[asyncio.Task[None]]:
        settings = self.settings
        _refuse_busy_port(settings)
        authority = self._authority()
        journal = self._journal()
        stack.callback(journal.close)
        heart = Heart(settings, self.clock, journal, authority.certificate.decode())
        heart.cluster.ask_outside(Outside(call_webhook))
        keeper = await stack.enter_async_context(heart.keeping())
        storage = "claims" in settings.controllers
        await bootstrap(heart.client, keeper, authority.certificate.decode(), storage=storage)
        token = self._secret("admin.token")
        app = Front(App(heart.cluster, self._doors(token)), heart)
        serving = await stack.enter_async_context(serve(app, self._address(authority)))
        await stack.enter_async_context(serve(app, Address(socket=str(self.home.socket))))
        server = f"{'http' if settings.plain else 'https'}://{settings.host}:{serving.port}"
        working = [asyncio.create_task(work) for work in (heart.run(), collect_often())]
        for task in working:
            stack.push_async_callback(end, task)
        config = write_kubeconfig(server, b"" if settings.plain else authority.certificate, token)
        write_private(self.home.kubeconfig, config)
        if settings.nodes:
            await stack.enter_async_context(NodeProcess(settings, serving.port))
        self._say_running(server)
        return working

    def _journal(self) -> Journal:
        if self.settings.durability == "memory":
            return NoJournal()
        return Sqlite(self.home.store, self.settings.durability)

    def _authority(self) -> Pair:
        """Our certificate authority, made at the first start."""
        pair = kept(self.home.keys, "ca")
        if pair is None:
            pair = make_authority("aboard", self.clock.now())
            keep(self.home.keys, "ca", pair)
        return pair

    def _signer(self) -> Signer:
        """The key of service account tokens, made at the first start."""
        path = self.home.keys / "accounts.key"
        if not path.exists():
            made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            form = serialization.PrivateFormat.PKCS8
            write_private(path, made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        assert isinstance(key, rsa.RSAPrivateKey)
        return Signer(key)

    def _address(self, authority: Pair) -> Address:
        settings = self.settings
        if settings.plain:
            return Address(settings.host, settings.port)
        names = [settings.host, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        names += [gateway_of(PODS), gateway_of(LOOPBACK)]  # where pods find the API
        pair = issue(authority, "kube-apiserver", list(dict.fromkeys(names)), self.clock.now())
        certificate, key = keep(self.home.keys, "server", pair)
        signed = str(self.home.keys / "ca.crt")
        return Address(settings.host, settings.port, certificate=str(certificate), key=str(key), authority=signed)

    def _secret(self, name: str) -> str:
        """A random word of this plane, made at the first start."""
        path = self.home.keys / name
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32).encode())
        return path.read_text()

    def _doors(self, token: str) -> Doors:
        users = {token: User("admin", (MASTERS, "system:authenticated"), "admin")}
        if self.settings.tokens:
            users |= read_tokens(Path(self.settings.tokens).read_text())
        nodes = NodeCalls(self._secret("node.token"))
        return Doors(users, self.settings.auth, self._signer(), generate_latest, nodes=nodes)

    def _say_running(self, server: str) -> None:
        """Written last: who reads it may connect."""
        facts = {"pid": os.getpid(), "server": server, "started": stamp(self.clock.now())}
        facts |= {"nodes": self.settings.nodes, "version": __version__}
        write_private(self.home.state, json.dumps(facts).encode())


def _refuse_busy_port(settings: Settings) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            remedy = "--port 0 picks a free one"
            raise PortBusy(f"{settings.host}:{settings.port}: {error.strerror}; {remedy}") from error


async def collect_often() -> None:
    """Collect young garbage often and freeze what survives: long pauses never come together.

    Cycles among the frozen are only found by thawing everything, which is done rarely. Our own controllers make none:
    while nothing is found, fewer of the young are looked through.
    """
    gc.disable()
    pause = 1
    while True:
        for turn in range(THAW_EVERY):
            await asyncio.sleep(COLLECT)
            if turn % pause == 0:
                pause = 1 if gc.collect(1) else min(2 * pause, LONGEST_PAUSE)
            gc.freeze()
        gc.unfreeze()
        gc.collect()


def _tune_memory() -> None:
    """Keep glibc from giving memory back and taking it again on every large answer."""
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return
    for option, value in ((-1, 256 << 20), (-3, 64 << 20), (-2, 16 << 20)):  # trim, mmap, top pad
        libc.mallopt(option, value)
