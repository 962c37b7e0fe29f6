"""This machine as a node of a real cluster: the agent over a kubeconfig, with a kubelet's door for its API server."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError
from allaboard.kube import certificates
from allaboard.kube.clock import SystemClock
from allaboard.kube.remote import RemoteClient
from allaboard.main.agent import account_token, work_until_told
from allaboard.main.settings import is_loopback
from allaboard.node.agent import Agent
from allaboard.node.config import Config, Listen
from allaboard.sdk.connection import open_connection
from allaboard.sdk.home import Home

NAME = "kubernetes.default.svc"  # which every API server's certificate says


class CannotJoin(AboardError):
    """What was asked for cannot be; the message has the remedy."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Post:
    """Where this machine works, and as what."""

    kubeconfig: str
    context: str
    name: str
    address: str = ""
    port: int = 10250
    client_ca: str = ""
    anonymous: bool = False
    level: str = "auto"
    fake_gpus: int = 0
    host_path: tuple[str, ...] = ()


def run_joined(post: Post) -> None:
    """Be a node of the cluster until SIGTERM; then end the pods and say that we are gone."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="level=%(levelname)s %(message)s")
    asyncio.run(_work(post))


async def _work(post: Post) -> None:
    connection = open_connection(post.kubeconfig, post.context)
    target = connection.client.transport.address
    address = post.address or _own_address(target.host, target.port)
    if post.anonymous and not is_loopback(address):
        raise CannotJoin(f'--anonymous: "{address}" can be reached by others; give --client-ca instead')
    home = Home.default()
    state = home.path / "joined" / post.name
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = Config(
        state=state,
        images=home.images,
        nodes=(post.name,),
        level=post.level,
        gpus=post.fake_gpus,
        hidden=(str(home.path),),
        host_paths=post.host_path,
        api=(target.host, target.port),
        api_name=NAME,
        listen=_listen(post, address, state, connection.client),
        tokens=lambda ask: account_token(connection.client, ask),
    )
    agent = Agent(connection.client, config, SystemClock())
    await work_until_told(agent)
    await agent.register.leave()
    await connection.close()


def _listen(post: Post, address: str, state: Path, client: RemoteClient) -> Listen:
    async def review(path: str, document: Document) -> Document:
        return await client.ask("POST", path, body=document)

    return Listen(post.name, address, post.port, _tls(post, address, state), review, post.anonymous)


def _tls(post: Post, address: str, state: Path) -> ssl.SSLContext:
    """Our certificate (kept over restarts), and whose client certificates we believe."""
    now = datetime.now(UTC)
    authority = certificates.kept(state, "ca") or certificates.make_authority("aboard-node", now)
    certificates.keep(state, "ca", authority)
    own = certificates.issue(authority, f"system:node:{post.name}", [post.name, address], now)
    files = certificates.keep(state, "server", own)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    if post.client_ca:
        try:
            context.load_verify_locations(post.client_ca)
        except OSError as problem:
            raise CannotJoin(f'--client-ca: "{post.client_ca}": {problem.strerror or problem}') from problem
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _own_address(host: str, port: int) -> str:
    """The address by which this machine reaches the cluster; no packet is sent."""
    family, kind, _, _, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as link:
        link.connect(there)
        return str(link.getsockname()[0])
