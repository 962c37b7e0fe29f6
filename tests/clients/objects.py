"""The objects that every client's tests make."""

import importlib
import time
import warnings
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.patience import PATIENCE

INSTALL = "pip install 'allaboard[clients]'"
GROUP, VERSION = "trainer.kubeflow.org", "v1alpha1"

# Serves its arguments over HTTP, and says so; prints a line when it is asked for /say/WORD.
SERVES = """\
import http.server, sys
class Door(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for", self.path, flush=True)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(("you asked for " + self.path).encode())
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 8000), Door)
print("serving", flush=True)
server.serve_forever()
"""
COUNTS = "import time\nfor n in range(5):\n    print('line', n, flush=True)\n    time.sleep(0.1)\n"


def until(fulfilled: Callable[[], bool]) -> None:
    """Ask again and again: events are written after the status they tell of, and some things by controllers."""
    deadline = time.monotonic() + PATIENCE
    while not fulfilled():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def package(name: str) -> ModuleType:
    """A client library; where it is not installed the tests of this file are skipped and say how to get it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a library's own modules complain of on import is not ours
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            pytest.skip(f"no {name}: {INSTALL}", allow_module_level=True)


def pod(name: str, program: str = SERVES, **labels: str) -> dict:
    """A pod that runs a Python program."""
    container = {"name": "main", "image": "python:3.11-slim", "command": ["python3", "-c", program]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict:
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def train_job(name: str, *command: str, nodes: int = 1, suspend: bool = False) -> dict:
    """A TrainJob of the plain runtime."""
    trainer = {"numNodes": nodes, "command": list(command or ("python3", "-c", "print('trained')"))}
    spec = {"runtimeRef": {"name": "plain"}, "trainer": trainer, "suspend": suspend}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "TrainJob", "metadata": {"name": name}, "spec": spec}


def job_set(name: str) -> dict:
    """A JobSet that is suspended: it is there to be read and changed."""
    inside = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "python:3.11-slim"}]}
    job = {"name": "work", "replicas": 2, "template": {"spec": {"template": {"spec": inside}}}}
    spec = {"suspend": True, "replicatedJobs": [job]}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": spec}
