"""State survives: `down` and `up`, and kill -9 in the middle of training."""

import json
import os
import signal
import time

from allaboard.cli.planes import is_over
from allaboard.node import post
from allaboard.node.families import end_process
from tests.e2e.doors import PATIENCE


def test_state_survives_down_and_up(newcomer):
    assert newcomer.aboard("up", "--port=0").code == 0
    assert newcomer.aboard("run", "hello", "--name=before").code == 0
    assert newcomer.aboard("down").code == 0
    assert newcomer.processes() == []
    assert newcomer.aboard("up", "--port=0").code == 0
    assert "before" in newcomer.aboard("ps").out


def test_a_job_that_ended_with_its_plane_starts_again_on_the_nodes_of_the_next(newcomer, tmp_path):
    train_slowly(newcomer, tmp_path, "--nodes=2", ranks=2)
    assert newcomer.aboard("down").code == 0
    assert newcomer.processes() == []
    assert newcomer.aboard("up", "--port=0", "--nodes=1").code == 0
    assert "node-1" not in newcomer.aboard("get", "nodes").out
    newcomer.release("slow", 0, 1)
    ended = newcomer.aboard("wait", "slow", "--timeout=240")
    assert ended.code == 0, ended.err


def test_a_plane_killed_in_the_middle_of_training_comes_back_to_its_job(newcomer, tmp_path):
    train_slowly(newcomer, tmp_path, ranks=2)
    kill_plane(newcomer)
    assert "aboard up" in newcomer.aboard("ps").err
    assert newcomer.aboard("up", "--port=0").code == 0
    agents = lambda: sum("allaboard node" in line for line in newcomer.processes())
    until(lambda: agents() == 1)  # not two; whom it starts looks like it for a moment
    newcomer.release("slow", 0, 1)
    ended = newcomer.aboard("wait", "slow", "--timeout=240")
    assert ended.code == 0, ended.err
    assert newcomer.aboard("down").code == 0
    assert newcomer.processes() == []


def test_what_a_plane_that_died_left_running_is_ended_by_down(newcomer, tmp_path):
    train_slowly(newcomer, tmp_path)
    kill_plane(newcomer)
    ended = newcomer.aboard("down")
    assert (ended.code, "the plane had died" in ended.err) == (0, True), ended.err
    assert newcomer.processes() == []
    assert "no plane runs here" in newcomer.aboard("down").err


def test_what_is_left_when_plane_and_agent_died_is_ended_by_down(newcomer, tmp_path):
    train_slowly(newcomer, tmp_path)
    kill_plane(newcomer)
    end_process(post.holder(newcomer.home / "node"), signal.SIGKILL)
    assert newcomer.processes() != []
    assert newcomer.aboard("down").code == 0
    assert newcomer.processes() == []


def test_ctrl_c_detaches_and_the_job_goes_on(newcomer, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(newcomer.waits)
    assert newcomer.aboard("up", "--port=0").code == 0
    code, err = interrupted(newcomer, "run", str(script), "--name=slow")
    assert (code, "detached from slow" in err) == (130, True), err
    newcomer.release("slow", 0)
    assert newcomer.aboard("wait", "slow", "--timeout=240").code == 0


def test_ctrl_c_deletes_the_job_when_asked_to(newcomer, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(newcomer.waits)
    assert newcomer.aboard("up", "--port=0").code == 0
    code, err = interrupted(newcomer, "run", str(script), "--name=slow", "--delete-on-interrupt")
    assert (code, "slow deleted" in err) == (130, True), err
    assert "slow" not in newcomer.aboard("get", "tj", "-o", "name").out


def train_slowly(person, folder, *plane, ranks=1):
    """A plane, and a job on it that runs until it is released."""
    script = folder / "slow.py"
    script.write_text(person.waits)
    assert person.aboard("up", "--port=0", *plane).code == 0
    assert person.aboard("run", str(script), f"--nodes={ranks}", "--name=slow", "--detach").code == 0
    assert person.aboard("wait", "slow", "--for=running", "--timeout=240").code == 0


def kill_plane(person):
    pid = json.loads((person.home / "plane.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_over(pid))


def until(fulfilled):
    deadline = time.monotonic() + PATIENCE
    while not fulfilled():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def interrupted(person, *words):
    """Press Ctrl-C once the job runs."""
    said = []
    with person.running(*words) as process:
        for line in process.stderr:
            said.append(line)
            if "running" in line:
                process.send_signal(signal.SIGINT)
        return process.wait(PATIENCE), "".join(said)
