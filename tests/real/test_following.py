"""Following a job where nobody serves our gangs, or where they are not for everybody to see."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import allaboard.api.crds

pytestmark = pytest.mark.real

KINDS = Path(allaboard.api.crds.__file__).parent
JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "over"},
    "spec": {"runtimeRef": {"name": "any"}},
}
DONE = {
    "type": "Complete", "status": "True", "reason": "AllJobsCompleted", "message": "done",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}  # fmt: skip
ALICE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "follows"},
    "rules": [{"apiGroups": ["", "trainer.kubeflow.org", "jobset.x-k8s.io"], "resources": ["*"], "verbs": ["*"]}],
}


@pytest.fixture(scope="module")
def finished(cluster):
    """A cluster that knows TrainJobs and JobSets, with a TrainJob somebody else has run."""
    for name in ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"):
        cluster.kubectl("apply", "--server-side", "-f", str(KINDS / f"{name}.json"))
        cluster.kubectl("wait", "crd", name, "--for=condition=Established")
    assert cluster.kubectl("create", "-f", "-", document=json.dumps(JOB)).returncode == 0
    patch = json.dumps({"status": {"conditions": [DONE]}})
    answer = cluster.kubectl("patch", "trainjob", "over", "--subresource=status", "--type=merge", "-p", patch)
    assert answer.returncode == 0, answer.stderr
    return cluster


def wait(cluster, kubeconfig):
    command = [sys.executable, "-m", "allaboard", f"--kubeconfig={kubeconfig}", "wait", "over"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_cluster_without_our_gangs_is_followed(finished):
    assert wait(finished, finished.kubeconfig).returncode == 0


def test_a_gang_that_is_not_ours_to_see_is_not_waited_for(finished):
    kind = str(KINDS / "podgroups.scheduling.run.ai.json")
    assert finished.kubectl("apply", "--server-side", "-f", kind).returncode == 0
    assert finished.kubectl("create", "-f", "-", document=json.dumps(ALICE)).returncode == 0
    finished.kubectl("create", "clusterrolebinding", "follows", "--clusterrole=follows", "--user=alice")
    answer = wait(finished, finished.folder / "alice.kubeconfig")
    assert answer.returncode == 0, answer.stderr
