"""State survives: `down` and `up`, and kill -9 in the middle of training."""

import json
import os
import signal
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
