"""The machine as it is: cores, memory, disk, boot, and GPUs where there are any."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import resource
import shutil
import socket
import struct
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

from allaboard.node.nodes import Machine

ONE = IPv4Network("127.0.0.1/32")
FILES = 65536
BOOT = "/proc/sys/kernel/random/boot_id"
GET_FLAGS, SET_FLAGS, TOP_OF_TREES = 0x80086601, 0x40086602, 0x20000  # of a directory, as ext4 keeps them

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
    return _first_line(BOOT) or _said("sysctl", "-n", "kern.bootsessionuuid")


def allow_files() -> None:
    """A pod takes half a dozen descriptors; the usual thousand would be gone with two hundred pods."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    with contextlib.suppress(ValueError, OSError):
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def spread_below(place: Path) -> None:
    """Say that the directories in this one have nothing to do with each other, where the file system listens.

    ext4 then puts each where there is room. Else all stand together, and without a journal a file gets a number only
    after those given back within the last minute were looked at one by one (3 ms for a pod's five files, against 0.2).
    """
    if platform.system() != "Linux":
        return
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        flags = struct.unpack("l", fcntl.ioctl(directory, GET_FLAGS, struct.pack("l", 0)))[0]
        fcntl.ioctl(directory, SET_FLAGS, struct.pack("l", flags | TOP_OF_TREES))
    os.close(directory)


def loopback(wanted: IPv4Network) -> IPv4Network:
    """Addresses for pods that share the machine's network: Linux answers at all of 127/8, others at one."""
    with socket.socket() as link, contextlib.suppress(OSError):
        link.bind((str(wanted.network_address + min(1, wanted.num_addresses - 1)), 0))
        return wanted
    return ONE


def _first_line(path: str) -> str:
    with contextlib.suppress(OSError, IndexError):
        return Path(path).read_text().splitlines()[0].strip()
    return ""


def _said(*words: str) -> str:
    """What a program of the machine answers, "" where there is none."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip()
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


def can_look_up(name: str, address: str) -> bool:
    """Whether a name leads to an address of ours."""
    try:
        return address in {entry[4][0] for entry in socket.getaddrinfo(name, None)}
    except OSError:
        return False
