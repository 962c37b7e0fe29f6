"""Seeing the merge: who set every field of the final objects."""

import pytest
import yaml

from allaboard.training import render
from allaboard.training.facts import Facts
from tests.training.world import SHIPPED, entropy, patch, trainjob

FACTS = Facts(entropy=entropy)
JOB = trainjob(
    {
        "numNodes": 4,
        "image": "mine:1",
        "env": [{"name": "LR", "value": "0.1"}],
        "resourcesPerNode": {"requests": {"cpu": "2"}},
    },
    runtime="torch-distributed",
    runtimePatches=[
        patch("kueue.x-k8s.io/manager", nodeSelector={"zone": "a"}),
        patch("me.io/x", nodeSelector={"rack": "1"}),
    ],
)
CONTAINER = "spec.replicatedJobs[node].template.spec.template.spec.containers[node]"
AUTHORS = {
    "metadata.name": "TrainJob",
    "spec.suspend": "TrainJob",
    "spec.replicatedJobs[node].replicas": "default",
    "spec.replicatedJobs[node].name": "runtime torch-distributed",
    "spec.replicatedJobs[node].groupName": "default",
    "spec.replicatedJobs[node].template.spec.parallelism": "plugin jobset",
    "spec.replicatedJobs[node].template.spec.template.spec.nodeSelector.zone": "patch kueue.x-k8s.io/manager",
    "spec.replicatedJobs[node].template.spec.template.spec.nodeSelector.rack": "patch me.io/x",
    f"{CONTAINER}.image": "TrainJob",
    f"{CONTAINER}.resources.requests.cpu": "TrainJob",
    f"{CONTAINER}.env[LR].value": "TrainJob",
    f"{CONTAINER}.env[PET_NNODES].value": "plugin torch",
    f"{CONTAINER}.ports[29500].containerPort": "plugin torch",
}


@pytest.mark.parametrize(("path", "author"), AUTHORS.items(), ids=AUTHORS)
def test_every_field_has_an_author(path, author):
    explained = render.explain(SHIPPED["torch-distributed"], JOB, FACTS)[0]
    assert explained.authors[path] == author
    assert set(explained.authors) == {found for found, _ in render.leaves(explained.document)}


def test_what_nobody_said_is_the_default():
    spec = {name: value for name, value in JOB["spec"].items() if name != "suspend"}
    explained = render.explain(SHIPPED["torch-distributed"], {**JOB, "spec": spec}, FACTS)[0]
    assert explained.authors["spec.suspend"] == "default"


@pytest.mark.parametrize("name", SHIPPED)
def test_an_annotated_object_is_still_that_object(name):
    for explained in render.explain(SHIPPED[name], trainjob({"numNodes": 2}, runtime=name), FACTS):
        assert yaml.safe_load(render.annotated(explained)) == explained.document


@pytest.mark.parametrize("name", SHIPPED)
def test_explaining_and_rendering_agree(name):
    job = trainjob({"numNodes": 2}, runtime=name)
    explained = [found.document for found in render.explain(SHIPPED[name], job, FACTS)]
    assert explained == render.render(SHIPPED[name], job, FACTS)
    assert explained[0]["kind"] == "JobSet"


SCALARS = {
    "1": '"1"',
    "true": '"true"',
    "no": '"no"',
    "a b": '"a b"',
    "": '""',
    "a-b.c/d": "a-b.c/d",
    'say "x"\n': '"say \\"x\\"\\n"',
}


@pytest.mark.parametrize(("text", "want"), SCALARS.items(), ids=repr)
def test_texts_that_could_be_something_else_are_quoted(text, want):
    assert render.scalar(text) == want
    assert yaml.safe_load(want) == text
