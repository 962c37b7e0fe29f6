"""What this machine can train with: interpreters and the modules they have, tools, and how to get what is missing."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
MAKE = "python3 -m venv build/{0} && build/{0}/bin/pip install"
# need → (module of some interpreter, or tool), and the command that brings it.
NEEDS = {
    "torch": ("module:torch", "apt-get install python3-torch"),
    "jax": ("module:jax", "pip install jax"),
    "xgboost": ("module:xgboost", "pip install xgboost-cpu"),
    "deepspeed": ("module:deepspeed", f"{MAKE.format('deepspeed')} torch==2.8.0 mpi4py deepspeed"),
    "torchtune": (
        "module:torchtune",
        f"{MAKE.format('torchtune')} torch==2.8.0 torchao==0.12.0 torchtune==0.6.1",
    ),
    "openmpi": ("tool:ompi_info", "apt-get install openmpi-bin; pip install mpi4py"),
    "mpich": ("beside:mpichversion", f"{MAKE.format('mpich')} mpich mpi4py"),
    "intelmpi": ("beside:impi_info", f"{MAKE.format('impi-rt')} impi-rt mpi4py"),
    "sshd": ("tool:sshd", "apt-get install openssh-server openssh-client"),
}
SEARCH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def environments() -> list[Path]:
    """Named in ABOARD_ENVIRONMENTS, else those made below `build`, as continuous integration does."""
    named = [Path(home) for home in os.environ.get("ABOARD_ENVIRONMENTS", "").split(":") if home]
    return named or [mark.parent for mark in sorted((ROOT / "build").glob("*/pyvenv.cfg"))]


@functools.cache
def modules() -> frozenset[str]:
    """Modules that some interpreter a plane would look at can import."""
    wanted = [what.partition(":")[2] for what, _ in NEEDS.values() if what.startswith("module:")]
    code = "import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if u.find_spec(m)))"
    found: set[str] = set()
    for python in (
        Path(sys.executable),
        *(home / "bin" / "python" for home in environments()),
        Path("/usr/bin/python3"),
    ):
        if python.exists():
            words = [str(python), "-I", "-c", code, *wanted]
            found |= set(subprocess.run(words, capture_output=True, text=True, check=False).stdout.split())
    return frozenset(found)


def is_here(need: str) -> bool:
    how, _, name = NEEDS[need][0].partition(":")
    if how == "module":
        return name in modules()
    if how == "beside":
        return any((home / "bin" / name).exists() for home in environments())
    return shutil.which(name, path=SEARCH) is not None


def missing(needs: list[str]) -> str:
    """What is not here and how to get it; "" when nothing is missing."""
    return "; ".join(f"no {need}: {NEEDS[need][1]}" for need in needs if not is_here(need))
