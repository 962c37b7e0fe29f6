"""The shipped runtimes: every one renders, is let in, and says what it promises."""

import pytest

from allaboard.api import kinds
from allaboard.training import admission
from allaboard.training.render import structure
from allaboard.training.runtimes import contracts, shipped_runtimes
from tests.training.world import NOW, SHIPPED, View, build, of_kind, refusals, trainjob

NAMES = [
    "deepspeed-distributed", "flux-distributed", "jax-distributed", "mlx-distributed", "mpi-distributed",
    "mpi-distributed-intel", "mpi-distributed-mpich", "plain", "torch-distributed", "torchtune-llama3.2-1b",
    "torchtune-llama3.2-3b", "torchtune-llama3.3-70b", "torchtune-qwen2.5-1.5b", "xgboost-distributed",
]  # fmt: skip


def test_these_are_shipped():
    assert sorted(SHIPPED) == NAMES
    assert NOW and View()


def test_each_call_gives_fresh_documents():
    assert shipped_runtimes()[0] is not shipped_runtimes()[0]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_let_in(name):
    shape = structure(kinds.CLUSTER_TRAINING_RUNTIME)
    admitted = shape.admit(SHIPPED[name])
    assert (admitted.unknown, shape.validate(admitted.document)) == ([], [])
    assert list(admission.runtime_problems(admitted.document)) == []


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_it_renders_a_jobset_the_schema_takes(name, nodes):
    job = trainjob({"numNodes": nodes}, runtime=name)
    assert refusals(job, SHIPPED[name]) == []
    found = of_kind(build(SHIPPED[name], job), "JobSet")
    shape = structure(kinds.JOB_SET)
    admitted = shape.admit(found)
    assert (admitted.unknown, shape.validate(admitted.document)) == ([], [])


@pytest.mark.parametrize("name", NAMES)
def test_its_contract_names_every_variable_it_injects(name):
    job = trainjob({"numNodes": 2}, runtime=name)
    bare = {variable for pod in _pods(SHIPPED[name]["spec"]["template"]) for variable in _variables(pod)}
    made = {variable for pod in _pods(of_kind(build(SHIPPED[name], job), "JobSet")) for variable in _variables(pod)}
    assert all(variable in contracts()[name] for variable in made - bare)


def _pods(document):
    return [job["template"]["spec"]["template"]["spec"] for job in document["spec"]["replicatedJobs"]]


def _variables(pod):
    return [entry["name"] for container in pod["containers"] for entry in container.get("env") or []]
