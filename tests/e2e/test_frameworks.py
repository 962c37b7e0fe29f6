"""Frameworks on a real plane: MPI over SSH, and data that is fetched before training begins."""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

RANKS = r"mpirun bash -c 'echo rank $OMPI_COMM_WORLD_RANK on $(hostname)'"
MPI = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: ranks}
spec:
  runtimeRef: {name: mpi-distributed}
  trainer:
    numNodes: 3
    numProcPerNode: 2
    command: [bash, -c, "%s"]
"""


@pytest.mark.skipif(
    not shutil.which("mpirun") or not shutil.which("sshd"), reason="apt-get install openmpi-bin openssh-server"
)
def test_mpi_ranks_run_on_every_node(person, tmp_path):
    file = tmp_path / "mpi.yaml"
    file.write_text(MPI % RANKS)
    done = person.aboard("run", str(file))
    assert done.code == 0, done.out + done.err
    lines = {
        line.partition("rank ")[2].strip()
        for line in (done.out + done.err).splitlines()
        if "rank " in line and " on " in line
    }
    ranks = {line.split(" on ")[0]: line.split(" on ")[1].split(".")[0] for line in lines}
    assert sorted(ranks) == ["0", "1", "2", "3", "4", "5"]
    assert set(ranks.values()) == {"ranks-node-0-0", "ranks-node-0-1", "ranks-launcher-0-0"}


MPI_JOB = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: legacy}
spec:
  sshAuthMountPath: /home/mpiuser/.ssh
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
            - name: launcher
              image: mpioperator/openmpi
              securityContext: {runAsUser: 1000}
              command: [mpirun, -n, "2", hostname]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: worker
              image: mpioperator/openmpi
              securityContext: {runAsUser: 1000}
              command: [/usr/sbin/sshd, -De, -f, /home/mpiuser/.sshd_config]
"""


@pytest.mark.skipif(
    not shutil.which("mpirun") or not shutil.which("sshd"), reason="apt-get install openmpi-bin openssh-server"
)
def test_an_mpi_job_of_old_boards_whole_with_its_launcher(person, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(MPI_JOB)
    assert person.aboard("apply", "-f", str(file)).code == 0
    ended = lambda said: any(word in said.out for word in ('"type": "Succeeded"', '"type": "Failed"'))
    person.until(ended, "get", "mpijob", "legacy", "-o", "json")
    groups = json.loads(person.aboard("get", "podgroups", "-o", "json").out)["items"]
    assert [group["spec"]["minMember"] for group in groups if "legacy" in group["metadata"]["name"]] == [3]
    pods = json.loads(person.aboard("get", "pods", "-o", "json").out)["items"]
    (launcher,) = [pod["metadata"]["name"] for pod in pods if "legacy-launcher" in pod["metadata"]["name"]]
    said = person.aboard("logs", f"pod/{launcher}").out
    assert "legacy-worker-0" in said and "legacy-worker-1" in said


TORCH = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: sums}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    numProcPerNode: 2
    command:
      - bash
      - -c
      - |
        cat > sum.py <<'EOF'
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        rank = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(rank)
        print(f"rank {dist.get_rank()} of {dist.get_world_size()} sums to {int(rank)}", flush=True)
        EOF
        exec /usr/bin/torchrun sum.py
"""


@pytest.mark.skipif(not Path("/usr/bin/torchrun").exists(), reason="apt-get install python3-torch")
def test_torchrun_needs_nothing_but_the_variables(person, tmp_path):
    file = tmp_path / "torch.yaml"
    file.write_text(TORCH)
    done = person.aboard("run", str(file))
    assert done.code == 0, done.out + done.err
    assert all(f"rank {rank} of 4 sums to 6" in done.out + done.err for rank in range(4))


PYTHON = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: {name}}}
spec:
  runtimeRef: {{name: {runtime}}}
  trainer:
    numNodes: 2
    env: [{{name: PYTHONPATH, value: "{path}"}}, {{name: JAX_PLATFORMS, value: cpu}}]
    command: ["{python}", -c, {program}]
"""
JAX = """\
import os, jax
address, count = os.environ["JAX_COORDINATOR_ADDRESS"], int(os.environ["JAX_NUM_PROCESSES"])
jax.distributed.initialize(address, count, int(os.environ["JAX_PROCESS_ID"]))
print(f"process {jax.process_index()} of {jax.process_count()} sees {len(jax.devices())} devices", flush=True)
"""
XGBOOST = """\
import os, socket, xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker
rank, count = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
uri, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
if rank == 0:
    tracker = RabitTracker(host_ip=socket.gethostbyname(uri), n_workers=count, port=port)
    tracker.start()
with collective.CommunicatorContext(dmlc_tracker_uri=socket.gethostbyname(uri), dmlc_tracker_port=port, dmlc_retry=30):
    print(f"worker {collective.get_rank()} of {collective.get_world_size()}", flush=True)
if rank == 0:
    tracker.wait_for()
"""
PROGRAMS = {
    "jax": ("jax-distributed", JAX, "process {} of 2 sees 2 devices"),
    "xgboost": ("xgboost-distributed", XGBOOST, "worker {} of 2"),
}


@pytest.mark.parametrize("package", PROGRAMS)
def test_a_framework_finds_its_peers_by_its_variables(person, tmp_path, package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"no {package}: pip install {'xgboost-cpu' if package == 'xgboost' else package}")
    runtime, program, words = PROGRAMS[package]
    file = tmp_path / "job.yaml"
    values = {"path": os.environ.get("PYTHONPATH", ""), "python": sys.executable, "program": json.dumps(program)}
    file.write_text(PYTHON.format(name=f"with-{package}", runtime=runtime, **values))
    done = person.aboard("run", str(file))
    assert done.code == 0, done.out + done.err
    assert all(words.format(rank) in done.out + done.err for rank in range(2))


FETCHING = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: words, namespace: default}
data: {words.txt: fetched before training}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: fetching, namespace: default}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      volumeClaimPolicies:
        - templates:
            - metadata: {name: initializer}
              spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
      replicatedJobs:
        - name: dataset-initializer
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
            spec:
              backoffLimit: 0
              template:
                spec:
                  restartPolicy: Never
                  containers:
                    - name: dataset-initializer
                      image: allaboard/allaboard:latest
                      command: [python3, -m, allaboard.initializers.dataset]
                      volumeMounts: [{name: initializer, mountPath: /workspace}, {name: source, mountPath: /source}]
                  volumes: [{name: source, configMap: {name: words}}]
        - name: node
          dependsOn: [{name: dataset-initializer, status: Complete}]
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              backoffLimit: 0
              template:
                spec:
                  restartPolicy: Never
                  containers:
                    - name: node
                      image: python:3.11-slim
                      command: [cat, /workspace/dataset/words.txt]
                      volumeMounts: [{name: initializer, mountPath: /workspace}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: fetched, namespace: default}
spec:
  runtimeRef: {name: fetching, kind: TrainingRuntime}
  initializer:
    dataset: {storageUri: "file:///source"}
"""


def test_data_is_there_when_training_begins(person, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(FETCHING)
    applied = person.aboard("apply", "-f", str(file))
    assert applied.code == 0, applied.err
    waited = person.aboard("wait", "fetched", "--timeout", "240")
    said = person.aboard("logs", "fetched", "--rank", "all")
    assert waited.code == 0, waited.err + said.out + person.aboard("why", "fetched").out
    assert "fetched before training" in said.out
