"""Host file and environment of each MPI family, believed by a real mpirun of that family (ruling 3).

Where they are: on PATH, or in the folders that ABOARD_TEST_MPI lists. Each PyPI package needs a folder of its own,
because all of them bring a program called `mpirun`.
"""

import os
import shutil
import subprocess

import pytest

from tests.patience import PATIENCE
from tests.training.world import build, env, hostfile, job_set, mpi_runtime, trainjob

FOLDERS = [*filter(None, os.environ.get("ABOARD_TEST_MPI", "").split(":")), *os.get_exec_path()]
FAMILIES = {
    #            what its launcher calls itself   where a process finds its rank   how to get it
    "OpenMPI":  ("Open MPI",                      "OMPI_COMM_WORLD_RANK",          "apt-get install openmpi-bin"),
    "Intel":    ("Intel(R) MPI",                  "PMI_RANK",                      "pip install impi-rt"),
    "MPICH":    ("HYDRA build details",           "PMI_RANK",                      "pip install mpich"),
}  # fmt: skip


def launcher(words):
    for folder in FOLDERS:
        for name in ("mpiexec.hydra", "mpiexec", "mpirun"):
            path = shutil.which(name, path=folder)
            if (
                path
                and words in subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            ):
                return path
    return None


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_real_launcher_starts_every_rank(family, tmp_path):
    words, rank, remedy = FAMILIES[family]
    program = launcher(words)
    if program is None:
        pytest.skip(f"no mpirun of {family}: {remedy}, and name its folder in ABOARD_TEST_MPI")
    source, job = mpi_runtime(implementation=family), trainjob({"numNodes": 1, "numProcPerNode": 3})
    hosts = tmp_path / "hostfile"
    hosts.write_text(hostfile(build(source, job)).replace("run-launcher-0-0.run", "localhost"))
    variables = {
        name: value.replace("/etc/mpi/hostfile", str(hosts))
        for name, value in env(job_set(source, job), "launcher").items()
    }
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    path = f"{os.path.dirname(program)}:{os.environ['PATH']}"
    words, variables = [program, "-n", "3", "printenv", rank], {**os.environ, **root, **variables, "PATH": path}
    # A standard input that stays open: MPICH passes its end on, and dies of SIGPIPE where the ranks are over already.
    reading, writing = os.pipe()
    run = subprocess.run(
        words, env=variables, stdin=reading, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    os.close(reading)
    os.close(writing)
    assert (run.returncode, sorted(run.stdout.split())) == (0, ["0", "1", "2"]), run.stderr
