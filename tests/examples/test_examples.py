"""Every example does what its README says: its commands are run as they stand there, against a plane of their own."""

import os
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.doors import Person
from tests.examples.machine import ROOT, environments, missing

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if (path / "README.md").exists())
FIELDS = {"needs", "fast", "says"}
PATIENCE = 1200  # seconds for one command; two cores are little for four JAX processes, and others may use them


@dataclass(frozen=True)
class Example:
    """What a folder says about itself."""

    folder: str
    words: str
    up: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    facts: dict


def read(folder):
    text = (EXAMPLES / folder / "README.md").read_text()
    words, _, rest = text.partition("\n```\n")
    lines = [shlex.split(line) for line in rest.partition("\n```")[0].splitlines()]
    up = next((tuple(line[2:]) for line in lines if line[1] == "up"), ())
    commands = tuple(tuple(line[1:]) for line in lines if line[1] != "up")
    facts = yaml.safe_load((EXAMPLES / folder / "example.yaml").read_text())
    return Example(folder, words, up, commands, facts)


def marked(folder):
    """Fast ones belong to `make test`, all others to `make test-slow`."""
    slow = () if read(folder).facts.get("fast") else pytest.mark.slow
    return pytest.param(folder, marks=slow)


@pytest.fixture(scope="module")
def plane():
    """A plane with these options: started when first asked for, one at a time."""
    planes = {}

    def with_options(options):
        if options not in planes:
            for other in list(planes):
                leave(planes.pop(other))
            planes[options] = arrive(options)
        return planes[options]

    yield with_options
    for someone in planes.values():
        leave(someone)


def arrive(options):
    someone = Person(Path(tempfile.mkdtemp(prefix="aboard-ex-")))  # short: unix sockets have short paths
    someone.environment["ABOARD_ENVIRONMENTS"] = ":".join(map(str, environments()))
    started = someone.aboard("up", "--port=0", *options)
    assert started.code == 0, started.err
    return someone


def leave(someone):
    someone.aboard("down")
    left = someone.processes()
    shutil.rmtree(someone.home, ignore_errors=True)
    assert not left


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_one_paragraph_its_commands_and_known_facts(folder):
    example = read(folder)
    title, *paragraphs = example.words.strip().split("\n\n")
    assert title.startswith("# ") and len(paragraphs) == 1
    assert set(example.facts) <= FIELDS and example.facts["says"]
    named = {word for command in example.commands for word in command if word.startswith("examples/")}
    assert named == {f"examples/{folder}/{path.name}" for path in (EXAMPLES / folder).glob("*.yaml")} - {
        f"examples/{folder}/example.yaml"
    }


SCRIPTS = sorted(path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*/*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_golden_manifests_carry_the_script(script):
    carried = re.compile(rf"(?m)^  {re.escape(script.name)}: \|\n(?:    .*\n|\n)*")
    lines = (EXAMPLES / script).read_text().splitlines(keepends=True)
    want = f"  {script.name}: |\n" + "".join(f"    {line}" if line.strip() else line for line in lines)
    carriers = [path for path in (EXAMPLES / script.parent).glob("*.yaml") if carried.search(path.read_text())]
    assert len(carriers) == 1, f"{script}: {len(carriers)} manifests carry it"
    text = carriers[0].read_text()
    if os.environ.get("GOLDEN") == "write":
        carriers[0].write_text(text := carried.sub(lambda _: want, text))
    assert want in text, "make golden"


@pytest.mark.parametrize("folder", [marked(folder) for folder in FOLDERS])
def test_the_example_does_what_its_readme_says(plane, folder, monkeypatch):
    example = read(folder)
    if lacks := missing(example.facts.get("needs", [])):
        pytest.skip(lacks)
    monkeypatch.chdir(ROOT)
    said = run(plane(example.up), example.commands)
    assert [words for words in example.facts["says"] if words not in said] == [], said


def run(someone, commands):
    """Everything the commands showed; the first that fails is the end."""
    told = ""
    for command in commands:
        limit = (f"--timeout={PATIENCE}",) if command[0] == "wait" else ()
        done = someone.aboard(*command, *limit, patience=PATIENCE + 30)
        told += done.out
        assert done.code == 0, f"{' '.join(command)}: {done.code}\n{done.err}\n{told}\n{trouble(someone, command)}"
    return told


def trouble(someone, command):
    """What a person would look at next."""
    name = command[1]
    return "\n".join(someone.aboard(*words).out for words in (("why", name), ("logs", name), ("get", "pods")))


@pytest.mark.slow
def test_two_torch_jobs_an_mpi_job_and_a_jax_job_train_at_once(plane, monkeypatch):
    if lacks := missing(["torch", "openmpi", "sshd", "jax"]):
        pytest.skip(lacks)
    monkeypatch.chdir(ROOT)
    someone, names = plane(()), []
    assert someone.aboard("apply", "-f", "examples/08-jax/code.yaml").code == 0
    wanted = [("02-torch-ddp/job", "torch-ddp"), ("05-openmpi-launcher-as-node/job", "openmpi-together")]
    wanted += [("08-jax/two", "jax-two"), ("02-torch-ddp/job", "torch-ddp")]
    for number, (file, name) in enumerate(wanted):
        text = (EXAMPLES / f"{file}.yaml").read_text()
        text = re.sub(rf"(?m)^  name: {name}$", f"  name: {name}-{number}", text)
        text = text.replace(f"configMap: {{name: {name}}}", f"configMap: {{name: {name}-{number}}}")
        assert someone.aboard("apply", "-f", "-", text=text).code == 0
        names.append(f"{name}-{number}")
    for name in names:
        done = someone.aboard("wait", name, f"--timeout={PATIENCE}", patience=PATIENCE + 30)
        assert done.code == 0, done.err + trouble(someone, ("wait", name))
