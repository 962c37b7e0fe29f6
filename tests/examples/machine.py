"""What this machine can train with: interpreters and the modules they have, tools, and how to get what is missing."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
# need → (module of some interpreter, or tool), and the command that brings it.
NEEDS = {
    "torch": ("module:torch", "apt-get install python3-torch"),
    "jax": ("module:jax", "pip install jax"),
    "xgboost": ("module:xgboost", "pip install xgboost-cpu"),
    "deepspeed": ("module:deepspeed", "pip install deepspeed (into an environment named in ABOARD_ENVIRONMENTS)"),
    "torchtune": ("module:torchtune", "pip install torch torchtune torchao (into one named in ABOARD_ENVIRONMENTS)"),
    "openmpi": ("tool:ompi_info", "apt-get install openmpi-bin; pip install mpi4py"),
    "mpich": ("beside:mpichversion", "python3 -m venv build/mpich && build/mpich/bin/pip install mpich mpi4py"),
    "intelmpi": ("beside:impi_info", "python3 -m venv build/impi-rt && build/impi-rt/bin/pip install impi-rt mpi4py"),
    "sshd": ("tool:sshd", "apt-get install openssh-server openssh-client"),
}
SEARCH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def environments() -> list[Path]:
    """Named in ABOARD_ENVIRONMENTS, else those continuous integration makes below `build`."""
    named = [Path(home) for home in os.environ.get("ABOARD_ENVIRONMENTS", "").split(":") if home]
    return named or [home for home in (ROOT / "build" / "mpich", ROOT / "build" / "impi-rt") if home.is_dir()]


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
