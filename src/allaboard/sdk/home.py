"""Where an embedded plane keeps its things on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from allaboard.api.errors import AboardError


class HomeError(AboardError):
    """The plane's folder cannot be used."""

    exit_code = 8


@dataclass(frozen=True, slots=True)
class Running:
    """What a running plane wrote down about itself."""

    pid: int
    server: str
    started: str
    nodes: int
    version: str


@dataclass(frozen=True, slots=True)
class Home:
    """One folder, one plane: its store, its keys, its logs and how to reach it."""

    path: Path

    @staticmethod
    def default() -> Home:
        given = os.environ.get("ABOARD_HOME")
        return Home(Path(given) if given else Path.home() / ".aboard")

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def store(self) -> Path:
        return self.path / "store.db"

    @property
    def socket(self) -> Path:
        return self.path / "api.sock"

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def node(self) -> Path:
        return self.path / "node"

    @property
    def images(self) -> Path:
        """The user's own image profiles."""
        return self.path / "images.json"

    @property
    def state(self) -> Path:
        return self.path / "plane.json"

    @property
    def ready(self) -> Path:
        """There once the plane's nodes have said that they are ready."""
        return self.path / "nodes.ready"

    def make(self) -> None:
        """Make the folder, for its owner alone."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            remedy = "set ABOARD_HOME to a folder you may write to"
            raise HomeError(f"{self.path}: cannot be made: {error.strerror}; {remedy}") from error
        if not os.access(self.path, os.W_OK):
            raise HomeError(f"{self.path}: is read-only; set ABOARD_HOME to a folder you may write to")

    def running(self) -> Running | None:
        """The plane that runs on this home, if one does; a plane that died is none."""
        try:
            running = Running(**json.loads(self.state.read_text()))
        except (OSError, ValueError, TypeError):
            return None
        return running if _is_plane(running.pid) else None


def _is_plane(pid: int) -> bool:
    """Whether a process exists and is ours: a pid may have been given to another program since."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return _is_alive(pid) if not Path("/proc/self").exists() else False
    except OSError:
        return False
    return b"allaboard" in command or b"aboard" in command


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
