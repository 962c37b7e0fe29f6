"""The composition root: the only file that knows every room, and the place where a plane is put together."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import difflib
import gc
import json
import logging
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import generate_latest

from allaboard import __version__
from allaboard.api import crds, kinds
from allaboard.api.documents import Document
from allaboard.api.errors import AboardError, AlreadyExists, Unauthorized
from allaboard.api.kinds import Kind, kind_of
from allaboard.api.meta import key_of, stamp
from allaboard.cluster.access import MASTERS, User
from allaboard.cluster.admitters import ADMISSION as BUILT_IN_ADMISSION
from allaboard.cluster.inside import Inside
from allaboard.cluster.keeper import Keeper, keeping
from allaboard.cluster.memory import Store
from allaboard.cluster.nodes import Fetched, Socket
from allaboard.cluster.plane import Cluster
from allaboard.cluster.server import Address, App, Doors, Receive, Scope, Send, serve
from allaboard.cluster.sqlite import Sqlite
from allaboard.cluster.store import Journal, NoJournal
from allaboard.cluster.tokens import Signer, read_tokens
from allaboard.jobs import admission as jobs_admission
from allaboard.jobs import controller as jobs
from allaboard.kube import reach
from allaboard.kube.certificates import Pair, issue, keep, kept, make_authority, write_private
from allaboard.kube.clock import Clock, SystemClock
from allaboard.kube.controller import Controller, Loop
from allaboard.kube.http import Address as Target
from allaboard.kube.http import Transport
from allaboard.kube.informer import Informers
from allaboard.kube.kubeconfig import write_kubeconfig
from allaboard.kube.remote import RemoteClient
from allaboard.node.agent import Agent
from allaboard.node.config import LOOPBACK, PODS, TokenAsk
from allaboard.node.config import Config as NodeConfig
from allaboard.node.hosts import gateway_of
from allaboard.points import nearest
from allaboard.scheduling import admission as scheduling_admission
from allaboard.scheduling import binder, defaults, grouper, loop, podgroups, policy, status
from allaboard.sdk.home import Home
from allaboard.training import admission as training_admission
from allaboard.training import runtimes
from allaboard.training.controller import TrainJobController
from allaboard.training.facts import Settings as TrainingSettings
from allaboard.training.progress import ProgressDoor
from allaboard.upkeep import accounts, claims, endpoints, firsts, namespaces, nodes, quota, rootca

log = logging.getLogger("allaboard")

POD_GROUPS = (kinds.POD_GROUP, kinds.POD_GROUP_COSCHEDULING, kinds.POD_GROUP_VOLCANO)
# Ruling 22: whose pods the embedded scheduler takes.
SCHEDULERS = frozenset({"default-scheduler", "kai-scheduler", "aboard"})
REPORTS = re.compile(r"/apis/trainer\.kubeflow\.org/v1alpha1/namespaces/[^/]+/trainjobs/[^/]+/status$")
AGENT_PAUSE = 1.0  # seconds before an agent that died is started again
GRACE = 20.0  # seconds a node agent gets to end its pods
COLLECT = 0.05  # seconds between collections of young garbage


class BadSetting(AboardError):
    """A setting that makes no sense; the message has the nearest right word."""

    exit_code = 2


class PortBusy(AboardError):
    """Somebody else listens where the plane should."""

    exit_code = 7


@dataclass(frozen=True, slots=True)
class Settings:
    """How a plane is set up."""

    home: Home
    host: str = "127.0.0.1"
    port: int = 7443
    nodes: int = 1
    fake_gpus: int = 0
    durability: str = "full"
    controllers: tuple[str, ...] = ()
    admission: tuple[str, ...] = ()
    gates: Mapping[str, bool] = field(default_factory=dict)
    tokens: str = ""
    auth: str = "allow"
    plain: bool = False
    verbose: bool = False

    @staticmethod
    def read(home: Home, options: Mapping[str, object]) -> Settings:
        """Settings from the command line: lists are split, words are checked."""
        chosen = dict(options)
        chosen["controllers"] = _chosen(chosen.pop("controllers"), CONTROLLERS, "--controllers")
        chosen["admission"] = _chosen(chosen.pop("admission"), ADMISSION, "--admission")
        chosen["gates"] = read_gates(str(chosen.pop("feature_gates")))
        settings = Settings(home=home, **chosen)  # type: ignore[arg-type]
        if not _is_loopback(settings.host) and (settings.auth != "rbac" or settings.plain):
            raise BadSetting(f'--host "{settings.host}" is not loopback; that needs --auth rbac and no --plain')
        return settings


def _chosen(given: object, registry: Mapping[str, object], option: str) -> tuple[str, ...]:
    """The names of a list option, checked; all of them where the option is not given."""
    if given is None:
        return tuple(registry)
    names = tuple(word for word in str(given).split(",") if word)
    for name in names:
        if name not in registry:
            raise BadSetting(f'{option}: unknown name "{name}"{nearest(name, registry)}')
    return names


GATES = {"TrainJobStatus": True, "RestartJob": False, "ElasticJobSet": False}


def read_gates(text: str) -> dict[str, bool]:
    """`Name=true,Name=false`, over the defaults."""
    gates = dict(GATES)
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if name not in GATES:
            raise BadSetting(f'--feature-gates: unknown gate "{name}"{nearest(name, GATES)}')
        if value.lower() not in ("true", "false"):
            raise BadSetting(f'--feature-gates: "{word}" must be {name}=true or {name}=false')
        gates[name] = value.lower() == "true"
    return gates


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def nearest_field(document: Document, path: str) -> str:
    """The remedy for a misspelt field: the closest name its schema knows at that place."""
    schema = _schema(kind_of(document))
    *parents, last = re.sub(r"\[\d+\]", ".[]", path).split(".")
    for step in parents:
        schema = (schema.get("items") if step == "[]" else (schema.get("properties") or {}).get(step)) or {}
    names = list(schema.get("properties") or {})
    close = difflib.get_close_matches(last, names, n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; known here: {', '.join(names)}" if names else ""


def _schema(kind: Kind) -> Document:
    """What a kind of ours may look like; nothing for Kubernetes' own kinds."""
    for crd in crds.documents():
        if crd["spec"]["names"]["kind"] == kind.kind and crd["spec"]["group"] == kind.group:
            versions = {version["name"]: version for version in crd["spec"]["versions"]}
            schema: Document = versions[kind.version]["schema"]["openAPIV3Schema"]
            return schema
    return {}


class Heart:
    """Cluster, controllers and scheduler in one process: everything but the doors and the nodes."""

    def __init__(self, settings: Settings, clock: Clock, journal: Journal, authority: str = "") -> None:
        self.settings = settings
        self.clock: Clock = clock
        self.authority = authority
        hooks = [*BUILT_IN_ADMISSION, *(hook for name in settings.admission for hook in ADMISSION[name](self))]
        self.cluster = Cluster(Store(journal), hooks)
        self.client = Inside(self.cluster)
        self.informers = Informers(self.client, clock)
        made = [controller for name in settings.controllers for controller in CONTROLLERS[name](self)]
        self.loops = [Loop(controller, self.client, self.informers, clock) for controller in made]

    @property
    def training(self) -> TrainingSettings:
        """Pods report progress to the API server, at the address every pod is given for it."""
        url = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)"
        return TrainingSettings(status_url=url, gates=self.gates & {"TrainJobStatus"})

    def served(self) -> list[Kind]:
        """Every kind served now, definitions of users included."""
        return [rules.kind for rules in self.cluster.registry.rules()]

    @property
    def gates(self) -> frozenset[str]:
        return frozenset(name for name, on in self.settings.gates.items() if on)

    def keeping(self) -> AbstractAsyncContextManager[Keeper]:
        """What the store itself needs done: owners' garbage, definitions, expired events."""
        return keeping(self.cluster, garbage="garbage" in self.settings.controllers)

    async def run(self) -> None:
        """Keep every controller going until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run())
            await self.informers.synced()
            for each in self.loops:
                group.create_task(each.run(), name=each.controller.name)


# Every controller by the name people switch it with. On a cluster the same classes run over HTTP.
CONTROLLERS: dict[str, Callable[[Heart], Iterable[Controller]]] = {
    "trainjob": lambda h: [TrainJobController(h.informers, h.clock, h.training, live=h.client)],
    "jobset": lambda h: [jobs.JobSetController(h.informers, h.clock, h.gates)],
    "job": lambda h: [jobs.JobController(h.informers, h.clock), jobs.TrackingController(h.informers)],
    "placement": lambda h: [jobs.PlacementController(h.informers, h.clock)],
    "ttl": lambda h: [jobs.JobTtlController(h.informers, h.clock)],
    "grouper": lambda h: [
        grouper.Grouper(h.informers, h.clock, h.client, podgroups.Settings(SCHEDULERS), grouper.EMBEDDED_OWNERS)
    ],
    "scheduler": lambda h: [loop.Scheduler(h.informers, h.clock, SCHEDULERS, policy.DEFAULT)],
    "podgroups": lambda h: [status.PodGroupStatus(h.informers, h.clock, POD_GROUPS)],
    "queues": lambda h: [status.QueueStatus(h.informers, h.clock)],
    "binder": lambda h: [binder.Binder(h.informers, h.clock)],
    "namespaces": lambda h: [namespaces.Namespaces(h.informers, h.clock, h.client, h.served)],
    "accounts": lambda h: [accounts.Accounts(h.informers, h.clock)],
    "rootca": lambda h: [rootca.RootCa(h.informers, h.clock, h.authority)],
    "claim-protection": lambda h: [claims.ClaimProtection(h.informers, h.clock)],
    "claims": lambda h: [claims.Claims(h.informers, h.clock, str(h.settings.home.path / "volumes"))],
    "quota": lambda h: [kind(h.informers, h.clock, h.client, h.served) for kind in (quota.Quotas, quota.QuotaUse)],
    "endpoints": lambda h: [endpoints.Endpoints(h.informers, h.clock)],
    "nodes": lambda h: [nodes.Nodes(h.informers, h.clock)],
    "garbage": lambda h: [],  # works on the store itself: see `keeping`
}
ADMISSION: dict[str, Callable[[Heart], Iterable[object]]] = {
    "trainjob": lambda h: training_admission.hooks(h.clock.now),
    "jobset": lambda h: jobs_admission.hooks(h.gates),
    "scheduling": lambda h: scheduling_admission.hooks(podgroups.Settings(SCHEDULERS)),
}


def run_plane(settings: Settings) -> None:
    """Run a plane until SIGTERM or SIGINT."""
    level = logging.INFO if settings.verbose else logging.WARNING
    logging.addLevelName(logging.INFO, "info")
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.ERROR, "error")
    logging.basicConfig(level=level, stream=sys.stderr, format="level=%(levelname)s %(message)s")
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
            await _first((*working, asyncio.create_task(stopping.wait())))
            self.home.state.unlink(missing_ok=True)

    async def _start(self, stack: AsyncExitStack) -> list[asyncio.Task[None]]:
        settings = self.settings
        _refuse_busy_port(settings)
        authority = self._authority()
        journal = self._journal()
        stack.callback(journal.close)
        heart = Heart(settings, self.clock, journal, authority.certificate.decode())
        keeper = await stack.enter_async_context(heart.keeping())
        storage = "claims" in settings.controllers
        await bootstrap(heart.client, keeper, authority.certificate.decode(), storage=storage)
        token = self._secret("admin.token")
        app = Front(App(heart.cluster, self._doors(token)), heart)
        serving = await stack.enter_async_context(serve(app, self._address(authority)))
        await stack.enter_async_context(serve(app, Address(socket=str(self.home.socket))))
        server = f"{'http' if settings.plain else 'https'}://{settings.host}:{serving.port}"
        working = [asyncio.create_task(work) for work in (heart.run(), _collect())]
        for task in working:
            stack.push_async_callback(_end, task)
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
        return Address(settings.host, settings.port, certificate=str(certificate), key=str(key))

    def _secret(self, name: str) -> str:
        """A random word of this plane, made at the first start."""
        path = self.home.keys / name
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32).encode())
        return path.read_text()

    def _doors(self, token: str) -> Doors:
        users = {token: User("admin", (MASTERS, "system:authenticated"))}
        if self.settings.tokens:
            users |= read_tokens(Path(self.settings.tokens).read_text())
        nodes = NodeCalls(self._secret("node.token"))
        return Doors(users, self.settings.auth, self._signer(), generate_latest, nodes=nodes)

    def _say_running(self, server: str) -> None:
        """Written last: who reads it may connect."""
        facts = {"pid": os.getpid(), "server": server, "started": stamp(self.clock.now())}
        facts |= {"nodes": self.settings.nodes, "version": __version__}
        write_private(self.home.state, json.dumps(facts).encode())


class NodeCalls:
    """How the API server reaches pods where they run: through the node's own server."""

    def __init__(self, token: str) -> None:
        self.token = token

    async def fetch(self, node: Document, target: str) -> Fetched:
        answer, chunks = await reach.fetch(node, target, self.token)
        if answer.status >= 400:
            chunks = _once(answer.body)
        return Fetched(answer.status, answer.headers.get("content-type", "text/plain"), chunks)

    async def relay(self, node: Document, target: str, socket: Socket) -> None:
        await reach.relay(node, target, self.token, reach.Ends(socket.protocols, socket.receive, socket.send))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


class Front:
    """What listens: progress reports of running jobs go to `training`, everything else is the API."""

    def __init__(self, api: App, heart: Heart) -> None:
        self.api = api
        self.progress = ProgressDoor(heart.client, heart.client, self._review)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        report = scope["type"] == "http" and scope["method"] == "POST" and REPORTS.match(scope["path"])
        await (self.progress if report else self.api)(scope, receive, send)

    async def _review(self, token: str, audience: str) -> Document:
        """Whose token this is, in the words of a TokenReview."""
        try:
            user, audiences = self.api.tokens.user(token, self.api.cluster.world.now(), [audience])
        except Unauthorized:
            return {"status": {"authenticated": False}}
        return {"status": {"authenticated": True, "user": user.document(), "audiences": list(audiences)}}


def _refuse_busy_port(settings: Settings) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            remedy = "--port 0 picks a free one"
            raise PortBusy(f"{settings.host}:{settings.port}: {error.strerror}; {remedy}") from error


class NodeProcess:
    """The node agent, in a process of its own: started again when it dies, ended with the plane, pods and all."""

    def __init__(self, settings: Settings, port: int) -> None:
        self.settings, self.port = settings, port
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[object] | None = None

    async def __aenter__(self) -> NodeProcess:
        home = self.settings.home
        names = [f"node-{number}" for number in range(self.settings.nodes)]
        facts = {"home": str(home.path), "nodes": names, "gpus": self.settings.fake_gpus, "port": self.port}
        write_private(home.path / "node.json", json.dumps(facts).encode())
        await self._start()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None and self._watching is not None
        await _end(self._watching)
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(GRACE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _start(self) -> None:
        home = self.settings.home
        command = [sys.executable, "-m", "allaboard", "node", "--settings", str(home.path / "node.json")]
        output = os.open(home.logs / "node.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        finally:
            os.close(output)

    async def _watch(self) -> None:
        """A new agent adopts the pods of the one that died."""
        while self._process is not None:
            code = await self._process.wait()
            log.error(
                'msg="Node agent ended; starting it again" code=%s log=%s', code, self.settings.home.logs / "node.log"
            )
            await asyncio.sleep(AGENT_PAUSE)
            await self._start()


def run_node(path: Path) -> None:
    """Run the node agent until SIGTERM."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="level=%(levelname)s %(message)s")
    facts = json.loads(path.read_text())
    asyncio.run(_node(Home(Path(facts["home"])), facts))


async def _node(home: Home, facts: Document) -> None:
    async def token() -> str:
        return (home.keys / "admin.token").read_text()

    # A unix socket crosses network namespaces, so the agent reaches the plane from wherever it lives.
    client = RemoteClient(Transport(Target("localhost", 0, socket=str(home.socket)), token), agent="aboard-node")
    config = NodeConfig(
        state=home.node,
        nodes=tuple(facts["nodes"]),
        gpus=facts["gpus"],
        api=("127.0.0.1", facts["port"]),
        token=(home.keys / "node.token").read_text(),
        tokens=lambda ask: _account_token(client, ask),
    )
    agent = Agent(client, config, SystemClock())
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    working = asyncio.create_task(agent.run())
    ending = asyncio.create_task(stopping.wait())
    await _first((working, ending))
    await agent.stop(kill=True)
    await _end(working)


async def _account_token(client: RemoteClient, ask: TokenAsk) -> str:
    """A service account token for a pod's volume, bound to the pod."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": ask.pod, "uid": ask.uid}
    spec: Document = {"expirationSeconds": ask.seconds, "boundObjectRef": bound}
    if ask.audience:
        spec["audiences"] = [ask.audience]
    path = kinds.SERVICE_ACCOUNT.path(ask.namespace, ask.account, "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await client.ask("POST", path, body=body)
    return str(answer["status"]["token"])


async def _first(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Until one of the tasks is over; a failure of it is ours."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _end(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def bootstrap(client: Inside, keeper: Keeper, authority: str = "", *, storage: bool = True) -> None:
    """What every plane has from its first start; our own kinds and runtimes follow the version that runs.

    `storage`: somebody provisions volumes, so there is a default storage class.
    """
    for crd in crds.documents():
        await client.apply(kinds.CRD, crd, manager="aboard", force=True)
    await keeper.settle()  # from here on our kinds are served
    for document in firsts.objects(443):
        await _make(client, document, firsts.MANAGER)
    for document in [*_first_objects(authority), *([claims.storage_class()] if storage else [])]:
        await _make(client, document, "aboard")
    for runtime in runtimes.shipped_runtimes():
        await client.apply(kind_of(runtime), runtime, manager="aboard", force=True)


async def _make(client: Inside, document: Document, manager: str) -> None:
    """Create it unless it is there."""
    kind = kind_of(document)
    if await client.get(kind, key_of(document)) is None:
        with contextlib.suppress(AlreadyExists):
            await client.create(kind, document, manager=manager)


def _first_objects(authority: str) -> list[Document]:
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TrainingSettings().namespace}}
    return [system, _trust(authority), *(document for _, document in defaults.OBJECTS)]


def _trust(authority: str) -> Document:
    """The certificate pods trust when they report progress."""
    settings = TrainingSettings()
    metadata = {"name": settings.secret, "namespace": settings.namespace}
    text = base64.b64encode(authority.encode()).decode()
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"ca.crt": text}}


async def _collect() -> None:
    """Collect young garbage often and freeze what survives: long pauses never come together."""
    gc.disable()
    while True:
        await asyncio.sleep(COLLECT)
        gc.collect(1)
        gc.freeze()


def _tune_memory() -> None:
    """Keep glibc from giving memory back and taking it again on every large answer."""
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return
    for option, value in ((-1, 256 << 20), (-3, 64 << 20), (-2, 16 << 20)):  # trim, mmap, top pad
        libc.mallopt(option, value)
