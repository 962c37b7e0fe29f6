"""Control groups: limits the kernel keeps, where we may make groups (v2 as root or delegated, v1 as root).

One group per container and no other: making and removing one costs the kernel more than a process. What a machine
cannot do is said (`kind`, `words`), never pretended.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from allaboard.node.limits import PERIOD, Limits
from allaboard.node.steps import Step

ROOT = Path("/sys/fs/cgroup")
WANTED = ("cpu", "memory", "pids")


@dataclass(slots=True)
class Groups:
    """Where our groups live: one tree (v2) or one per controller (v1); none where nothing may be made."""

    kind: str = "none"
    bases: dict[str, Path] = field(default_factory=dict)
    processes: int = 4096
    words: str = "no control groups: memory is watched, processors are shared by affinity"

    def keeps(self, controller: str) -> bool:
        return controller in self.bases

    def doors(self, pod: str, container: str, limits: Limits) -> tuple[str, ...]:
        """The files a process of a container writes "0" into, to stand in its groups.

        All who do have one thread. In v1 it goes in as such: going in as a process would wait for all processors to
        pass a quiet state, 10 ms and more, lest a thread is born meanwhile.
        """
        door = "cgroup.procs" if self.kind == "v2" else "tasks"
        return tuple(f"{path}/{door}" for path in self._paths(pod, container, limits))

    def _paths(self, pod: str, container: str, limits: Limits) -> list[str]:
        wanted = [base for controller, base in self.bases.items() if self._matters(controller, limits)]
        return [_path(base, pod, container) for base in dict.fromkeys(wanted)]

    def steps(self, pod: str, container: str, limits: Limits) -> list[Step]:
        """How the container's init makes its groups, sets their limits and joins them. (Making one takes the kernel a
        while; the agent has others to look after.)"""
        made: list[Step] = [["group", path] for path in self._paths(pod, container, limits)]
        for controller, base in self.bases.items():
            if self._matters(controller, limits):
                settings = self._settings(controller, limits).items()
                made += [["?set", f"{_path(base, pod, container)}/{name}", value] for name, value in settings]
        return [*made, *(["set", door, "0"] for door in self.doors(pod, container, limits))]

    def _matters(self, controller: str, limits: Limits) -> bool:
        """In v1 every controller has a tree of its own, and a group that limits nothing is only work."""
        asked = {"cpu": limits.cpu or limits.shares, "memory": limits.memory, "pids": True}
        return self.kind == "v2" or bool(asked[controller])

    def _settings(self, controller: str, limits: Limits) -> dict[str, str]:
        """The files that express the limits, for one controller of this version."""
        if controller == "pids":
            return {"pids.max": str(self.processes)}
        if self.kind == "v2":
            return _v2_settings(controller, limits)
        return _v1_settings(controller, limits)

    def was_starved(self, pod: str, container: str) -> bool:
        """Whether the kernel killed something of this container for want of memory."""
        base = self.bases.get("memory")
        if base is None:
            return False
        name = "memory.events" if self.kind == "v2" else "memory.oom_control"
        for line in _read(f"{_path(base, pod, container)}/{name}").splitlines():
            word, _, count = line.partition(" ")
            if word == "oom_kill" and count.strip() != "0":
                return True
        return False

    def tidy(self, known: set[str]) -> None:
        """Groups that an earlier agent left and nobody needs."""
        for base in set(self.bases.values()):
            for path in base.glob("pod-*"):
                if path.name.removeprefix("pod-").partition(".")[0] not in known:
                    _remove(path)

    def forget(self, pod: str, *containers: str) -> None:
        """They are over; another attempt will count afresh."""
        for base in set(self.bases.values()):
            for container in containers:
                _remove(_path(base, pod, container))

    def close(self) -> None:
        for base in set(self.bases.values()):
            _prune(base)


def unleash(doors: Iterable[str]) -> None:
    """Who is killed must have processor time to die: thousands of processes on a third of a core take many minutes."""
    for door in doors:
        group = os.path.dirname(door)
        for name, text in (("cpu.max", "max"), ("cpu.cfs_quota_us", "-1")):
            if os.path.exists(f"{group}/{name}"):
                _write(Path(group, name), text)


def _path(base: Path, pod: str, container: str) -> str:
    return f"{base}/pod-{pod}.{container}"


def _v2_settings(controller: str, limits: Limits) -> dict[str, str]:
    if controller == "cpu":
        return {"cpu.max": limits.quota(), "cpu.weight": str(_weight(limits.shares))}
    found = {"memory.max": str(limits.memory or "max")}
    # Upstream: the whole container dies, not a random process of it.
    return found | {"memory.oom.group": "1"}


def _v1_settings(controller: str, limits: Limits) -> dict[str, str]:
    if controller == "cpu":
        quota = str(int(limits.cpu * PERIOD)) if limits.cpu else "-1"
        shares = str(max(2, int(limits.shares * 1024)))
        return {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": quota, "cpu.shares": shares}
    return {"memory.limit_in_bytes": str(limits.memory or -1)}


def _weight(cores: float) -> int:
    """Upstream: shares of v1 (1024 a core) as weights of v2 (1 … 10000)."""
    shares = max(2, int(cores * 1024))
    return 1 + ((shares - 2) * 9999) // 262142


def find(name: str, root: Path = ROOT) -> Groups:
    """The best this machine lets us do, found out by making a group."""
    for attempt in (_try_v2, _try_v1):
        groups = attempt(name, root)
        if groups is not None:
            return groups
    return Groups()


def _try_v2(name: str, root: Path) -> Groups | None:
    if not (root / "cgroup.controllers").exists():
        return None
    here = root if os.getuid() == 0 else root / _own_path("").lstrip("/")
    have = [word for word in _read(here / "cgroup.controllers").split() if word in WANTED]
    base = here / f"aboard-{name}"
    try:
        base.mkdir(exist_ok=True)
        if here != root:
            _step_aside(here)
        for place in (here, base):
            (place / "cgroup.subtree_control").write_text(" ".join(f"+{word}" for word in have))
    except OSError:
        _prune(base)
        return None
    return Groups("v2", dict.fromkeys(have, base), words=f"control groups v2: {', '.join(have)}") if have else None


def _step_aside(here: Path) -> None:
    """Only leaves may hold processes: ours move into one beside the pods'."""
    leaf = here / "agent"
    leaf.mkdir(exist_ok=True)
    for pid in _read(here / "cgroup.procs").split():
        _write(leaf / "cgroup.procs", pid)


def _try_v1(name: str, root: Path) -> Groups | None:
    bases = {}
    for controller in WANTED:
        base = root / controller / _own_path(controller).lstrip("/") / f"aboard-{name}"
        with contextlib.suppress(OSError):
            if (root / controller / "cgroup.procs").exists():
                base.mkdir(exist_ok=True)
                bases[controller] = base
    return Groups("v1", bases, words=f"control groups v1: {', '.join(bases)}") if bases else None


def _own_path(controller: str) -> str:
    """Where we stand in a controller's tree ("" is v2's)."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return "/"


def _read(path: str | Path) -> str:
    with contextlib.suppress(OSError), open(path) as file:
        return file.read()
    return ""


def _write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        path.write_text(text)


def _prune(path: Path) -> None:
    """Remove a group and those below it."""
    try:
        with os.scandir(path) as entries:
            children = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for child in children:
        _prune(child)
    _remove(path)


def _remove(path: str | Path) -> None:
    """The last process of a group may need a moment to be gone."""
    for _ in range(20):
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.001)
