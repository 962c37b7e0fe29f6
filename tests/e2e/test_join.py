"""A machine that joins a cluster over its kubeconfig: the cluster's pods run here, and it says when it leaves."""

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.doors import PATIENCE, free_port

pytestmark = pytest.mark.slow

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: guest}
spec:
  nodeName: box
  restartPolicy: Never
  containers:
    - {name: main, image: python, command: [sh, -c, 'test "$(hostname)" = guest']}
"""


def ready(person):
    said = person.aboard("get", "nodes", "-o", "json")
    nodes = json.loads(said.out)["items"] if said.code == 0 and said.out else []
    return {
        node["metadata"]["name"]: condition["status"]
        for node in nodes
        for condition in node["status"].get("conditions", [])
        if condition["type"] == "Ready"
    }


def until(test):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := test():
            return found
        time.sleep(0.2)
    return None


@pytest.fixture
def joined(newcomer):
    """A plane without nodes, and this machine as one of it, in a process of its own."""
    assert newcomer.aboard("up", "--port=0", "--nodes=0").code == 0
    words = ["--kubeconfig", str(newcomer.home / "kubeconfig"), "join", "--name=box", "--anonymous"]
    process = subprocess.Popen(
        [sys.executable, "-m", "allaboard", *words, f"--port={free_port()}"],
        env={**newcomer.environment, "ABOARD_HOME": str(newcomer.home / "other")},
        stderr=subprocess.DEVNULL,
    )
    yield newcomer, process
    if process.poll() is None:
        process.kill()
    process.wait()


def test_pods_of_a_cluster_run_on_a_machine_that_joined_it(joined):
    person, process = joined
    assert until(lambda: ready(person).get("box") == "True"), ready(person)
    applied = person.aboard("apply", "-f", "-", text=POD)
    assert applied.code == 0, applied.err
    phase = lambda: json.loads(person.aboard("get", "pod", "guest", "-o", "json").out)["status"].get("phase")
    assert until(lambda: phase() == "Succeeded"), phase()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert ready(person) == {"box": "False"}


def test_a_door_that_others_can_reach_must_check_who_knocks(newcomer):
    assert newcomer.aboard("up", "--port=0", "--nodes=0").code == 0
    said = newcomer.aboard("join", "--anonymous", "--address=192.0.2.7")
    assert said.code == 2
    assert '"192.0.2.7" can be reached by others; give --client-ca instead' in said.err
    said = newcomer.aboard("join", "--client-ca=/nowhere.crt")
    assert said.code == 2
    assert '--client-ca: "/nowhere.crt": No such file' in said.err
