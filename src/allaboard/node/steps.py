"""How a container is made, as a list of small steps: the tree its init builds, then what turns a fork into a program.

The list is data, so that two workmen can follow it: the init in Python (`builder.py`) and the compiled one (`init.c`).
What isolates a pod stands here and nowhere else. A step is a word and its arguments, all text; a word that begins with
`?` may fail.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from allaboard.api.documents import Document
from allaboard.node.syscalls import (
    CAPABILITIES,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
)

Step = list[str]

OLD = "/.old"
WHOLE = "+"  # the layer of the whole tree, among those of single directories
# Rebuilt for every container; everything else at the top of the host's tree is shown through an overlay.
FRESH = frozenset({"proc", "sys", "dev", "tmp", "run", "lost+found", "home", "root", ".old"})
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
MASKED = (
    "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger", "/proc/latency_stats", "/proc/sched_debug",
    "/proc/scsi", "/proc/interrupts", "/sys/firmware", "/sys/devices/virtual/powercap",
)  # fmt: skip
SEALED = ("/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq")
# Places of the host that hold what belongs to others.
EMPTIED = (
    "var/backups", "var/log", "var/tmp", "var/spool", "var/lib/aboard", "var/lib/docker", "var/lib/containerd",
    "var/lib/kubelet", "var/lib/etcd", "etc/ssl/private", "etc/kubernetes", "etc/sudoers.d",
)  # fmt: skip
NEW = (
    ("tmp", 0o1777), ("run", 0o755), ("home", 0o755), ("root", 0o700), ("dev", 0o755), ("proc", 0o755), ("sys", 0o755),
    ("run/sshd", 0o755), ("run/lock", 0o755), ("dev/shm", 0o1777), ("dev/pts", 0o755),
)  # fmt: skip
LINKS = (
    ("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)  # fmt: skip
# Upstream: what container runtimes leave to a container's root, without MKNOD (no device controller guards nodes here).
USUAL = (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tree:
    """The machine's part: what stands at the top of its files (name; link target, "." where empty), how we mount."""

    top: Sequence[tuple[str, str]] = ()
    private: Sequence[str] = ()  # files nobody in a container may read
    rootless: bool = False
    whole: bool = False  # one overlay for everything, else one for each directory at the top
    others: Sequence[str] = ()  # what else stands at the top and is not shown
    apart: Sequence[str] = ()  # directories at the top that are file systems of their own
    cover: str = ""  # a layer that covers what may not be seen, made once for all who share the machine's users


@dataclass(frozen=True, slots=True)
class Shift:
    """Where a pod's own users begin among the machine's; 0, 0 where it shares them."""

    uid: int = 0
    gid: int = 0

    def __bool__(self) -> bool:
        return bool(self.uid)


HERE, SHARED = Tree(), Shift()


@dataclass(frozen=True, slots=True)
class House:
    """The file tree of one container."""

    stage: str
    etc: Mapping[str, Sequence[str | int]] = field(default_factory=dict)  # path below /etc → [text, mode]
    files: Mapping[str, str] = field(default_factory=dict)  # the image's own
    home: Sequence[str | int] = ("/root", 0, 0)
    hidden: Sequence[str] = ()
    visible: Sequence[str] = ()
    devices: Sequence[str] = ()
    mounts: Sequence[Document] = ()
    size: str = "50%"


def build(house: House, tree: Tree, shift: Shift) -> list[Step]:
    """Leave the host's file tree for the container's own."""
    root = f"{house.stage}/root"
    made: list[Step] = [["shift", str(shift.uid), str(shift.gid)]]
    made += [_mount("none", "/", "", MS_REC | MS_PRIVATE)]
    made += [_mount("tmpfs", house.stage, "tmpfs", MS_NODEV, _owned(f"mode=0755,size={house.size}", shift))]
    made += [["mkdir", f"{house.stage}/{name}", "755"] for name in ("root", "up", "work", "low")]
    made += _at_once(house, tree, shift) if tree.whole else _one_by_one(house, tree, shift)
    made += [_reveal(house.stage, path, rootless=tree.rootless) for path in house.visible]
    made += [["mkdir", root + OLD, "700"], ["pivot", root, root + OLD]]
    masked = [["?mask", path] for path in tree.private if not tree.whole or _top_of(path) in tree.apart]
    made += [*_furnish(house), *masked, *_populate(house)]
    made += [_volume(volume) for volume in house.mounts]
    return [*made, ["unmount", OLD], ["rmdir", OLD]]


def _one_by_one(house: House, tree: Tree, shift: Shift) -> list[Step]:
    """An overlay for every directory at the top of the host's tree."""
    root = f"{house.stage}/root"
    made: list[Step] = [_mount(root, root, "", MS_BIND)]
    for name, link in tree.top:
        made += _top(house, name, link, rootless=tree.rootless)
    made += [["mkdir", f"{root}/{name}", f"{mode:o}"] for name, mode in NEW]
    return [*made, *(_emptied(root, name, shift) for name in _secret(house.hidden))]


def _at_once(house: House, tree: Tree, shift: Shift) -> list[Step]:
    """One overlay for the whole of the host's tree. What may not be seen is covered before anybody can look: by a layer
    between the two, or (a pod with users of its own must own what covers) in the upper one."""
    upper, root = f"{house.stage}/up/{WHOLE}", f"{house.stage}/root"
    cover = "" if shift else tree.cover
    made: list[Step] = [["mkdir", upper, "755"]]
    made += [] if cover else covering(upper, tree, house.hidden, kept=house.files)
    made += [["like", upper, "etc"], *_written(house, "", upper), *_accounts(house, f"{upper}/etc")]
    made += [["whole", root, *(f"{house.stage}/{place}/{WHOLE}" for place in ("low", "up", "work")), cover]]
    # Memory that programs share stands in memory itself.
    made += [["mkdir", f"{house.stage}/dev", "755"], ["mkdir", f"{house.stage}/dev/shm", "1777"]]
    made += [["mkdir", f"{house.stage}/dev/pts", "755"], _mount(f"{house.stage}/dev", f"{root}/dev", "", MS_BIND)]
    for name in tree.apart:
        made += [["mkdir", f"{house.stage}/up/{name}", "755"], *_written(house, name, f"{house.stage}/up/{name}")]
        made += [_layer(house.stage, name, f"/{name}", rootless=tree.rootless)]
    secret = _secret(house.hidden)
    return [*made, *(_emptied(root, name, shift) for name in secret if _top_of(name) in tree.apart)]


def covering(layer: str, tree: Tree, hidden: Iterable[str], kept: Container[str] = ()) -> list[Step]:
    """What nobody in a container may see of the host, covered in a layer above it: by a directory that lets nothing
    through, or by the mark that says there is nothing. `kept` are files the layer has already."""
    made: list[Step] = []
    made += [["cover" if "/" not in name else "mkdir", f"{layer}/{name}", f"{mode:o}"] for name, mode in NEW]
    made += [["nothing", f"{layer}/{name}"] for name in tree.others]
    secret = [name for name in _secret(hidden) if _top_of(name) not in FRESH]
    made += [["hide", layer, name, _tmp_mode(name)] for name in secret if _top_of(name) not in tree.apart]
    for path in tree.private:
        if _top_of(path) not in tree.apart and path not in kept:
            made += [["like", layer, path.rpartition("/")[0].lstrip("/")], ["nothing", layer + path]]
    return made


def _secret(hidden: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*EMPTIED, *(path.lstrip("/") for path in hidden)]))


def _top_of(path: str) -> str:
    return path.lstrip("/").partition("/")[0]


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> Step:
    return ["mount", source, target, kind, str(flags), options]


def _owned(options: str, shift: Shift) -> str:
    return f"{options},uid={shift.uid},gid={shift.gid}" if shift else options


def _top(house: House, name: str, link: str, *, rootless: bool) -> list[Step]:
    """One entry at the top of the tree; an empty directory needs no overlay, unless the image puts something there."""
    if not link or (link == "." and any(path.startswith(f"/{name}/") for path in house.files)):
        return _show(house, name, rootless=rootless)
    place = f"{house.stage}/root/{name}"
    return [["mkdir", place, "755"] if link == "." else ["symlink", link, place]]


def _show(house: House, name: str, *, rootless: bool) -> list[Step]:
    """One top directory of the host: its content below, what the container writes above (in memory)."""
    upper = f"{house.stage}/up/{name}"
    made: list[Step] = [["mkdir", f"{house.stage}/root/{name}", "755"], ["mkdir", upper, "755"]]
    made += [*_written(house, name, upper), *(_accounts(house, upper) if name == "etc" else [])]
    return [*made, _layer(house.stage, name, f"/{name}", rootless=rootless)]


def _written(house: House, name: str, upper: str) -> list[Step]:
    """The image's own files below a directory at the top ("" for all of them but a home's), in its upper layer:
    pseudo-root may not change what belongs to the real one."""
    before = f"/{name}" if name else ""
    mine = {path: text for path, text in house.files.items() if path.startswith(f"{before}/")}
    if not name:
        mine = {path: text for path, text in mine.items() if _top_of(path) not in FRESH}
    return [["write", upper + path.removeprefix(before), _mode(text), "0", "0", text] for path, text in mine.items()]


def _accounts(house: House, upper: str) -> list[Step]:
    """What is ours below /etc."""
    return [
        ["write", f"{upper}/{path}", f"{int(mode):o}", "0", "0", str(content)]
        for path, (content, mode) in house.etc.items()
    ]


def _layer(stage: str, name: str, lower: str, *, rootless: bool) -> Step:
    """An overlay; where there can be none (mounts of an outer namespace inside), the directory as it is, sealed."""
    parts = [f"{stage}/{place}/{name}" for place in ("low", "up", "work")]
    return ["layer", lower, f"{stage}/root{lower}", *parts, "userxattr" if rootless else ""]


def _reveal(stage: str, path: str, *, rootless: bool) -> Step:
    """A tree that must be seen though its home is hidden: the interpreter and the image's environment."""
    name = path.strip("/").replace("/", "-")
    return ["reveal", *_layer(stage, name, path, rootless=rootless)[1:]]


def _emptied(root: str, name: str, shift: Shift) -> Step:
    return ["?empty", f"{root}/{name}", _owned(f"mode={_tmp_mode(name)}", shift)]


def _tmp_mode(name: str) -> str:
    return "1777" if name == "var/tmp" else "0755"


def _furnish(house: House) -> list[Step]:
    """/proc, /sys and /dev, as a container expects them."""
    quiet = MS_NOSUID | MS_NODEV | MS_NOEXEC
    made: list[Step] = [["fresh", "proc", "/proc", str(quiet), f"{OLD}/proc"]]
    made += [["fresh", "sysfs", "/sys", str(quiet | MS_RDONLY), f"{OLD}/sys"]]
    made += [["device", f"{OLD}/dev/{name}", f"/dev/{name}"] for name in (*DEVICES, *house.devices)]
    options = "newinstance,ptmxmode=0666,mode=0620"
    made += [["?mount", "devpts", "/dev/pts", "devpts", str(MS_NOSUID | MS_NOEXEC), options]]
    made += [["symlink", target, f"/dev/{name}"] for name, target in LINKS]
    return [*made, *(["?mask", path] for path in MASKED), *(["?seal", path] for path in SEALED)]


def _mode(text: str) -> str:
    return "755" if text.startswith("#!") else "644"


def _populate(house: House) -> list[Step]:
    """The user's home and what the image has in it."""
    home, uid, gid = str(house.home[0]), str(house.home[1]), str(house.home[2])
    made: list[Step] = [["mkdirs", home]]
    for path, text in house.files.items():
        if path.startswith(home + "/"):
            made.append(["write", path, _mode(text), uid, gid, text])
    return [*made, *([["chown", home, uid, gid]] if uid != "0" else [])]


def _volume(volume: Document) -> Step:
    """One volume at its mountPath; paths are the container's own, so a link in them cannot lead to the host."""
    how, group = "ro" if volume.get("readOnly") else "", str(volume.get("group", ""))
    return ["volume", OLD + volume["source"], volume["target"], how, group, volume.get("inner", "")]


@dataclass(frozen=True, slots=True)
class Worker:
    """What a forked process must become before its program runs."""

    cwd: str = "/"
    uid: int = 0
    gid: int = 0
    groups: Sequence[int] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    add: Sequence[str] = ()  # capabilities
    drop: Sequence[str] = ()
    no_new_privileges: bool = False
    filter: str = ""  # a seccomp program, in hexadecimal digits


def become(worker: Worker, *, isolated: bool) -> list[Step]:
    """Limits, users, rights, filter, place, in the one order that works."""
    made: list[Step] = [["?rlimit", name, str(worker.limits[name])] for name in ("data",) if worker.limits.get(name)]
    if isolated:
        made += [["users"], ["?groups", ",".join(map(str, worker.groups))], ["gid", str(worker.gid)]]
        # Changing the user empties the working sets; until then what it takes must last. The filter needs rights, too.
        made += [["filter", worker.filter]] if worker.filter else []
        kept = kept_capabilities(worker.add, worker.drop)
        made += [["capabilities", _mask(kept if worker.uid == 0 else kept | _needed())], ["uid", str(worker.uid)]]
        made += [["no-new-privileges"]] if worker.no_new_privileges else []
    return [*made, ["cwd", worker.cwd or "/"]]


def kept_capabilities(add: Iterable[str], drop: Sequence[str]) -> frozenset[int]:
    """Upstream: the usual ones, less those dropped, and those added; ALL stands for every one."""
    usual = frozenset(CAPABILITIES[name] for name in USUAL)
    everything = frozenset(CAPABILITIES.values())
    left = frozenset() if "ALL" in drop else (everything if "ALL" in add else usual) - _numbers(drop)
    return left | _numbers(add)


def _numbers(names: Iterable[str]) -> frozenset[int]:
    return frozenset(CAPABILITIES[name] for name in names if name in CAPABILITIES)


def _needed() -> frozenset[int]:
    return _numbers(("SETUID", "SETGID", "SETPCAP"))


def _mask(kept: Iterable[int]) -> str:
    return f"{sum(1 << number for number in kept):x}"


def whole(spec: Document) -> list[Step]:
    """A launch document as one list: where it belongs, its tree, the fork, and what that becomes."""
    made: list[Step] = list(spec.get("groups", []))
    made += [["streams", "fifo" if spec.get("stdin") else "null"], ["enter"], *spec["steps"]]
    made += [["spawn", "tty" if spec.get("tty") else ""], *spec["become"]]
    made += [["env", f"{name}={value}"] for name, value in spec["env"].items()]
    return [*made, ["exec", *map(str, spec["argv"])]]


def decode(data: bytes) -> list[Step]:
    """What `encode` made, for the init in Python."""
    made, place = [], 0
    while place < len(data):
        end = data.index(b"\n", place)
        count, place = int(data[place:end]), end + 1
        step = []
        for _ in range(count):
            end = data.index(b":", place)
            size = int(data[place:end])
            step.append(data[end + 1 : end + 1 + size].decode(errors="surrogateescape"))
            place = end + 1 + size + 1
        made.append(step)
    return made


def parts_of(steps: Sequence[Step]) -> dict[str, list[Step]]:
    """Of a whole list: what makes the control groups, and what makes the file tree."""
    words = [step[0] for step in steps]
    tree = steps[words.index("enter") + 1 : words.index("spawn")]
    return {"groups": list(steps[: words.index("streams")]), "steps": list(tree)}


def encode(steps: Iterable[Sequence[str]]) -> bytes:
    """Steps as an init reads them: how many words, then each as length (in bytes), colon, text, and C's end of text."""
    known = [list(step) for step in steps]
    text = "".join([f"{len(step)}\n" + "".join([f"{len(word)}:{word}\0" for word in step]) for step in known])
    if text.isascii():  # nearly always: every character is one byte
        return text.encode()
    parts = []
    for step in known:
        words = [_bytes(word) for word in step]
        parts += [b"%d\n" % len(words), *(b"%d:%b\0" % (len(word), word) for word in words)]
    return b"".join(parts)


def _bytes(word: str) -> bytes:
    """Text, or bytes that are none (as Python writes them in text); half a character is none of both, and replaced."""
    try:
        return word.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return word.encode(errors="replace")
