"""How a container is to be started, as one document for its init: command, environment, user, files, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from allaboard.api.documents import Document, dig
from allaboard.node import environment, filters, hosts, mounts, steps
from allaboard.node.environment import Sources
from allaboard.node.hosts import Person
from allaboard.node.limits import Limits
from allaboard.node.mounts import Mount
from allaboard.node.profiles import Profile
from allaboard.node.steps import House, Shift, Step, Tree, Worker

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Variables that carry the rendezvous port of a job; where pods share a network each job needs another port.
PORT_NAMES = ("PET_MASTER_PORT", "MASTER_PORT", "DMLC_TRACKER_PORT")
TWINS = {
    "OMPI_MCA_orte_default_hostfile": "PRTE_MCA_prte_default_hostfile",
    "OMPI_MCA_plm_rsh_args": "PRTE_MCA_plm_ssh_args",
    "OMPI_MCA_orte_set_default_slots": "PRTE_MCA_prte_set_default_slots",
}
ADDRESS_NAMES = ("PET_RDZV_ENDPOINT", "JAX_COORDINATOR_ADDRESS")


class Refused(Exception):
    """Something in the pod this node does not do; Kubernetes says CreateContainerConfigError."""


class NoCommand(Exception):
    """Neither the container nor its image says what to run; Kubernetes says CreateContainerError."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What this machine gives to one container besides what the pod says."""

    level: str
    profile: Profile
    path: tuple[str, ...] = ()  # first on PATH: the profile's environment
    visible: tuple[str, ...] = ()  # trees of hidden homes that must be seen
    hidden: tuple[str, ...] = ()  # trees that must not be
    stage: str = ""
    scratch: str = ""  # where a plain process starts
    hooks: str = ""  # a directory for PYTHONPATH where names are resolved by us
    hosts: str = ""  # the pod's hosts file
    resolver: str = ""
    installer: str = ""  # settings for pip
    names: Mapping[str, str] = field(default_factory=dict)  # peers, for levels without a hosts file
    port: int = 0  # of the job, for levels without a network of its own
    limits: Limits = field(default_factory=Limits)
    groups: Sequence[Step] = ()  # how its control groups are made and joined
    doors: tuple[str, ...] = ()  # where others join them
    devices: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)  # variables of devices and the like
    tree: Tree = steps.HERE
    shift: Shift = steps.SHARED  # where the pod has users of its own
    machine: str = ""  # the processor's family, for the filter
    preload: str = ""  # a library every program of the container is given
    many_users: bool = True  # False where only one user exists (rootless, single map)


def launch(container: Document, sources: Sources, bound: Sequence[Mount], setting: Setting) -> Document:
    """The launch document of one container."""
    pod = sources.pod
    check(pod, container)
    user = user_of(pod, container, setting)
    variables = _variables(container, sources, setting, user)
    argv = environment.command_line(_with_default_command(container, setting.profile), variables)
    if not argv:
        raise NoCommand("no command specified")
    if setting.level in "CD" and needs_network(argv, variables):
        words = f"ranks over ssh need a network for every pod; level {setting.level} has none (see: aboard doctor)"
        raise Refused(f'container "{container["name"]}": {words}')
    spec: Document = {"argv": argv, "env": variables, "cwd": container.get("workingDir") or "/"}
    spec |= {"stdin": bool(container.get("stdin")), "tty": bool(container.get("tty"))}
    spec |= {"doors": list(setting.doors), "groups": list(setting.groups)}
    if setting.level == "D":
        spec = _plain(spec, bound, setting)
    else:
        spec["steps"] = steps.build(_house(pod, setting, user, bound, variables), setting.tree, setting.shift)
    worker = _worker(pod, container, user, setting)
    return {**spec, "become": steps.become(replace(worker, cwd=spec["cwd"]), isolated=setting.level != "D")}


HOST_FILES = ("OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE")


def needs_network(argv: Sequence[str], variables: Mapping[str, str]) -> bool:
    """Whether a container is a part of an MPI job: it waits for ssh, or will call others by it."""
    return argv[0].rpartition("/")[2] == "sshd" or any(name in variables for name in HOST_FILES)


def _house(
    pod: Document, setting: Setting, user: Person, bound: Sequence[Mount], variables: Mapping[str, str]
) -> House:
    """The container's file tree."""
    return House(
        stage=setting.stage,
        etc=_etc(pod, setting, user),
        files=_files(setting, variables),
        home=[user.home, user.uid, user.gid],
        hidden=setting.hidden,
        visible=setting.visible,
        devices=setting.devices,
        mounts=[mount.document() for mount in (Mount(setting.hosts, "/etc/hosts"), *_preload(setting), *bound)],
    )


PRELOAD = "/run/aboard/groups.so"  # where also pseudo-root may make a file


def _preload(setting: Setting) -> list[Mount]:
    return [Mount(setting.preload, PRELOAD, read_only=True)] if setting.preload else []


def _worker(pod: Document, container: Document, user: Person, setting: Setting) -> Worker:
    """Who the container's process is and what it may do."""
    context = container.get("securityContext") or {}
    capabilities = context.get("capabilities") or {}
    add, drop = _bare(capabilities.get("add")), _bare(capabilities.get("drop"))
    return Worker(
        uid=user.uid,
        gid=user.gid,
        groups=_groups(pod, user),
        limits=setting.limits.document(),
        add=add,
        drop=drop,
        no_new_privileges=context.get("allowPrivilegeEscalation") is False,
        filter=_filter(pod, container, setting.machine, add),
    )


def _filter(pod: Document, container: Document, machine: str, add: Sequence[str]) -> str:
    """Upstream: a profile of the container or its pod; we always use the runtime's default unless told not to."""
    asked = dig(container, "securityContext", "seccompProfile") or dig(pod, "spec", "securityContext", "seccompProfile")
    kind = (asked or {}).get("type", "RuntimeDefault")
    if kind == "Localhost":
        name = asked.get("localhostProfile", "") if asked else ""
        words = f'seccompProfile "{name}" of this machine is not supported; use RuntimeDefault or Unconfined'
        raise Refused(f'container "{container["name"]}": {words}')
    return "" if kind == "Unconfined" else filters.program(machine, frozenset(add)).hex()


def check(pod: Document, container: Document) -> None:
    """What this node cannot do is refused by name."""
    if dig(container, "securityContext", "privileged"):
        raise Refused(f'container "{container["name"]}": privileged is not supported; name the capabilities it needs')
    for field_name in ("hostNetwork", "hostPID", "hostIPC"):
        if dig(pod, "spec", field_name):
            raise Refused(f"spec.{field_name} is not supported on this node")


def _with_default_command(container: Document, profile: Profile) -> Document:
    if container.get("command") or not profile.command:
        return container
    return {**container, "command": list(profile.command)}


def user_id(pod: Document, container: Document, profile: Profile) -> int:
    """The number a container runs as: it says, its pod says, its image says, or root."""
    asked = dig(container, "securityContext", "runAsUser", default=dig(pod, "spec", "securityContext", "runAsUser"))
    if asked is not None:
        return int(asked)
    return profile.user.uid if profile.user is not None else 0


def user_of(pod: Document, container: Document, setting: Setting) -> Person:
    """Who the container runs as."""
    uid, own = user_id(pod, container, setting.profile), setting.profile.user
    gid = dig(container, "securityContext", "runAsGroup", default=dig(pod, "spec", "securityContext", "runAsGroup"))
    if dig(container, "securityContext", "runAsNonRoot", default=dig(pod, "spec", "securityContext", "runAsNonRoot")):
        _refuse_root(container, uid)
    if not setting.many_users:  # everybody is the one user, under the image's name and in its home
        return replace(own, uid=0, gid=0) if own is not None else Person("root", 0, 0, "/root", "/bin/bash")
    if own is not None and own.uid == uid:
        return Person(own.name, uid, own.gid if gid is None else gid, own.home, own.shell)
    name = "root" if uid == 0 else f"user{uid}"
    return Person(name, uid, gid or 0, "/root" if uid == 0 else f"/home/{name}", "/bin/bash")


def _refuse_root(container: Document, uid: int | None) -> None:
    if not uid:
        words = "container has runAsNonRoot and image will run as root"
        raise Refused(f"{words} (container: {container['name']})")


def _groups(pod: Document, user: Person) -> list[int]:
    context = dig(pod, "spec", "securityContext", default={})
    groups = [*(context.get("supplementalGroups") or []), *([context["fsGroup"]] if context.get("fsGroup") else [])]
    return sorted({user.gid, *groups})


def _variables(container: Document, sources: Sources, setting: Setting, user: Person) -> dict[str, str]:
    """Lowest first: the machine's, the image's, Kubernetes' own, the container's."""
    path = ":".join([*setting.path, SYSTEM_PATH])
    home = user.home if setting.level != "D" else setting.scratch
    found = {"PATH": path, "HOME": home, "HOSTNAME": hosts.hostname_of(sources.pod)}
    found |= setting.profile.env
    found |= setting.limits.variables()
    found |= setting.extra
    found |= environment.resolve(container, sources)
    return found | twins(found)


def _etc(pod: Document, setting: Setting, user: Person) -> dict[str, list[str | int]]:
    people = tuple(person for person in (setting.profile.user, user) if person is not None and person.uid != 0)
    files = dict(hosts.account_files(people if setting.many_users else (user,), 101 if setting.many_users else 0))
    if setting.preload:
        files["ld.so.preload"] = (f"{PRELOAD}\n", 0o644)
    name = hosts.hostname_of(pod)
    files |= {"hostname": (f"{name}\n", 0o644), "nsswitch.conf": (NSSWITCH, 0o644)}
    files["resolv.conf"] = (hosts.resolv_conf(pod, setting.resolver), 0o644)
    if setting.installer:
        files["pip.conf"] = (setting.installer, 0o644)
    return {path: [text, mode] for path, (text, mode) in files.items()}


def _files(setting: Setting, variables: Mapping[str, str]) -> dict[str, str]:
    """The image's own files; {PATH} in them is the container's."""
    return {path: text.replace("{PATH}", variables["PATH"]) for path, text in setting.profile.files.items()}


def twins(variables: Mapping[str, str]) -> dict[str, str]:
    """Open MPI 5 reads its settings under other names, and without them runs every rank in one place."""
    return {new: variables[old] for old, new in TWINS.items() if old in variables and new not in variables}


NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nservices: files\n"


def _bare(names: Sequence[str] | None) -> list[str]:
    return [name.upper().removeprefix("CAP_") for name in names or ()]


def _plain(spec: Document, bound: Sequence[Mount], setting: Setting) -> Document:
    """A process without namespaces: names become addresses, mount paths host paths, the port the job's own."""

    def rewritten(text: str) -> str:
        return mounts.replaced_paths(hosts.rewrite(text, setting.names), bound)

    env = {name: _port(name, rewritten(value), setting.port) for name, value in spec["env"].items()}
    if setting.hooks:
        env["PYTHONPATH"] = ":".join(filter(None, [setting.hooks, env.get("PYTHONPATH", "")]))
    env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    here = rewritten(spec["cwd"]) if spec["cwd"] != "/" else setting.scratch
    return {**spec, "argv": [rewritten(word) for word in spec["argv"]], "env": env, "cwd": here}


def _port(name: str, value: str, port: int) -> str:
    if not port:
        return value
    if name in PORT_NAMES and value.isdigit():
        return str(port)
    host, colon, old = value.rpartition(":")
    return f"{host}:{port}" if name in ADDRESS_NAMES and colon and old.isdigit() else value
