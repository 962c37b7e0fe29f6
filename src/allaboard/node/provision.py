"""What a container needs before it starts: objects loaded, volumes written, its launch document made."""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import functools
import hashlib
import io
import json
import logging
import os
import platform
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import CLAIM, CONFIG_MAP, SECRET, VOLUME
from allaboard.api.meta import name_of, namespace_of, uid_of
from allaboard.kube.client import Client
from allaboard.node import devices, environment, launch, machine, mounts, records, sandbox, steps, volumes
from allaboard.node.cgroups import Groups
from allaboard.node.config import Config, TokenAsk
from allaboard.node.devices import Device
from allaboard.node.environment import Sources
from allaboard.node.environments import Environments
from allaboard.node.gateway import PROXY_PORT
from allaboard.node.images import Images
from allaboard.node.limits import Limits, limits_of
from allaboard.node.mounts import RENDERED, Forbidden, Mount, Tokens, Unmountable, Volume
from allaboard.node.ports import Ports
from allaboard.node.profiles import Choice, choose
from allaboard.node.steps import Shift, Tree
from allaboard.node.tenants import Tenant

log = logging.getLogger(__name__)

COVERS = 32  # layers for different trees of this machine

HOOK = '''"""Names of pods, where no hosts file can be shown: Python's own look-ups ask this list first."""
import json, os, socket, sys
try:
    _names = json.load(open(os.environ["ABOARD_HOSTS"]))
except Exception:
    _names = {}
def _plain(look):
    def ask(host, *rest, **more):
        return look(_names.get(host, host) if isinstance(host, str) else host, *rest, **more)
    return ask
for _name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
    setattr(socket, _name, _plain(getattr(socket, _name)))
socket.gethostname = lambda: os.environ.get("HOSTNAME", "")
_connect = socket.socket.connect
def connect(self, address):
    if isinstance(address, tuple) and address and address[0] in _names:
        address = (_names[address[0]], *address[1:])
    return _connect(self, address)
socket.socket.connect = connect
_bind = socket.socket.bind
def bind(self, address):
    if isinstance(address, tuple) and address and address[0] in _names:
        address = (_names[address[0]], *address[1:])
    return _bind(self, address)
socket.socket.bind = bind
'''


class Provision:
    """Loads and writes; one per agent."""

    def __init__(self, client: Client, config: Config, level: str, gateway: str) -> None:
        self.client, self.config, self.level, self.gateway = client, config, level, gateway
        self.allocatable: dict[str, str] = {}
        self.many_users = True
        self.tree, self.installer = Tree(), ""
        self.whole = False
        self._seen: tuple[int, ...] = ()
        self.preload: Path | None = None  # for programs that insist on groups where there is one user
        self.volatile = _volatile(config.state)
        self.ports = Ports(config.state / "ports", int(short_name(config.state), 16))
        self.images = Images(config.images or config.state / "images.json")
        self.groups = Groups()
        # By their true names: a link on the way there would be followed past what hides them.
        paths = (*config.hidden, str(config.state), str(self.volatile))
        self.hidden = tuple(dict.fromkeys(name for path in paths for name in (path, os.path.realpath(path))))
        self.devices: list[Device] = []
        self.taken: Callable[[], set[str]] = set
        self.services: Callable[[], Iterable[Document]] = tuple
        self.give_memory: Callable[[Path, str], Awaitable[None]]
        self.hosts_of: Callable[[Tenant], Path] = lambda tenant: self.volatile / tenant.uid
        self.environments = Environments(config.environments or config.state / "environments")

    def open(self) -> None:
        """Directories that every container uses."""
        for name in ("stage", "pods", "hooks"):
            (self.config.state / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        machine.spread_below(self.config.state / "pods")
        self.volatile.mkdir(parents=True, exist_ok=True, mode=0o700)
        records.replace(self.config.state / "hooks" / "sitecustomize.py", HOOK)
        self.ports.open()
        self.installer = _pip_conf(self.gateway) if self.level in "AB" else ""

    def host_tree(self) -> Tree:
        """The machine's file tree; looked at again when something came or went at its top or among its keys."""
        seen = sandbox.last_changed()
        if self.level != "D" and seen != self._seen:
            top, private = sandbox.host_tree(), sandbox.private_files()
            tree = Tree(top, private, rootless=self.level != "A")
            if self.whole:
                others, apart = sandbox.others_at_top(top), sandbox.apart_at_top(top)
                tree = replace(tree, whole=True, others=others, apart=apart)
                tree = replace(tree, cover=self._cover(tree))
            self.tree, self._seen = tree, seen
        return self.tree

    def _cover(self, tree: Tree) -> str:
        """The layer that covers what may not be seen, the same for the same tree; "" where every container must cover
        it for itself. None is removed before we leave, because nobody knows who stands on it."""
        mark = hashlib.sha256(steps.encode(steps.covering("", tree, self.hidden))).hexdigest()[:10]
        place = self.volatile / f"cover.{mark}"
        many = len(list(self.volatile.glob("cover.*"))) >= COVERS and not place.exists()
        if many or set(str(place)) & set(":,\\"):  # an overlay's options would be misread
            return ""
        try:
            sandbox.sealed_layer(place, steps.covering(str(place), tree, self.hidden))
        except OSError as problem:
            log.warning("%s: %s; every container covers for itself what it may not see", place, problem)
            return ""
        return str(place)

    def look_around(self) -> None:
        """Which interpreters this machine has: asked once, before the first container wants one."""
        if self.config.profiles is None:
            self.images.profiles()

    def _gpus(self, tenant: Tenant, container: Document) -> list[Device]:
        """The container's devices: those it had, else free ones."""
        count, node = devices.wanted(container), tenant.document["spec"].get("nodeName", "")
        name = container["name"]
        if name not in tenant.devices and count:
            given = devices.allot(self.devices, node, self.taken(), count)
            tenant.devices[name] = [device.id for device in given]
            tenant.remember()
        return [device for device in self.devices if device.id in tenant.devices.get(name, ())]

    def _limits(self, tenant: Tenant, container: Document) -> Limits:
        """A container's limits; the groups of an attempt before this one are gone, and its counters with them."""
        if tenant.last(container["name"]) is not None:
            self.groups.forget(tenant.uid, container["name"])
        return limits_of(container, plain=not self.groups.keeps("memory"))

    async def sources(self, tenant: Tenant) -> Sources:
        """Every object the pod's environment and volumes may draw on."""
        pod = tenant.document
        wanted = sorted(set(_wanted(pod)))
        loads = [self._load(kind, namespace_of(pod), name) for kind, name in wanted]
        found = await asyncio.gather(*loads) if loads else []
        config_maps = {name: doc for (kind, name), doc in zip(wanted, found) if kind == "configMap"}
        secrets = {name: doc for (kind, name), doc in zip(wanted, found) if kind == "secret"}
        services = [service for service in self.services() if namespace_of(service) == namespace_of(pod)]
        api = (self.config.api_name or self.gateway, 443) if self.level in "AB" else self.config.api
        host = self.config.host
        return Sources(pod, config_maps, secrets, tuple(services), tenant.address, host, self.allocatable, api)

    async def _load(self, kind: str, namespace: str, name: str) -> Document | None:
        return await self.client.get(CONFIG_MAP if kind == "configMap" else SECRET, Key(namespace, name))

    async def volumes(self, tenant: Tenant, sources: Sources) -> None:
        """Bring every volume of the pod to its present content."""
        pod = tenant.document
        group = dig(pod, "spec", "securityContext", "fsGroup")
        tokens = Tokens({ask: await self._token(pod, ask) for ask in mounts.token_asks(pod)})
        for volume in mounts.volumes_of(pod):
            if volume.kind in RENDERED:
                root = self.volatile / tenant.uid / volume.name
                files = mounts.render(volume, sources, tokens)
                volumes.write_files(root, files, owner_reads=self._owner_reads(pod), group=group)
                tenant.roots[volume.name] = str(root)
            elif volume.name not in tenant.roots:
                tenant.roots[volume.name] = await self._directory(tenant, volume, group)

    def _owner_reads(self, pod: Document) -> bool:
        """Whether those who read the files we write also own them: then private keys must be private."""
        if not self.many_users:
            return True
        readers = [
            launch.user_id(pod, container, self.choice(container).profile)
            for container in [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
        ]
        return not any(readers)

    async def _token(self, pod: Document, ask: tuple[str, int]) -> str:
        account = dig(pod, "spec", "serviceAccountName", default="default")
        return await self.config.tokens(TokenAsk(namespace_of(pod), account, name_of(pod), uid_of(pod), *ask))

    async def _directory(self, tenant: Tenant, volume: Volume, group: int | None) -> str:
        if volume.kind == "hostPath":
            return self._host_path(volume)
        if volume.kind in ("persistentVolumeClaim", "ephemeral"):
            return await self._claim(tenant, volume)
        memory = volume.spec.get("medium") == "Memory"
        root = (self.volatile / tenant.uid if memory else tenant.place / "volumes") / volume.name
        volumes.make_empty(root, group)
        size = mounts.memory_size(tenant.document, volume)
        if size and self.level != "D":
            mine = group if self.level == "A" and group is not None else None
            await self.give_memory(root, f"size={size}," + ("mode=0777" if mine is None else f"mode=2777,gid={mine}"))
        return str(root)

    def in_memory(self, uid: str) -> list[str]:
        """The directories of a pod that may be file systems of their own."""
        try:
            with os.scandir(self.volatile / uid) as entries:
                return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []

    def _host_path(self, volume: Volume) -> str:
        path = str(volume.spec.get("path", ""))
        allowed = any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in self.config.host_paths)
        if not allowed:
            have = ", ".join(self.config.host_paths) or "nothing"
            words = f'hostPath "{path}" is not allowed on this node; allowed: {have} (aboard up --host-path=PREFIX)'
            raise Forbidden(f'volume "{volume.name}": {words}')
        if words := volumes.check_host_path(path, volume.spec.get("type", "")):
            raise Unmountable(f'volume "{volume.name}": {words}')
        return os.path.realpath(path)

    async def _claim(self, tenant: Tenant, volume: Volume) -> str:
        """A bound claim is a directory: the one its PersistentVolume names, else one of ours by claim uid."""
        space = namespace_of(tenant.document)
        ephemeral = volume.kind == "ephemeral"
        name = f"{name_of(tenant.document)}-{volume.name}" if ephemeral else volume.spec["claimName"]
        claim = await self.client.get(CLAIM, Key(space, name))
        if claim is None:
            raise Unmountable(f'persistentvolumeclaim "{name}" not found')
        if dig(claim, "status", "phase") != "Bound" and not dig(claim, "spec", "volumeName"):
            raise Unmountable(f'persistentvolumeclaim "{name}" is not bound')
        bound = await self.client.get(VOLUME, Key("", dig(claim, "spec", "volumeName", default="")))
        path = dig(bound, "spec", "hostPath", "path") or dig(bound, "spec", "local", "path")
        root = Path(path) if path else (self.config.claims or self.config.state / "claims") / uid_of(claim)
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o777)
        return str(root)

    def choice(self, container: Document) -> Choice:
        own = self.config.profiles
        profiles = self.images.profiles() if own is None else own
        return choose(container.get("image", ""), profiles, self.config.default_profile)

    def container(self, tenant: Tenant, container: Document, sources: Sources, peers: dict[str, str]) -> Document:
        """The launch document of one container."""
        setting = self._setting(tenant, container, peers)
        variables = environment.resolve(container, sources) if container.get("volumeMounts") else {}
        bound = mounts.mounts_of(container, tenant.roots, variables)
        for mount in bound if self.level == "D" else ():  # elsewhere the container's init makes what is missing
            if not os.path.exists(mount.path):
                Path(mount.path).mkdir(parents=True)
        message = Mount(str(self._new_message(tenant, container)), _message_path(container))
        return launch.launch(container, sources, [message, *self.mounted(tenant, bound)], setting)

    def message_file(self, tenant: Tenant, container: str) -> Path:
        """Where a container leaves its last words; no volume has a name with a dot."""
        return self.volatile / tenant.uid / f"message.{container}"

    def _new_message(self, tenant: Tenant, container: Document) -> Path:
        path = self.message_file(tenant, container["name"])
        path.unlink(missing_ok=True)
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(made, 0o666)  # whoever the container runs as
        os.close(made)
        return path

    def _setting(self, tenant: Tenant, container: Document, peers: dict[str, str]) -> launch.Setting:
        state, pod = self.config.state, tenant.document
        profile = self.choice(container).profile
        python = self.environments.python_of(profile)
        job = f"{namespace_of(pod)}/{pod['spec'].get('subdomain', '')}"
        port = self.ports.of(job) if self.level in "CD" else 0
        scratch = tenant.place / "work"
        tools = self.environments.tools(python)
        limits, group = self._limits(tenant, container), (tenant.uid, container["name"])
        gpus = self._gpus(tenant, container)
        names = tenant.place / "names.json"
        if self.level == "D":
            scratch.mkdir(exist_ok=True)
            names.write_text(json.dumps(peers))
        return launch.Setting(
            level=self.level,
            profile=profile,
            path=(*profile.path, *([str(tools)] if tools else []), os.path.dirname(python)),
            visible=(*_visible(python), *([str(tools)] if tools else [])),
            hidden=self.hidden,
            stage=str(state / "stage"),
            scratch=str(scratch),
            hooks=str(state / "hooks") if self.level == "D" else "",
            hosts=str(self.hosts_of(tenant)),
            resolver=self.gateway,
            installer=self.installer,
            names=peers if self.level == "D" else {},
            port=port,
            limits=limits,
            groups=self.groups.steps(*group, limits),
            doors=self.groups.doors(*group, limits),
            devices=devices.device_nodes(gpus),
            extra=self._extra(tenant) | devices.variables(gpus, any_here=bool(self.devices)),
            tree=self.host_tree(),
            shift=Shift(*tenant.users[:2]) if tenant.users else Shift(),
            machine=platform.machine(),
            many_users=self.many_users,
            preload=str(self.preload or ""),
        )

    def _extra(self, tenant: Tenant) -> dict[str, str]:
        """A plain process finds names through us, and its installer must keep off the host's own packages."""
        if self.level != "D":
            return {}
        work = tenant.place / "work"
        (work / "tmp").mkdir(exist_ok=True)  # the machine's own /tmp has files of others
        found = {"ABOARD_HOSTS": str(tenant.place / "names.json"), "TMPDIR": str(work / "tmp")}
        return found | {"PIP_TARGET": str(work / "packages"), "PYTHONPATH": str(work / "packages")}

    def forget(self, tenant: Tenant) -> None:
        """Nothing of the pod runs: its groups go, and what was in memory for it."""
        self.groups.forget(tenant.uid, *tenant.attempts)
        volumes.take_away(self.volatile / tenant.uid)

    def mounted(self, tenant: Tenant, bound: list[Mount]) -> list[Mount]:
        """Groups that only pseudo-root can give are given by the container's init."""
        group = dig(tenant.document, "spec", "securityContext", "fsGroup")
        if group is None or self.level == "A" or not self.many_users:
            return bound
        ours = {str(root) for root in tenant.roots.values()}
        return [replace(mount, group=group) if mount.source in ours else mount for mount in bound]


def _pip_conf(gateway: str) -> str:
    """The machine's own settings for pip, with the way out of the pods' network. (A variable would mislead JAX.)"""
    settings = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error):
        settings.read("/etc/pip.conf")
    if not settings.has_section("global"):
        settings.add_section("global")
    settings.set("global", "proxy", f"http://{gateway}:{PROXY_PORT}")
    settings.set("global", "root-user-action", "ignore")
    text = io.StringIO()
    settings.write(text)
    return text.getvalue()


def _volatile(state: Path) -> Path:
    """Where secrets and memory volumes live: never on disk where there is a memory file system."""
    if os.access("/dev/shm", os.W_OK):
        return Path("/dev/shm") / f"aboard-{os.getuid()}-{short_name(state)}"
    return state / "volatile"


def short_name(state: Path) -> str:
    """One word for a state directory, the same in every process."""
    return hashlib.sha256(str(state).encode()).hexdigest()[:10]


def _message_path(container: Document) -> str:
    return str(container.get("terminationMessagePath") or "/dev/termination-log")


def _wanted(pod: Document) -> Iterable[tuple[str, str]]:
    """The ConfigMaps and Secrets a pod names, in its environments and volumes."""
    containers = [*pod["spec"].get("containers", []), *(pod["spec"].get("initContainers") or [])]
    for container in containers:
        for entry in container.get("envFrom") or []:
            if "configMapRef" in entry:
                yield "configMap", entry["configMapRef"]["name"]
            if "secretRef" in entry:
                yield "secret", entry["secretRef"]["name"]
        for entry in container.get("env") or []:
            source = entry.get("valueFrom") or {}
            if "configMapKeyRef" in source:
                yield "configMap", source["configMapKeyRef"]["name"]
            if "secretKeyRef" in source:
                yield "secret", source["secretKeyRef"]["name"]
    for volume in mounts.volumes_of(pod):
        yield from mounts.needs(volume)


@functools.cache
def _visible(python: str) -> list[str]:
    """The trees an interpreter needs: its environment, the installation behind it, and this package."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    behind = os.path.dirname(os.path.dirname(os.path.realpath(python)))
    package = str(Path(__file__).resolve().parent.parent.parent)
    return [path for path in dict.fromkeys((prefix, behind, package)) if path not in ("/", "/usr")]
