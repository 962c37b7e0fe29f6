"""An agent in a process of its own, seen from outside: started, killed, given pods, and what it said about them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from world import PATIENCE, Gate, processes_of

from allaboard.node.families import end_process
from allaboard.node.processes import has_ended

HERE = Path(__file__).parent
# How long those sleep that stay: longer than the slowest machine takes, and nobody else sleeps as long.
MARK = f"77077.{os.getpid()}"


class Lonely:
    """The agent's process, and the folders it shares with us."""

    def __init__(self, place, level, **environment):
        self.environment = {**os.environ, **environment}
        self.state, self.pods, self.report, self.level = place / "state", place / "pods", place / "report", level
        self.pods.mkdir()
        self.gate = Gate(place)
        self.process = None

    def start(self):
        words = [sys.executable, str(HERE / "lonely.py"), str(self.state), self.level, str(self.pods), str(self.report)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.environment)

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
            for line in self.report.read_text().rpartition("\n")[0].splitlines():  # the last may be half written
                with contextlib.suppress(ValueError):  # of one that was killed while it wrote: as if it had not
                    name, status = json.loads(line)
                    found.setdefault(name, []).append(status)
        return found

    def until(self, test):
        deadline = time.monotonic() + PATIENCE
        while not test(self.statuses()):
            assert time.monotonic() < deadline, {name: found[-1] for name, found in self.statuses().items()}
            time.sleep(0.02)

    def ended(self, document):
        """Whether the pod's first container has left its code behind."""
        return has_ended(self.state / "pods" / document["metadata"]["uid"] / "main.0")

    def end_zygote(self):
        end_process(json.loads((self.state / "zygote").read_text())["pid"], signal.SIGKILL)

    def clean_up(self):
        """What is left is taken down by a last agent, who knows of no pods and stops in order."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for path in self.pods.iterdir():
            path.unlink()
        self.start()
        try:
            assert self.process.stdout.readline() == b"listening\n"
            self.until(lambda _: (self.state / "pods").is_dir() and not list((self.state / "pods").iterdir()))
            self.process.terminate()
            assert self.process.wait(PATIENCE) == 0
        finally:
            self.process.kill()
            self.process.wait()
        assert not processes_of(self.state), "something stayed behind"


def processes_with(mark):
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def last_phase(statuses, name):
    return statuses[name][-1]["phase"] if name in statuses else None


def code_of(status):
    return status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
