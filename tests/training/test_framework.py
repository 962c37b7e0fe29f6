"""Plugins and phases: their order, strangers among them, and two that want the same variable."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from allaboard.points import UnknownPoint
from allaboard.training import extensions
from allaboard.training.facts import Facts
from allaboard.training.framework import Framework
from allaboard.training.info import Container, PluginClash, variable
from allaboard.training.job import TrainJob
from tests.training.world import env, of_kind, runtime, trainjob

ROOT = Path(__file__).parent.parent.parent


class Tracing:
    """A stranger's plugin: one more variable for every trainer."""

    name = "tracing"

    def enforce_ml_policy(self, info, job):
        info.trainer_container.inject(self.name, [variable("TRACE", job.name)])


class Rude:
    name = "rude"

    def enforce_ml_policy(self, info, job):
        info.trainer_container.inject(self.name, [variable("PET_NNODES", "99")])


class Misspelt:
    name = "misspelt"

    def enforce_ml_polcy(self, info, job): ...


def build(*further):
    return Framework(further).build(runtime(), TrainJob(trainjob({})), Facts())


def test_a_strangers_plugin_runs_after_ours():
    assert env(of_kind(build(Tracing()), "JobSet"))["TRACE"] == "run"


def test_two_plugins_that_want_one_variable_are_both_named():
    with pytest.raises(PluginClash) as found:
        build(Rude())
    assert str(found.value) == (
        'container "node": plugins "torch" and "rude" both set variable "PET_NNODES" to different values; '
        "leave one of them out of the configuration"
    )


def test_the_same_value_twice_is_no_clash():
    container = Container("node")
    container.inject("a", [variable("X", "1")])
    container.inject("b", [variable("X", "1")])
    assert container.env == [variable("X", "1")]


def test_a_misspelt_method_stops_the_start():
    with pytest.raises(UnknownPoint, match="did you mean enforce_ml_policy"):
        Framework([Misspelt()])


def installed(name, value):
    return EntryPoint(name, value, extensions.GROUP)


def test_installed_plugins_are_chosen_by_name():
    points = [installed("tracing", "tests.training.test_framework:Tracing")]
    assert [plugin.name for plugin in extensions.framework_with(["tracing"], points).plugins][-1] == "tracing"
    assert extensions.framework_with([], points).plugins[-1].name == "jobset"


BAD = {
    "an unknown name": (["tracng"], 'unknown plugin "tracng"; did you mean "tracing"?'),
    "one that cannot be loaded": (["broken"], 'plugin "broken": cannot be loaded from nowhere:Nothing'),
    "one with a misspelt method": (["misspelt"], "enforce_ml_polcy() is not an extension point"),
}


@pytest.mark.parametrize(("names", "words"), BAD.values(), ids=BAD)
def test_a_plugin_that_cannot_be_used_stops_the_start(names, words):
    points = [
        installed("tracing", "tests.training.test_framework:Tracing"),
        installed("broken", "nowhere:Nothing"),
        installed("misspelt", "tests.training.test_framework:Misspelt"),
    ]
    with pytest.raises(extensions.BadExtension) as found:
        extensions.framework_with(names, points)
    assert words in str(found.value)


# --- a package somebody really installs ---

STRANGER = """
class Stamp:
    name = "stamp"

    def enforce_pod_spec(self, info, job, settings):
        for container in info.trainer.containers:
            container.inject(self.name, [{"name": "STAMPED_BY", "value": "a stranger"}])
"""
ASK = """
from allaboard.training.extensions import framework_with
from allaboard.training.facts import Facts
from allaboard.training.job import TrainJob
from tests.training.world import runtime, trainjob
(job_set,) = framework_with(["stamp"]).build(runtime(), TrainJob(trainjob()), Facts())
container = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
print({entry["name"]: entry.get("value") for entry in container["env"]}["STAMPED_BY"])
"""


def wheel(folder):
    """The smallest package there can be, with one entry point."""
    about = "stamp-1.0.dist-info"
    files = {
        "stamp.py": STRANGER,
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: stamp\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[{extensions.GROUP}]\nstamp = stamp:Stamp\n",
        f"{about}/RECORD": "",
    }
    path = folder / "stamp-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.mark.slow
def test_an_installed_package_is_found_by_its_entry_point(tmp_path):
    place = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(place)]
    subprocess.run([*pip, str(wheel(tmp_path))], check=True)
    environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}
    said = subprocess.run([sys.executable, "-c", ASK], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert (said.stdout, said.stderr) == ("a stranger\n", "")
