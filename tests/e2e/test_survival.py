"""State survives: `down` and `up`, and kill -9 in the middle of training."""

import json
import os
import signal
import subprocess
import sys
import time

SLOW = "import time\nfor i in range(6):\n    print('tick', i, flush=True)\n    time.sleep(1)\n"


def test_state_survives_down_and_up(newcomer):
    assert newcomer.aboard("up", "--port=0").code == 0
    assert newcomer.aboard("run", "hello", "--name=before").code == 0
    assert newcomer.aboard("down").code == 0
    assert newcomer.processes() == []
    assert newcomer.aboard("up", "--port=0").code == 0
    assert "before" in newcomer.aboard("ps").out


def test_a_plane_killed_in_the_middle_of_training_comes_back_to_its_job(newcomer, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    assert newcomer.aboard("up", "--port=0").code == 0
    assert newcomer.aboard("run", str(script), "--nodes=2", "--name=slow", "--detach").code == 0
    assert newcomer.aboard("wait", "slow", "--for=running", "--timeout=30").code == 0
    pid = json.loads((newcomer.home / "plane.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "aboard up" in newcomer.aboard("ps").err
    assert newcomer.aboard("up", "--port=0").code == 0
    ended = newcomer.aboard("wait", "slow", "--timeout=60")
    assert ended.code in (0, 1), ended.err  # adopted and complete, or honestly reported failed
    assert "slow" in newcomer.aboard("ps").out


def test_ctrl_c_detaches_and_the_job_goes_on(newcomer, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    assert newcomer.aboard("up", "--port=0").code == 0
    code, err = interrupted(newcomer, "run", str(script), "--name=slow")
    assert (code, "detached from slow" in err) == (130, True), err
    assert newcomer.aboard("wait", "slow", "--timeout=40").code == 0


def test_ctrl_c_deletes_the_job_when_asked_to(newcomer, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    assert newcomer.aboard("up", "--port=0").code == 0
    code, err = interrupted(newcomer, "run", str(script), "--name=slow", "--delete-on-interrupt")
    assert (code, "slow deleted" in err) == (130, True), err
    assert "slow" not in newcomer.aboard("get", "tj", "-o", "name").out


def interrupted(person, *words):
    """Press Ctrl-C once the job runs."""
    command = [sys.executable, "-m", "allaboard", *words]
    process = subprocess.Popen(
        command, env=person.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    said = []
    for line in process.stderr:
        said.append(line)
        if "running" in line:
            process.send_signal(signal.SIGINT)
    return process.wait(30), "".join(said)
