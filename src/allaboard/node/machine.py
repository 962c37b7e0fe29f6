"""The machine as it is: cores, memory, disk, boot, and GPUs where there are any."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

from allaboard.node.nodes import Machine

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def look(state: Path) -> Machine:
    """What a node on this machine may announce."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = shutil.disk_usage(state).total
    resources = {
        "cpu": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{disk // 1024}Ki",
        "pods": "500",
    }
    return Machine(
        system=platform.system().lower(),
        architecture=ARCHITECTURES.get(platform.machine(), platform.machine()),
        kernel=platform.release(),
        system_image=_pretty_name(),
        boot=boot_id(),
        id=_first_line("/etc/machine-id"),
        resources=resources,
    )


def boot_id() -> str:
    """Changes with every start of the machine: records of an earlier boot name no living process."""
    return _first_line("/proc/sys/kernel/random/boot_id")


def _first_line(path: str) -> str:
    with contextlib.suppress(OSError, IndexError):
        return Path(path).read_text().splitlines()[0].strip()
    return ""


def _pretty_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/etc/os-release").read_text().splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip('"')
    return platform.platform()


def gpus() -> list[tuple[str, int]]:
    """NVIDIA devices as (UUID, minor number), asked of the driver's own tool; none where it is missing."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    words = [tool, "--query-gpu=uuid,index", "--format=csv,noheader"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout
        return [(line.split(",")[0].strip(), int(line.split(",")[1])) for line in said.splitlines() if line.strip()]
    return []
