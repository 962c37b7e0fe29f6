"""OptimizationJob: a schema whose rules hold, though nothing acts on it yet."""

import copy

import pytest

from allaboard.api import kinds
from allaboard.training.render import structure

SHAPE = structure(kinds.OPTIMIZATION_JOB)


def uniform(low="0", high="1", **more):
    return {"name": "lr", "searchSpace": {"uniform": {"min": low, "max": high, **more}}}


def study(**spec):
    base = {
        "objectives": [{"metric": "loss"}],
        "parameters": [uniform()],
        "trainJobTemplate": {"spec": {"runtimeRef": {"name": "torch-distributed"}}},
    }
    metadata = {"name": "study", "namespace": "a"}
    return {
        "apiVersion": kinds.OPTIMIZATION_JOB.api_version,
        "kind": "OptimizationJob",
        "metadata": metadata,
        "spec": base | spec,
    }


def problems(document, old=None):
    return SHAPE.validate(SHAPE.default(document), SHAPE.default(old) if old else None)


def test_defaults():
    spec = SHAPE.default(study())["spec"]
    assert (spec["numTrials"], spec["parallelTrials"], spec["searchAlgorithm"]) == (1, 1, {"random": {}})
    assert (spec["objectives"][0]["direction"], spec["parameters"][0]["searchSpace"]["uniform"]["type"]) == (
        "Minimize",
        "Float",
    )
    assert problems(study()) == []


CATEGORICAL = {"name": "opt", "searchSpace": {"categorical": {"choices": ["sgd", "adam"]}}}
LOGARITHMIC = {"name": "lr", "searchSpace": {"logUniform": {"min": "0", "max": "1"}}}
REFUSED = {
    "no objective": {"objectives": []},
    "two objectives": {"objectives": [{"metric": "a"}, {"metric": "b"}]},
    "more at once than in all": {"numTrials": 2, "parallelTrials": 3},
    "too many trials": {"numTrials": 101},
    "a grid over a range": {"searchAlgorithm": {"grid": {}}},
    "two algorithms": {"searchAlgorithm": {"grid": {}, "random": {}}, "parameters": [CATEGORICAL]},
    "no parameter": {"parameters": []},
    "an empty range": {"parameters": [uniform("1", "1")]},
    "a number that is none": {"parameters": [uniform("01", "2")]},
    "a logarithm of nothing": {"parameters": [LOGARITHMIC]},
    "two spaces": {
        "parameters": [{"name": "x", "searchSpace": {**uniform()["searchSpace"], **CATEGORICAL["searchSpace"]}}]
    },
    "a named template": {"trainJobTemplate": {"metadata": {"name": "x"}, "spec": {"runtimeRef": {"name": "r"}}}},
}


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(spec):
    assert problems(study(**spec)) != []


def test_a_grid_over_choices():
    assert problems(study(searchAlgorithm={"grid": {}}, parameters=[CATEGORICAL])) == []


def test_a_study_does_not_change():
    old, new = study(numTrials=3), copy.deepcopy(study(numTrials=4))
    assert problems(new, old) != []
    assert problems(old, old) == []
