"""Frameworks on a real plane: MPI over SSH, and data that is fetched before training begins."""

import shutil

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
    done = person.aboard("run", str(file), patience=120)
    assert done.code == 0, done.out + done.err
    lines = {
        line.partition("rank ")[2].strip()
        for line in (done.out + done.err).splitlines()
        if "rank " in line and " on " in line
    }
    ranks = {line.split(" on ")[0]: line.split(" on ")[1].split(".")[0] for line in lines}
    assert sorted(ranks) == ["0", "1", "2", "3", "4", "5"]
    assert set(ranks.values()) == {"ranks-node-0-0", "ranks-node-0-1", "ranks-launcher-0-0"}


FETCHING = """\
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
                  volumes: [{name: source, hostPath: {path: "%s"}}]
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
    source = tmp_path / "set"
    source.mkdir(mode=0o755)
    (source / "words.txt").write_text("fetched before training\n")
    file = tmp_path / "job.yaml"
    file.write_text(FETCHING % source)
    applied = person.aboard("apply", "-f", str(file))
    assert applied.code == 0, applied.err
    waited = person.aboard("wait", "fetched", "--timeout", "60", patience=90)
    said = person.aboard("logs", "fetched", "--rank", "all")
    assert waited.code == 0, waited.err + said.out + person.aboard("why", "fetched").out
    assert "fetched before training" in said.out
