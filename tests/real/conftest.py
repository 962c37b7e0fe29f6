"""A real control plane for each file; without its programs these tests skip and say what is missing."""

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from tools.real_cluster import RealCluster, binaries, free_ports, why_not


@pytest.fixture(scope="module")
def cluster():
    """etcd, kube-apiserver and kube-controller-manager on loopback."""
    if binaries() is None:
        pytest.skip(why_not())
    with tempfile.TemporaryDirectory(prefix="aboard-real-", ignore_cleanup_errors=True) as folder:
        real = RealCluster(Path(folder))
        real.start()
        yield real
        real.stop()


class Control:
    """`aboard control` against a cluster: a process, and the port where it tells how it is."""

    def __init__(self, real, *words):
        self.health, self.webhooks = free_ports(2)
        self.log = real.folder / f"control-{self.health}.log"
        command = [sys.executable, "-m", "allaboard", f"--kubeconfig={real.kubeconfig}", "control", *words]
        command += [f"--health-port={self.health}", f"--webhook-port={self.webhooks}", "--install", "--verbose"]
        environment = {**os.environ, "ABOARD_HOME": str(real.folder / "home")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stderr=log)

    def ready(self, seconds=90):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=5):
                    return self
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.2)
        raise AssertionError(self.log.read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


@contextmanager
def controlling(real, *words):
    control = Control(real, *words)
    try:
        yield control.ready()
    finally:
        control.stop()


def eventually(question, seconds=60):
    """What the question answers once that is true; its last answer when time is over."""
    deadline = time.monotonic() + seconds
    while not (answer := question()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return answer
