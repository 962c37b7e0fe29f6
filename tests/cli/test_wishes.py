"""The job a file holds, whatever the file is called."""

import pytest

from allaboard.cli import wishes
from allaboard.cli.manifests import BadFile

JOB = "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: mine}}\n"
OTHER = "{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}\n"
REFUSED = {
    "nothing": "",
    "another kind": OTHER,
    "two jobs": f"{JOB}---\n{JOB}",
    "a job and something else": f"{JOB}---\n{OTHER}",
}


@pytest.mark.parametrize("name", ["job.yaml", "job", "job.txt"])
def test_a_file_that_is_named_as_a_manifest_is_one(tmp_path, name):
    (tmp_path / name).write_text(JOB)
    assert wishes.job_in(str(tmp_path / name)).document["metadata"]["name"] == "mine"


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_anything_but_one_train_job_is_refused(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(BadFile, match=r"job\.yaml: must hold exactly one TrainJob; `aboard apply -f .* takes anything"):
        wishes.manifest_of(str(path), "default", {})
