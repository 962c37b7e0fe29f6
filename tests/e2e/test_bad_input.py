"""Bad input and bad luck: one clear sentence with the next step, a documented exit code, never a traceback."""

import os
import socket
import subprocess

import pytest

JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: job-{runtime}
spec:
  runtimeRef:
    name: {runtime}
  trainer:
    {field}: 1
"""
CASES = {
    "an unknown file": (("apply", "-f", "gone.yaml"), None, 6, "no such file"),
    "bad YAML": (("apply", "-f", "-"), "kind: [", 6, "<stdin>:2:1: is not YAML"),
    "an unknown kind": (("apply", "-f", "-"), "apiVersion: v1\nkind: Podd\n", 2, "did you mean Pod in v1?"),
    "a kind that is missing": (("apply", "-f", "-"), "apiVersion: v1\n", 2, "kind is missing"),
    "an unknown kind on the command line": (("get", "trainjbos"), None, 2, 'did you mean "trainjobs"?'),
    "an unknown command": (("aply",), None, 2, 'did you mean "apply"?'),
    "a misspelt field": (
        ("apply", "-f", "-"), JOB.format(runtime="plain", field="numNode"), 5,
        '<stdin>:9:5: unknown field "spec.trainer.numNode"; did you mean "numNodes"?',
    ),
    "a wrong value": (
        ("apply", "-f", "-"), JOB.format(runtime="plain", field="numNodes").replace("numNodes: 1", "numNodes: -1"), 5,
        "spec.trainer.numNodes",
    ),
    "a missing runtime": (
        ("apply", "-f", "-"), JOB.format(runtime="torch-dist", field="numNodes"), 5, "torch-distributed",
    ),
    "a name YAML reads as no": (
        ("apply", "-f", "-"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: no}\n", 5,
        "is not text; write it in quotes",
    ),
    "a job that is not there": (("why", "nobody"), None, 3, 'trainjob "nobody" not found'),
    "an object that is not there": (("delete", "pod", "nobody"), None, 3, "not found"),
    "a script that is not there": (("run", "gone.py"), None, 6, "no such file"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "text", "code", "sentence"), CASES.values(), ids=CASES)
def test_bad_input(person, words, text, code, sentence):
    said = person.aboard(*words, text=text)
    assert sentence in said.err
    assert said.code == code
    assert "Traceback" not in said.err


def test_a_busy_port_is_said_with_the_remedy(newcomer):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        said = newcomer.aboard("up", f"--port={other.getsockname()[1]}")
    assert (said.code, "--port 0 picks a free one" in said.err) == (7, True), said.err


def test_no_plane_is_said_with_the_remedy(newcomer):
    said = newcomer.aboard("ps")
    assert said.code != 0 and "aboard up" in said.err and "Traceback" not in said.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; run as an ordinary user to see this refused")
def test_a_read_only_home_is_said_with_the_remedy(newcomer):
    newcomer.home.chmod(0o500)
    said = newcomer.aboard("up", "--port=0")
    newcomer.home.chmod(0o700)
    assert (said.code, "ABOARD_HOME" in said.err) == (8, True)


def test_a_home_that_cannot_be_made_is_said_with_the_remedy(newcomer):
    newcomer.environment["ABOARD_HOME"] = "/proc/nowhere"
    said = newcomer.aboard("up", "--port=0")
    assert (said.code, "ABOARD_HOME" in said.err) == (8, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk; run as root to see a full one refused")
def test_a_full_disk_is_said_with_the_remedy(newcomer):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(newcomer.home)], check=True)
    try:
        said = newcomer.aboard("up", "--port=0")
    finally:
        subprocess.run(["umount", str(newcomer.home)], check=True)
    assert (said.code, "no space left" in said.err) == (8, True), said.err


def test_a_second_plane_is_told_of_the_first(person):
    said = person.aboard("up")
    assert said.code == 0 and "runs already" in said.err
