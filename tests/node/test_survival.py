"""The agent killed at any moment: nothing lost, nothing left, nothing wrong."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from world import LEVELS, Api, config, pod, running

from allaboard.node.processes import end_process

HERE = Path(__file__).parent
ISOLATED = [level for level in LEVELS if level != "D"]


class Lonely:
    """The agent's process, and the folders it shares with us."""

    def __init__(self, place, level):
        self.state, self.pods, self.report, self.level = place / "state", place / "pods", place / "report", level
        self.pods.mkdir()
        self.process = None

    def start(self):
        words = [sys.executable, str(HERE / "lonely.py"), str(self.state), self.level, str(self.pods), str(self.report)]
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def put(self, document):
        document["metadata"]["uid"] = str(uuid.uuid4())
        path = self.pods / f"{document['metadata']['name']}.json"
        path.with_suffix(".new").write_text(json.dumps(document))
        os.replace(path.with_suffix(".new"), path)

    def statuses(self):
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for line in self.report.read_text().splitlines():
                name, status = json.loads(line)
                found.setdefault(name, []).append(status)
        return found

    def until(self, test, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if test(self.statuses()):
                return True
            time.sleep(0.05)
        return False

    def clean_up(self):
        """What is left is taken down by a last agent that stops in order."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

        async def go():
            async with running(Api(), config(self.state, level=self.level)):
                await asyncio.sleep(0.5)

        asyncio.run(go())


@pytest.fixture
def lonely(tmp_path, request):
    made = Lonely(tmp_path, request.param)
    yield made
    made.clean_up()


def processes_with(mark):
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def last_phase(statuses, name):
    return statuses[name][-1]["phase"] if name in statuses else None


def code_of(status):
    return status["containerStatuses"][0]["state"]["terminated"]["exitCode"]


@pytest.mark.parametrize("lonely", ISOLATED, indirect=True)
def test_a_pod_outlives_its_agent_and_its_end_is_learned(lonely):
    lonely.start()
    lonely.put(pod("during", "sleep 0.7; exit 5"))
    lonely.put(pod("after", "sleep 2; exit 6"))
    assert lonely.until(lambda s: last_phase(s, "during") == last_phase(s, "after") == "Running")
    lonely.kill()
    time.sleep(1)
    lonely.start()
    assert lonely.until(lambda s: last_phase(s, "during") == last_phase(s, "after") == "Failed")
    found = lonely.statuses()
    assert [code_of(found[name][-1]) for name in ("during", "after")] == [5, 6]
    assert all(status["containerStatuses"][0]["restartCount"] == 0 for status in found["after"])


@pytest.mark.parametrize("lonely", ISOLATED, indirect=True)
def test_the_zygote_may_die_too(lonely):
    lonely.start()
    lonely.put(pod("early", "sleep 1.5; hostname; exit 4"))
    assert lonely.until(lambda s: last_phase(s, "early") == "Running")
    end_process(json.loads((lonely.state / "zygote").read_text())["pid"], signal.SIGKILL)
    lonely.put(pod("late", "exit 7"))
    assert lonely.until(lambda s: last_phase(s, "early") == last_phase(s, "late") == "Failed")
    found = lonely.statuses()
    assert [code_of(found[name][-1]) for name in ("early", "late")] == [4, 7]


@pytest.mark.slow
@pytest.mark.parametrize("lonely", ISOLATED[:1], indirect=True)
def test_fifty_kills_at_random_moments_lose_nothing(lonely):
    chance, mark = random.Random(7), "77.125"
    wanted = {}
    for index in range(150):
        code = index % 5
        wanted[f"p{index}"] = code
    names = iter(wanted)
    for kill in range(50):
        lonely.start()
        for _ in range(3):
            name = next(names)
            lonely.put(pod(name, f"sleep 0.{chance.randrange(9)}; exit {wanted[name]}"))
        if kill % 10 == 0:
            lonely.put(pod(f"stay{kill}", f"sleep {mark}"))
        time.sleep(chance.uniform(0.15, 1.2))
        lonely.kill()
    lonely.start()
    over = lambda s, name: last_phase(s, name) in ("Succeeded", "Failed")
    lonely.until(lambda s: all(over(s, name) for name in wanted), 60)
    found = lonely.statuses()
    assert not {name: found.get(name, [])[-1:] for name in wanted if not over(found, name)}
    for name, code in wanted.items():
        phases = [status["phase"] for status in found[name]]
        assert code_of(found[name][-1]) == code, name
        assert phases[-1] == ("Failed" if code else "Succeeded")
        assert sorted(phases, key=["Pending", "Running", "Succeeded", "Failed"].index) == phases, name
    assert all(last_phase(found, f"stay{kill}") == "Running" for kill in range(0, 50, 10))
    lonely.clean_up()
    assert not processes_with(mark.encode())
