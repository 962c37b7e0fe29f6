"""The image profiles of this machine: those that ship, on the interpreters that are here, and the user's own."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from allaboard.api.errors import AboardError
from allaboard.node import records
from allaboard.node.hosts import Person
from allaboard.node.profiles import Profile, read_profile

MODULES = ("torch", "torchtune", "deepspeed", "jax", "xgboost", "mpi4py", "numpy")
MPI_USER = Person("mpiuser", 1000, 1000, "/home/mpiuser", "/bin/bash")
# As the shipped MPI runtimes start it: by the user himself, on a port of his own, with the job's key as host key.
# (A readiness probe that knocks and leaves is an error to sshd, and would be said in the job's log each time.)
SSHD = """Port 2222
HostKey /home/mpiuser/.ssh/id_rsa
AuthorizedKeysFile /home/mpiuser/.ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
LogLevel FATAL
SetEnv PATH={PATH}
"""
SSH = """Host *
    Port 2222
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""
# Intel MPI does not know itself by its longer name and would call itself by ssh, where nobody listens.
HOME_OR_SSH = """#!/bin/sh
options=
while [ $# -gt 0 ]; do
    case $1 in
        -o|-p|-l|-i) options="$options $1 $2"; shift 2 ;;
        -*) options="$options $1"; shift ;;
        *) break ;;
    esac
done
host=$1; shift
case $host in
    "$(hostname)"|"$(hostname)".*) exec sh -c "$*" ;;
esac
exec ssh $options "$host" "$@"
"""
INTEL_FILES = {"/usr/local/bin/home-or-ssh": HOME_OR_SSH}
INTEL_ENV = {"I_MPI_HYDRA_BOOTSTRAP_EXEC": "/usr/local/bin/home-or-ssh", "I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}
MPI_FILES = {"/home/mpiuser/.sshd_config": SSHD, "/etc/ssh/ssh_config": SSH}
MPI_ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# torch 1.x on Python 3.11 and newer cannot read torchrun's own defaults for these two; "nobody" said for process 9 can.
OLD_TORCH_ENV = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1"}
# Profile, the images it stands for, and the modules one of which its interpreter must have, the best first.
SHIPPED = (
    ("torchtune", ("*/torchtune-trainer*", "*torchtune*"), ("torchtune", "torch")),
    ("torch", ("pytorch/pytorch*", "*/trainer-torch*", "*torch*"), ("torch",)),
    ("jax", ("*/jax*", "jax*"), ("jax",)),
    ("xgboost", ("*xgboost*",), ("xgboost",)),
    ("python", ("python*", "allaboard/*", "*/python*", "ubuntu*", "debian*", "busybox*", "alpine*", "bash*"), ()),
)
MPI = (
    ("deepspeed", ("*/deepspeed-runtime*", "*deepspeed*")),
    ("openmpi", ("mpioperator/openmpi*", "*/mlx-runtime*", "*openmpi*")),
    ("mpich", ("*mpich*",)),
    ("intelmpi", ("mpioperator/intel*", "*intelmpi*")),
)
MARKS = {"openmpi": "prterun", "mpich": "mpichversion", "intelmpi": "impi_info"}


def candidates() -> list[str]:
    """Interpreters that may stand behind a profile: our own, those named in ABOARD_ENVIRONMENTS, the system's."""
    named = [str(Path(home, "bin", "python")) for home in os.environ.get("ABOARD_ENVIRONMENTS", "").split(":") if home]
    found = [sys.executable, *named, "/usr/bin/python3"]
    return [path for path in dict.fromkeys(found) if os.access(path, os.X_OK)]


def modules_of(python: str) -> frozenset[str]:
    """Which of the modules we care about an interpreter can import."""
    if python == sys.executable and not os.environ.get("PYTHONPATH"):  # containers will not have that
        return _our_modules()
    code = (
        "import importlib.util as u, importlib.metadata as v, sys\n"
        "found = [m for m in sys.argv[1:] if u.find_spec(m)]\n"
        "old = 'torch' in found and v.version('torch').startswith('1.') and sys.version_info >= (3, 11)\n"
        "print(*found, *(['old-torch'] if old else []))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = [python, "-c", code, *MODULES]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)
        return frozenset(done.stdout.split())
    return frozenset()


def _our_modules() -> frozenset[str]:
    """The same of ourselves: no interpreter need be started for that."""
    found = frozenset(name for name in MODULES if importlib.util.find_spec(name))
    old = "torch" in found and sys.version_info >= (3, 11) and importlib.metadata.version("torch").startswith("1.")
    return found | ({"old-torch"} if old else frozenset())


def shipped() -> tuple[Profile, ...]:
    """The profiles that come with us, each with the first interpreter that has what it needs."""
    here = {python: modules_of(python) for python in candidates()}
    profiles = [_mpi(name, images, here) for name, images in MPI]
    for name, images, modules in SHIPPED:
        fitting = (path for module in modules for path, have in here.items() if module in have)
        python = next(fitting, sys.executable)
        env = OLD_TORCH_ENV if "torch" in modules and "old-torch" in here[python] else {}
        profiles.append(Profile(name, images, python, env=env))
    return tuple(profiles)


def _mpi(name: str, images: tuple[str, ...], here: dict[str, frozenset[str]]) -> Profile:
    """MPI comes from the environment that has it (PyPI wheels), else from the distribution."""
    homes = {python: _family(Path(python).parent) for python in here}
    wheels = [python for python, family in homes.items() if family == name or name in here[python]]
    plain = [python for python, family in homes.items() if not family and "mpi4py" in here[python]]
    python = next(iter([*wheels, *plain]), sys.executable)
    intel = name == "intelmpi"
    env, files = MPI_ENV | (INTEL_ENV if intel else {}), MPI_FILES | (INTEL_FILES if intel else {})
    return Profile(name, images, python, env=env, user=MPI_USER, files=files)


def _family(folder: Path) -> str:
    """Which MPI an environment brings along, told by a tool only that one has."""
    return next((name for name, mark in MARKS.items() if (folder / mark).exists()), "")


class Images:
    """The profiles of one machine: a file of the user's own before those that ship."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shipped: tuple[Profile, ...] | None = None
        self._own: tuple[Profile, ...] = ()
        self._seen = -1

    def profiles(self) -> tuple[Profile, ...]:
        """Everything, the user's first; read again when the file has changed."""
        if self._shipped is None:
            self._shipped = shipped()
        return (*self.own(), *self._shipped)

    def own(self) -> tuple[Profile, ...]:
        try:
            changed = self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return ()
        if changed != self._seen:
            try:
                self._own = tuple(read_profile(document) for document in json.loads(self.path.read_text()))
            except ValueError as problem:
                raise AboardError(f"{self.path}: not a list of image profiles ({problem}); mend or remove it") from None
            self._seen = changed
        return self._own

    def add(self, profile: Profile) -> None:
        """Keep a profile, in place of one of the same name."""
        self._save([*(old for old in self.own() if old.name != profile.name), profile])

    def remove(self, name: str) -> None:
        kept = [profile for profile in self.own() if profile.name != name]
        if len(kept) == len(self.own()):
            have = ", ".join(profile.name for profile in self.own()) or "none"
            raise AboardError(f'image profile "{name}" not found; your own are: {have}')
        self._save(kept)

    def _save(self, profiles: list[Profile]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        records.replace(self.path, json.dumps([profile.document() for profile in profiles], indent=2), 0o644)
