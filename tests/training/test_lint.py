"""Finding trouble in files before they are sent, and rewriting what is outdated."""

import pytest

from allaboard.api import kinds
from allaboard.training import lint, migration
from allaboard.training.render import structure
from tests.training.world import SHIPPED, replicated, runtime, trainjob

RULE = {"name": "r", "action": "FailJobSet"}
KNOWN = [*SHIPPED.values(), runtime()]


def found(document, *others):
    return [(f.path, f.level, f.fixable) for f in lint.lint([document, *others], KNOWN)]


def with_spec(**spec):
    job = trainjob({})
    return {**job, "spec": {**job["spec"], **spec}}


FINDINGS = {
    "nothing wrong": (trainjob({"numNodes": 2}), []),
    "a misspelt field": (trainjob({"numNode": 2}), [("spec.trainer.numNode", "error", False)]),
    "a wrong type": (trainjob({"numNodes": "two"}), [("spec.trainer.numNodes", "error", False)]),
    "an unknown runtime": (trainjob(runtime="torch-distribted"), [("spec.runtimeRef", "error", False)]),
    "a reserved variable": (
        trainjob({"env": [{"name": "PET_NNODES", "value": "1"}]}),
        [("spec.trainer.env", "error", False)],
    ),
    "a name too long for JobSet": (trainjob(name="a" * 60), [("metadata.name", "error", False)]),
    "limits the SDK cannot read": (
        trainjob({"resourcesPerNode": {"limits": {"memory": "1Gi"}}}),
        [("spec.trainer.resourcesPerNode.limits", "warning", False)],
    ),
    "a removed field": (with_spec(podTemplateOverrides=[]), [("spec.podTemplateOverrides", "error", True)]),
    "a renamed field": (
        with_spec(datasetConfig={"storageUri": "hf://a/b"}),
        [("spec.datasetConfig", "error", True), ("spec.runtimeRef", "error", False)],
    ),
    "a runtime without its container": (
        runtime(None, replicated(containers=[{"name": "main"}])),
        [("spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers", "error", False)],
    ),
    "no node at all": (trainjob({"numNodes": 0}), [("spec.trainer.numNodes", "warning", False)]),
    "fewer than none": (trainjob({"numNodes": -1}), [("spec.trainer.numNodes", "error", False)]),
    "a quantity no machine has": (
        trainjob({"resourcesPerNode": {"requests": {"cpu": "1e400"}}}),
        [("spec.trainer.resourcesPerNode.requests[cpu]", "error", False)],
    ),
    "a job that waits for nobody": (
        runtime(None, {**replicated(), "dependsOn": [{"name": "ghost", "status": "Complete"}]}),
        [("spec.template.spec.replicatedJobs[0].dependsOn", "error", False)],
    ),
    "success that nobody can have": (
        runtime(None, template={"successPolicy": {"operator": "All", "targetReplicatedJobs": ["nod"]}}),
        [("spec.template.spec.successPolicy", "error", False)],
    ),
    "a failure rule about nobody": (
        runtime(
            None,
            template={
                "failurePolicy": {"rules": [{"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["ghost"]}]}
            },
        ),
        [("spec.template.spec.failurePolicy", "error", False)],
    ),
    "somebody else's kind": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, []),
}


@pytest.mark.parametrize(("document", "want"), FINDINGS.values(), ids=FINDINGS)
def test_findings(document, want):
    assert found(document) == want


def test_the_nearest_right_name_is_offered():
    message = lint.lint([trainjob({"numNode": 2})], KNOWN)[0].message
    assert message == 'unknown field "spec.trainer.numNode"; did you mean "numNodes"?'


def test_a_runtime_of_the_same_files_is_known():
    assert found(trainjob(runtime="mine"), runtime(name="mine")) == []


def test_findings_are_told_with_line_and_column():
    findings = lint.lint([trainjob({"numNode": 2})], KNOWN)
    lines = list(lint.told(findings, "job.yaml", lambda document, path: (7, 5)))
    assert lines == [
        'job.yaml:7:5: error: spec.trainer.numNode: unknown field "spec.trainer.numNode"; did you mean "numNodes"?'
    ]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_runtimes_have_nothing_wrong(name):
    assert lint.lint([SHIPPED[name]], []) == []


OVERRIDE = {
    "targetJobs": [{"name": "node"}],
    "metadata": {"labels": {"a": "b"}},
    "spec": {"serviceAccountName": "robot"},
}


def test_old_overrides_become_a_patch():
    new = lint.fix(with_spec(podTemplateOverrides=[OVERRIDE]))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"serviceAccountName": "robot"}}
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    assert new["spec"]["runtimePatches"] == [
        {"manager": "aboard.dev/migrated", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    ]
    assert "podTemplateOverrides" not in new["spec"]
    assert structure(kinds.TRAIN_JOB).validate(new) == []


def test_older_overrides_had_their_spec_inline():
    new = migration.migrated(
        with_spec(podSpecOverrides=[{"targetJobs": [{"name": "node"}], "nodeSelector": {"a": "b"}}])
    )
    template = new["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0][
        "template"
    ]
    assert template["spec"]["template"]["spec"] == {"nodeSelector": {"a": "b"}}


def test_old_labels_and_inputs_find_their_place():
    new = migration.migrated(with_spec(labels={"a": "b"}, modelConfig={"storageURI": "hf://a/b"}))
    assert new["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["metadata"] == {"labels": {"a": "b"}}
    assert new["spec"]["initializer"] == {"model": {"storageUri": "hf://a/b"}}


def test_migrating_twice_changes_nothing_more():
    once = migration.migrated(with_spec(podTemplateOverrides=[OVERRIDE], labels={"a": "b"}))
    assert migration.migrated(once) is once
