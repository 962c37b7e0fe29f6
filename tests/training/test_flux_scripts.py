"""The shell scripts of a Flux job: bash can read them, and a program's words arrive as they were written."""

import shutil
import subprocess

import pytest

from tests.training.world import build, container, of_kind, runtime, trainjob

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def scripts(trainer=None):
    objects = build(runtime({"flux": {}}), trainjob(trainer or {}))
    return of_kind(objects, "ConfigMap")["data"], container(of_kind(objects, "JobSet"))["command"]


@pytest.mark.parametrize("name", ["init.sh", "entrypoint.sh"])
def test_bash_can_read_it(name):
    subprocess.run(["bash", "-n"], input=scripts()[0][name], text=True, check=True)


WORDS = {
    "plain words": (["lmp", "-v", "x"], []),
    "spaces and quotes": (["bash", "-c", 'echo "a b" && sleep 1'], ["it's"]),
    "dollars, stars and backslashes": (["echo", "$HOME", "*", "a\\b", "`date`"], []),
    "an empty word": (["run", ""], ["x"]),
    "a line break": (["run", "a\nb"], []),
    "no program": ([], []),
}


@pytest.mark.parametrize(("command", "further"), WORDS.values(), ids=WORDS)
def test_words_arrive_as_they_were_written(command, further):
    """The part of the entry script that takes the program apart, with what the template's arguments add to it."""
    texts, words = scripts({"command": command} if command else {})
    opening = texts["entrypoint.sh"].partition("\nroot=")[0]
    script = opening + '\nfor word in "$@"; do printf "%s\\0" "$word"; done\n'
    run = subprocess.run(
        ["bash", "-c", script, "entry", words[2], *further], capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\0")[:-1] == [*command, *further]
