"""What an agent is told when it starts."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.node.facts import Patience
from allaboard.node.profiles import Profile

PODS, LOOPBACK = IPv4Network("10.88.0.0/16"), IPv4Network("127.88.0.0/16")
DEFAULT, USUAL = Profile("default"), Patience()


@dataclass(frozen=True, slots=True)
class TokenAsk:
    """A service account token a pod's volume wants."""

    namespace: str
    account: str
    pod: str
    uid: str
    audience: str
    seconds: int


def _nobody_waits() -> None:
    """For machines whose nodes nobody waits for."""


async def _no_token(_ask: TokenAsk) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a real API server reaches this node, and how its callers are checked."""

    node: str
    address: str
    port: int
    tls: ssl.SSLContext
    review: Callable[[str, Document], Awaitable[Document]]  # a TokenReview or SubjectAccessReview, asked of the cluster
    anonymous: bool = False  # callers who show nothing may come in


@dataclass(frozen=True, slots=True)
class Config:
    """One agent: where it keeps things, which nodes it plays, and what the machine may be used for."""

    state: Path
    nodes: tuple[str, ...]
    level: str = "auto"  # auto, A, B, C or D
    capacity: dict[str, str] = field(default_factory=dict)  # per node; what is missing is measured
    gpus: int = 0  # fake ones, per node
    labels: dict[str, str] = field(default_factory=dict)
    network: IPv4Network = PODS
    loopback: IPv4Network = LOOPBACK  # where there is no network namespace
    api: tuple[str, int] = ("127.0.0.1", 6443)  # where pods' calls to the API go
    api_name: str = ""  # what pods are told to call it (its certificate must say so); the gateway's address when empty
    listen: Listen | None = None  # a kubelet's door, for nodes of a real cluster
    users: tuple[int, int] | None = None  # sub-users for pods: (first, how many); /etc/subuid says when None
    helper: bool = True  # whether a compiled init may be used where a compiler is
    token: str = ""  # what callers of this agent's own server must show; made when empty
    profiles: tuple[Profile, ...] | None = None  # None: the user's own (file `images`) and those that ship
    images: Path | None = None  # the user's own profiles; below the state when None
    default_profile: Profile = DEFAULT
    patience: Patience = USUAL
    hidden: tuple[str, ...] = ()  # folders of this machine that pods must not see, besides our own
    host_paths: tuple[str, ...] = ()  # prefixes hostPath volumes may use; "/" is everything
    environments: Path | None = None  # where built environments are kept; below the state when None
    claims: Path | None = None  # where persistent volumes live; below the state when None
    volumes: Path | None = None  # where directories are made for claims; their removal is ours
    log_bytes: int = 50 * 2**20  # kept per container
    heartbeat: timedelta = timedelta(seconds=10)
    refresh: timedelta = timedelta(seconds=10)  # how often rendered volumes are brought up to date
    workers: int = 8
    tokens: Callable[[TokenAsk], Awaitable[str]] = _no_token
    announced: Callable[[], None] = _nobody_waits  # called once, when every node has said that it is ready

    @property
    def host(self) -> str:
        """This machine's address, as its nodes announce it."""
        return self.listen.address if self.listen else "127.0.0.1"
