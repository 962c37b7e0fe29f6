"""A TrainJob of two nodes on a real API server: our controllers, our scheduler, and this machine as its node."""

import json
import os
import subprocess
import sys

import pytest
from tools.real_cluster import free_ports

from tests.real.conftest import controlling, eventually

pytestmark = pytest.mark.real

OURS = "--controllers=trainjob,jobset,grouper,scheduler,podgroups,queues,binder"
TRAINER = "trainer.kubeflow.org/v1alpha1"
# What torch.distributed would do with its environment, in a page of the standard library: meet, add, agree.
TRAINING = """
import os, socket, time
rank, world = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
where = (os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"]))
if rank == 0:
    door = socket.create_server(("", where[1]))
    total = 1
    for _ in range(world - 1):
        link, _ = door.accept()
        total += int(link.recv(16))
        link.sendall(str(total).encode())
    print(f"rank 0 of {world}: the sum is {total}", flush=True)
else:
    for _ in range(300):
        try:
            link = socket.create_connection(where, timeout=5)
            break
        except OSError:
            time.sleep(0.2)
    link.sendall(str(rank + 1).encode())
    print(f"rank {rank} of {world}: told {link.recv(16).decode()}", flush=True)
"""


@pytest.fixture(scope="module")
def joined(cluster, tmp_path_factory):
    """This machine as a node of the cluster, with our controllers beside it."""
    (port,) = free_ports(1)
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, "-m", "allaboard", f"--kubeconfig={cluster.kubeconfig}", "join", "--name=box"]
    command += [f"--port={port}", "--anonymous", "--address=127.0.0.1"]
    with controlling(cluster, OURS), (cluster.folder / "join.log").open("wb") as log:
        node = subprocess.Popen(command, env={**os.environ, "ABOARD_HOME": str(home)}, stderr=log)
        try:
            yield cluster
        finally:
            node.terminate()
            node.wait(30)


def get(cluster, kind, *words):
    answer = cluster.kubectl("get", kind, *words, "-o", "json")
    return json.loads(answer.stdout) if answer.returncode == 0 else {}


def ended(cluster, name, seconds=90):
    """How a job ended: the condition, its reason."""

    def conditions():
        return {c["type"]: c["reason"] for c in get(cluster, "trainjob", name).get("status", {}).get("conditions", ())}

    return eventually(conditions, seconds)


def aboard(cluster, *words):
    command = [sys.executable, "-m", "allaboard", f"--kubeconfig={cluster.kubeconfig}", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def train(cluster, name, script, **trainer):
    trainer = {"numNodes": 2, "image": "python:3.11", "command": ["python", "-c", script], **trainer}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    document = {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": {"name": name}, "spec": spec}
    answer = cluster.kubectl("create", "-f", "-", document=json.dumps(document))
    assert answer.returncode == 0, answer.stderr
    return name


def test_a_job_of_two_nodes_trains_and_leaves_nothing_behind(joined):
    name = train(joined, "sum", TRAINING)
    assert ended(joined, name) == {"Complete": "AllJobsCompleted"}, aboard(joined, "why", name).stdout
    logs = joined.kubectl("logs", "-l", f"jobset.sigs.k8s.io/jobset-name={name}", "--tail=-1")
    assert "rank 0 of 2: the sum is 3" in logs.stdout and "rank 1 of 2: told 3" in logs.stdout, logs.stderr
    (gang,) = get(joined, "podgroups.scheduling.run.ai")["items"]
    assert gang["spec"]["minMember"] == 2
    assert joined.kubectl("delete", "trainjob", name).returncode == 0
    kinds = "pods,jobs,jobsets,services,podgroups.scheduling.run.ai,bindrequests"
    rest = eventually(lambda: not [o for o in get(joined, kinds)["items"] if o["metadata"]["name"] != "kubernetes"])
    assert rest, joined.kubectl("get", kinds).stdout


def test_why_tells_what_a_failed_job_said_last(joined):
    name = train(joined, "broken", "import sys; print('no such data', file=sys.stderr); sys.exit(7)")
    assert list(ended(joined, name)) == ["Failed"]
    words = aboard(joined, "why", name).stdout
    assert "FAILED" in words and "exit code 7" in words and "no such data" in words and "box" in words, words
    joined.kubectl("delete", "trainjob", name)


def test_why_counts_what_an_impossible_job_lacks(joined):
    wants = {"requests": {"cpu": "900"}}
    name = train(joined, "huge", "print(1)", resourcesPerNode=wants)
    words = eventually(lambda: "cpu" in (said := aboard(joined, "why", name).stdout) and said, 30)
    assert "IMPOSSIBLE" in words and "0 of 2 tasks fit (900 cpu each)" in words, words
    assert not ended(joined, name, 1)
    joined.kubectl("delete", "trainjob", name)
