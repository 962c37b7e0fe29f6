"""What may change in the template of a Job that sleeps, and where a refusal points."""

import copy

import pytest

from allaboard.cluster.kinds import jobspec

JOB = {
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": {}}]}},
    },
    "status": {},
}
CASES = {
    "labels": ({"metadata": {"labels": {"a": "b"}}}, {}, ""),
    "finalizers": ({"metadata": {"finalizers": ["a.b/c"]}}, {}, ""),
    "where to go": ({}, {"nodeSelector": {"a": "b"}}, ""),
    "what to run": ({}, {"containers": [{"name": "c", "image": "other", "resources": {}}]}, "spec.template.spec"),
}


def changed(job, template, spec):
    new = copy.deepcopy(job)
    new["spec"]["template"] = {**new["spec"]["template"], **template}
    new["spec"]["template"]["spec"] |= spec
    return [cause.field for cause in jobspec.on_update(new, job) if "immutable" in cause.message]


@pytest.mark.parametrize(("template", "spec", "refused"), CASES.values(), ids=CASES)
def test_a_job_that_sleeps(template, spec, refused):
    assert changed(JOB, template, spec) == ([refused] if refused else [])


def test_of_a_job_that_is_awake_nothing_changes():
    awake = {**JOB, "spec": {**JOB["spec"], "suspend": False}}
    assert changed(awake, {"metadata": {"labels": {"a": "b"}}}, {}) == ["spec.template"]
