"""Local environments behind image profiles: found, or built once from their requirements and kept."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from allaboard.api.errors import AboardError
from allaboard.node import records
from allaboard.node.profiles import Profile

Progress = Callable[[str], None]


class BuildFailed(AboardError):
    """The requirements of a profile could not be installed; Kubernetes says ErrImagePull."""


class Environments:
    """The environments of this machine, below one directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._locks: dict[str, asyncio.Lock] = {}

    def python_of(self, profile: Profile) -> str:
        """The interpreter of a profile; a built environment's may not be there yet."""
        if profile.requirements:
            return str(self.home_of(profile) / "bin" / "python")
        return profile.python or sys.executable

    def home_of(self, profile: Profile) -> Path:
        """Named by what is in it: the same requirements on the same interpreter are one environment."""
        words = "\n".join([profile.python or sys.executable, *sorted(profile.requirements)])
        return self.place / f"{profile.name}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"

    def is_ready(self, profile: Profile) -> bool:
        return not profile.requirements or (self.home_of(profile) / ".ready").exists()

    async def build(self, profile: Profile, tell: Progress) -> None:
        """Make a profile's environment unless it is there; concurrent askers wait for the one who builds."""
        async with self._locks.setdefault(profile.name, asyncio.Lock()):
            if self.is_ready(profile):
                return
            home = self.home_of(profile)
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
            home.parent.mkdir(parents=True, exist_ok=True)
            base = profile.python or sys.executable
            await _run([base, "-m", "venv", "--system-site-packages", str(home)], tell)
            install = [str(home / "bin" / "python"), "-m", "pip", "install", "--progress-bar", "off"]
            await _run([*install, *profile.requirements], tell)
            (home / ".ready").touch()

    def remove(self, profile: Profile) -> None:
        shutil.rmtree(self.home_of(profile), ignore_errors=True)

    def tools(self, python: str) -> Path | None:
        """A directory with the names people call an interpreter by, where its own has not got them."""
        own = Path(python).parent
        missing = [name for name in ("python", "python3") if not (own / name).exists()]
        if not missing:
            return None
        place = self.place / "tools" / hashlib.sha256(python.encode()).hexdigest()[:12]
        place.mkdir(parents=True, exist_ok=True)
        for name in missing:
            path = place / name
            if not path.exists():
                records.replace(path, f'#!/bin/sh\nexec {python} "$@"\n', 0o755)
        for parent in (self.place, self.place / "tools", place):
            parent.chmod(0o755)
        return place


async def _run(words: list[str], tell: Progress) -> None:
    """Run one step of a build; its lines are progress, its last ones the reason when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    step = await asyncio.create_subprocess_exec(
        *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert step.stdout is not None
    last: list[str] = []
    try:
        async for line in step.stdout:
            text = line.decode(errors="replace").strip()
            last = [*last[-4:], text]
            tell(text)
        code = await step.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            step.kill()
        raise
    if code:
        raise BuildFailed(f"{' '.join(words[:4])} … failed with {code}: {' | '.join(last)}")
