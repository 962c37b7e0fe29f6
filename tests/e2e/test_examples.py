"""Every example trains for real, as its manifest says; what a machine lacks skips with the command that installs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.doors import Person

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PLACE = Path.home() / ".cache" / "aboard-environments"
TORCH = "apt-get install python3-torch"
SSHD = "apt-get install openssh-server openssh-client"

# folder → what it needs: (a path or tool or environment that must be there, how to get it); words its logs must show
NEEDS = {
    "10-plain-nodes": ([], ["the token went around: 0,1,2"]),
    "11-torch-ddp": ([("/usr/bin/torchrun", TORCH)], [f"rank {rank}: 4 processes agree" for rank in range(4)]),
    "12-elastic-restart": (
        [("/usr/bin/torchrun", TORCH)],
        ["rank 0: done after 1 restart", "rank 1: done after 1 restart"],
    ),
    "13-jax": ([("env:jax", ".ci/environments")], [f"rank {rank}: 4 processes agree" for rank in range(4)]),
    "14-xgboost": ([("env:xgboost", ".ci/environments")], ["rank 0/3", "rank 1/3", "rank 2/3"]),
    "15-openmpi": (
        [("mpirun", "apt-get install openmpi-bin"), ("sshd", SSHD), ("env:openmpi", ".ci/environments")],
        ["openmpi-sum-launcher-0-0: sum 6, 3 hosts", "openmpi-sum-node-0-1: sum 6, 3 hosts"],
    ),
    "16-mpich": ([("sshd", SSHD), ("env:mpich", ".ci/environments")], ["mpich-sum-launcher-0-0: sum 3, 2 hosts"]),
    "17-intel-mpi": ([("sshd", SSHD), ("env:intelmpi", ".ci/environments")], ["intel-sum-node-0-0: sum 3, 2 hosts"]),
    "18-sidecar": ([], ["trained, and the sidecar saw it"]),
}


def environments():
    named = [Path(home) for home in os.environ.get("ABOARD_ENVIRONMENTS", "").split(":") if home]
    return named or (sorted(PLACE.iterdir()) if PLACE.is_dir() else [])


def is_here(need):
    if need.startswith("env:"):
        return any(home.name == need.removeprefix("env:") for home in environments())
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return Path(need).exists() if "/" in need else shutil.which(need, path=search) is not None


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """Somebody whose plane knows every environment of this machine."""
    home = Path(subprocess.check_output(["mktemp", "-d", "-t", "aboard-examples-XXXX"], text=True).strip())
    someone = Person(home)
    someone.environment["ABOARD_ENVIRONMENTS"] = ":".join(map(str, environments()))
    started = someone.aboard("up", "--port=0")
    assert started.code == 0, started.err
    yield someone
    someone.aboard("down")
    assert not someone.processes()
    shutil.rmtree(home, ignore_errors=True)


def test_every_example_is_listed_here():
    assert sorted(NEEDS) == sorted(path.name for path in EXAMPLES.iterdir() if (path / "job.yaml").exists())


@pytest.mark.parametrize("folder", NEEDS)
def test_the_manifest_carries_the_script_and_the_readme_is_one_paragraph(folder):
    documents = list(yaml.safe_load_all((EXAMPLES / folder / "job.yaml").read_text()))
    assert documents[0]["data"]["train.py"] == (EXAMPLES / folder / "train.py").read_text()
    text = (EXAMPLES / folder / "README.md").read_text().strip()
    assert len([part for part in text.split("\n\n") if not part.startswith(("#", "```"))]) == 1


@pytest.mark.parametrize("folder", NEEDS)
def test_the_example_trains(trainer, folder):
    needs, words = NEEDS[folder]
    for need, remedy in needs:
        if not is_here(need):
            pytest.skip(f"{need} is not here; {remedy}")
    file = EXAMPLES / folder / "job.yaml"
    name = list(yaml.safe_load_all(file.read_text()))[-1]["metadata"]["name"]
    assert trainer.aboard("apply", "-f", str(file)).code == 0
    done = trainer.aboard("wait", name, "--timeout", "150", patience=170)
    logs = trainer.aboard("logs", name, "--rank", "all").out
    assert done.code == 0, done.err + logs
    assert [word for word in words if word not in logs] == [], logs


AT_ONCE = ("11-torch-ddp", "13-jax", "15-openmpi")


def test_two_torch_jobs_an_mpi_job_and_a_jax_job_train_at_once(trainer):
    missing = [remedy for folder in AT_ONCE for need, remedy in NEEDS[folder][0] if not is_here(need)]
    if missing:
        pytest.skip(f"needs: {', '.join(dict.fromkeys(missing))}")
    names = []
    for number, folder in enumerate((*AT_ONCE, AT_ONCE[0])):
        text = (EXAMPLES / folder / "job.yaml").read_text()
        name = list(yaml.safe_load_all(text))[-1]["metadata"]["name"]
        text = text.replace(f"name: {name}\n", f"name: {name}-{number}\n").replace(
            "{name: " + name + "}", "{name: " + f"{name}-{number}" + "}"
        )
        assert trainer.aboard("apply", "-f", "-", text=text).code == 0
        names.append(f"{name}-{number}")
    for name in names:
        assert trainer.aboard("wait", name, "--timeout", "200", patience=220).code == 0, name
