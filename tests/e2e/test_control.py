"""One code path: the controllers in a process of their own, over HTTP, do what the embedded ones do."""

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.doors import PATIENCE, Person, free_port

EMBEDDED = "namespaces,accounts,rootca,garbage,nodes"
ELSEWHERE = "trainjob,jobset,job,ttl,grouper,scheduler,podgroups,queues,binder"


@pytest.fixture
def divided():
    """A plane whose controllers run elsewhere."""
    home = Path(tempfile.mkdtemp(prefix="aboard-e2e-"))
    someone = Person(home)
    plane = [sys.executable, "-m", "allaboard", "serve", f"--home={home}", "--port=0", f"--controllers={EMBEDDED}"]
    processes = [subprocess.Popen(plane, env=someone.environment)]
    deadline = time.monotonic() + PATIENCE
    while not (home / "plane.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    control = [sys.executable, "-m", "allaboard", f"--kubeconfig={home / 'kubeconfig'}", "control"]
    someone.health = free_port()
    control += [f"--controllers={ELSEWHERE}", f"--health-port={someone.health}"]
    processes.append(subprocess.Popen(control, env=someone.environment))
    yield someone
    for process in reversed(processes):
        process.terminate()
    for process in reversed(processes):
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
    shutil.rmtree(home, ignore_errors=True)


JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: ours, labels: {trainer.kubeflow.org/framework: plain}}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                schedulerName: aboard
                containers: [{name: node, image: python}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: far}
spec:
  runtimeRef: {name: ours}
  trainer:
    numNodes: 2
    command: [python3, -c, "print('hello from afar')"]
"""


def test_a_job_trains_when_its_controllers_live_elsewhere(divided, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    assert divided.aboard("apply", "-f", str(path)).code == 0
    said = divided.aboard("wait", "far", "--timeout=240")
    assert said.code == 0, said.err
    assert divided.aboard("logs", "far").out.count("hello from afar") == 2
    for path, words in (("healthz", "ok"), ("readyz", "ok"), ("metrics", "controller_runtime_reconcile_total")):
        with urllib.request.urlopen(f"http://127.0.0.1:{divided.health}/{path}", timeout=PATIENCE) as answer:
            assert words in answer.read().decode()
