"""The node agent as a process: kept running by the plane, and what it runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import NotFound
from allaboard.kube.certificates import write_private
from allaboard.kube.client import Client
from allaboard.kube.clock import SystemClock
from allaboard.kube.http import Address as Target
from allaboard.kube.http import Transport
from allaboard.kube.remote import RemoteClient
from allaboard.main.settings import Settings
from allaboard.main.tasks import end, first_of
from allaboard.node import post
from allaboard.node.agent import Agent
from allaboard.node.config import Config as NodeConfig
from allaboard.node.config import TokenAsk
from allaboard.node.families import end_process
from allaboard.node.processes import are_left
from allaboard.sdk.home import Home

log = logging.getLogger("allaboard")

AGENT_PAUSE = 1.0  # seconds before an agent that died is started again
GRACE = 60.0  # seconds a node agent gets to end its pods


class NodeProcess:
    """The node agent, in a process of its own: started again when it dies, ended with the plane, pods and all."""

    def __init__(self, settings: Settings, port: int) -> None:
        self.settings, self.port = settings, port
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[object] | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> NodeProcess:
        home = self.settings.home
        names = [f"node-{number}" for number in range(self.settings.nodes)]
        facts = {"home": str(home.path), "nodes": names, "gpus": self.settings.fake_gpus, "port": self.port}
        facts |= {"host_paths": list(self.settings.host_path), "former": _former(home.path / "node.json", names)}
        write_private(home.path / "node.json", json.dumps(facts).encode())
        await asyncio.to_thread(post.relieve, home.node)
        home.ready.unlink(missing_ok=True)
        await self._start()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None and self._watching is not None
        async with self._starting:  # one that is just being started would be nobody's
            await end(self._watching)
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
            async with self._starting:
                await self._start()


def end_leftover(home: Home) -> bool:
    """End what outlived its plane: the agent and its pods, or pods alone; False where nothing did."""
    if pid := post.holder(home.node):
        end_process(pid, signal.SIGTERM, GRACE)
        return True
    settings = home.path / "node.json"
    if not settings.exists() or not are_left(home.node):
        return False
    asyncio.run(_end(_agent(home, json.loads(settings.read_text()))))
    return True


async def _end(agent: Agent) -> None:
    """An agent that comes only to put away what another one left."""
    await agent.start()
    await agent.stop(kill=True)


def _former(path: Path, names: Sequence[str]) -> list[str]:
    """The nodes the last plane of this home had and this one has not."""
    had = json.loads(path.read_text())["nodes"] if path.exists() else []
    return [name for name in had if name not in names]


def run_node(path: Path) -> None:
    """Run the node agent until SIGTERM."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="level=%(levelname)s %(message)s")
    facts = json.loads(path.read_text())
    asyncio.run(_node(_agent(Home(Path(facts["home"])), facts), facts["former"]))


async def _node(agent: Agent, former: Sequence[str]) -> None:
    await _forget(agent.client, former)
    await work_until_told(agent)


def _agent(home: Home, facts: Document) -> Agent:
    async def token() -> str:
        return (home.keys / "admin.token").read_text()

    # A unix socket crosses network namespaces, so the agent reaches the plane from wherever it lives.
    client = RemoteClient(Transport(Target("localhost", 0, socket=str(home.socket)), token), agent="aboard-node")
    config = NodeConfig(
        state=home.node,
        images=home.images,
        nodes=tuple(facts["nodes"]),
        gpus=facts["gpus"],
        hidden=(str(home.path),),
        volumes=home.path / "volumes",
        host_paths=tuple(facts["host_paths"]),
        api=("127.0.0.1", facts["port"]),
        token=(home.keys / "node.token").read_text(),
        tokens=lambda ask: account_token(client, ask),
        announced=home.ready.touch,  # `aboard up` waits for it
    )
    return Agent(client, config, SystemClock())


async def _forget(client: Client, former: Sequence[str]) -> None:
    """Take away nodes nobody will speak for any more: their pods are replaced elsewhere, not waited for."""
    for name in former:
        with contextlib.suppress(NotFound):
            await client.delete(kinds.NODE, Key("", name))


async def work_until_told(agent: Agent) -> None:
    """Until SIGTERM; then the pods are ended."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    working = asyncio.create_task(agent.run())
    ending = asyncio.create_task(stopping.wait())
    await first_of((working, ending))
    await agent.stop(kill=True)
    await end(working)


async def account_token(client: RemoteClient, ask: TokenAsk) -> str:
    """A service account token for a pod's volume, bound to the pod."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": ask.pod, "uid": ask.uid}
    spec: Document = {"expirationSeconds": ask.seconds, "boundObjectRef": bound}
    if ask.audience:
        spec["audiences"] = [ask.audience]
    path = kinds.SERVICE_ACCOUNT.path(ask.namespace, ask.account, "token")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await client.ask("POST", path, body=body)
    return str(answer["status"]["token"])
