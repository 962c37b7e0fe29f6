"""What may come in as a TrainJob or a runtime, and in which words it is refused."""

import dataclasses

import pytest

from allaboard.api import kinds
from allaboard.api.errors import Forbidden
from allaboard.api.meta import key_of
from allaboard.training import admission
from allaboard.training.render import structure
from tests.training.world import (
    NOW,
    View,
    existing_job_set,
    mpi_runtime,
    patch,
    refusals,
    replicated,
    runtime,
    trainjob,
    tune_runtime,
)  # fmt: skip


@dataclasses.dataclass
class Request:
    operation: str
    kind: kinds.Kind
    new: dict | None
    old: dict | None = None
    subresource: str = ""

    @property
    def key(self):
        return key_of(self.new or self.old)


HOOKS = {hook.name: hook for hook in admission.hooks(lambda: NOW)}
STAMP = "2026-01-02T03:04:05Z"


def test_hooks_have_upstreams_names():
    assert list(HOOKS) == [
        "defaulter.trainjob.trainer.kubeflow.org",
        "validator.trainjob.trainer.kubeflow.org",
        "validator.trainingruntime.trainer.kubeflow.org",
        "validator.clustertrainingruntime.trainer.kubeflow.org",
    ]


def test_a_refusal_is_403_and_says_everything_at_once():
    job = trainjob({"env": [{"name": "PET_NNODES", "value": "1"}]}, runtimePatches=[patch("noslash", job="ghost")])
    request = Request("CREATE", kinds.TRAIN_JOB, job)
    verdict = HOOKS["validator.trainjob.trainer.kubeflow.org"].validate(request, View(runtime()))
    assert isinstance(verdict.refusal, Forbidden)
    assert [cause.field for cause in verdict.refusal.causes] == [
        "spec.runtimePatches.manager",
        "spec.runtimePatches",
        "spec.trainer.env",
    ]
    assert verdict.refusal.message.startswith("[spec.runtimePatches.manager: Invalid value: ")


def test_a_missing_runtime_is_told_with_those_that_exist():
    found = refusals(trainjob(runtime="torch-xl"), runtime(name="torch-small"), runtime(name="torch-large"))
    assert found[0].endswith(
        "must be created before the TrainJob is created; the cluster has: torch-large, torch-small"
    )


def test_a_runtime_that_opted_out_is_not_checked():
    bad = runtime(None, {**replicated(), "replicas": 2}, labels={"trainer.kubeflow.org/webhook-validation": "disabled"})
    request = Request("CREATE", kinds.CLUSTER_TRAINING_RUNTIME, bad)
    assert HOOKS["validator.clustertrainingruntime.trainer.kubeflow.org"].validate(request, View()).refusal is None


REFUSED = {
    "torch's variables": (trainjob({"env": [{"name": "PET_NODE_RANK"}]}), runtime(), "spec.trainer.env"),
    "MPI's variables": (trainjob({"env": [{"name": "OMPI_MCA_plm_rsh_args"}]}), mpi_runtime(), "spec.trainer.env"),
    "Intel MPI's variables": (
        trainjob({"env": [{"name": "I_MPI_PERHOST"}]}),
        mpi_runtime(implementation="Intel"),
        "spec.trainer.env",
    ),
    "MPICH's variables": (
        trainjob({"env": [{"name": "HYDRA_HOST_FILE"}]}),
        mpi_runtime(implementation="MPICH"),
        "spec.trainer.env",
    ),
    "XGBoost's variables": (
        trainjob({"env": [{"name": "A"}, {"name": "DMLC_TASK_ID"}]}),
        runtime({"xgboost": {}}),
        "spec.trainer.env[1]",
    ),
    "Flux's init container": (
        trainjob({}),
        runtime({"flux": {}}, replicated(initContainers=[{"name": "flux-installer"}])),
        "spec.trainer.initContainers",
    ),
    "an unknown job": (trainjob(runtimePatches=[patch(job="nodes")]), runtime(), "spec.runtimePatches"),
    "an unknown container": (
        trainjob(runtimePatches=[patch(containers=[{"name": "x"}])]),
        runtime(),
        "spec.runtimePatches",
    ),
    "variables by patch": (
        trainjob(runtimePatches=[patch(containers=[{"name": "node", "env": [{"name": "A"}]}])]),
        runtime(),
        "spec.runtimePatches",
    ),
    "a manager without a domain": (trainjob(runtimePatches=[patch("me")]), runtime(), "spec.runtimePatches.manager"),
    "no manager": (trainjob(runtimePatches=[patch("")]), runtime(), "spec.runtimePatches.manager"),
    "a data set without a job": (trainjob(initializer={"dataset": {}}), runtime(), "spec.runtimeRef"),
    "a model without a volume": (
        trainjob(initializer={"model": {}}),
        runtime(
            None,
            replicated("model-initializer", "model-initializer", containers=[{"name": "model-initializer"}]),
            replicated(),
        ),
        "spec.runtimeRef",
    ),
    "an unknown target": (
        trainjob({}),
        runtime({"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["x"]}]}}}),
        "spec.runtimeRef",
    ),
    "nodes without a launcher": (
        trainjob({"numNodes": 2}),
        runtime({"mpi": {"runLauncherAsNode": True}}, replicated("node", None)),
        "spec.trainer.numNodes",
    ),
    "an empty queue": (
        trainjob(runtimePatches=[patch(template_metadata={"annotations": {"scheduling.volcano.sh/queue-name": ""}})]),
        runtime(podGroupPolicy={"volcano": {}}),
        "spec.annotations[scheduling.volcano.sh/queue-name]",
    ),
    "more nodes than a Job holds": (trainjob({"numNodes": 2**31 - 1}), runtime(), "spec.trainer.numNodes"),
    "an amount no machine has": (
        trainjob({"resourcesPerNode": {"limits": {"cpu": "1e400"}}}),
        runtime(),
        "spec.trainer.resourcesPerNode.limits[cpu]",
    ),
    "a negative amount": (
        trainjob({"resourcesPerNode": {"limits": {"cpu": "-1"}}}),
        runtime(),
        "spec.trainer.resourcesPerNode.limits[cpu]",
    ),
    "a name of 63 characters": (trainjob(name="a" * 63), runtime(), "metadata.name"),
    "a torchtune model nobody knows": (
        trainjob({"command": ["tune", "run"]}, runtime="rt"),
        runtime(),
        "spec.runtimeRef.name",
    ),
}


@pytest.mark.parametrize(("job", "source", "field"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_with_its_path(job, source, field):
    found = refusals(job, source)
    assert [line.partition(": ")[0] for line in found] == [field]


COUNTS = {
    "numNodes -1": {"numNodes": -1},
    "numNodes 2^31": {"numNodes": 2**31},
    "processes 0": {"numProcPerNode": 0},
    "processes of no kind": {"numProcPerNode": "many"},
}


@pytest.mark.parametrize("trainer", COUNTS.values(), ids=COUNTS)
def test_absurd_counts_are_refused_by_the_schema(trainer):
    assert structure(kinds.TRAIN_JOB).validate(trainjob(trainer)) != []


def test_a_name_of_300_characters_is_refused_by_the_schema():
    messages = [cause.message for cause in structure(kinds.TRAIN_JOB).validate(trainjob(name="a" * 300))]
    assert messages == ["Invalid value: metadata.name must be no more than 63 characters"]


@pytest.mark.parametrize("processes", [1, 8, "8", "auto", "cpu", "gpu"])
def test_every_form_of_processes_is_let_in(processes):
    assert structure(kinds.TRAIN_JOB).validate(trainjob({"numProcPerNode": processes})) == []
    assert refusals(trainjob({"numProcPerNode": processes}), runtime()) == []


TIMES = {
    "created without a time": (None, patch(), STAMP),
    "created with a time": (None, patch() | {"time": "T"}, "T"),
    "unchanged keeps its time": (patch() | {"time": "OLD"}, patch(), "OLD"),
    "unchanged, whatever was sent": (patch() | {"time": "OLD"}, patch() | {"time": "NEW"}, "OLD"),
    "changed is stamped": (patch() | {"time": "OLD"}, patch(affinity={}) | {"time": "T"}, STAMP),
    "a new manager with a time keeps it": (patch("b.io/x") | {"time": "OLD"}, patch() | {"time": "T"}, "T"),
}


@pytest.mark.parametrize(("before", "sent", "want"), TIMES.values(), ids=TIMES)
def test_patches_carry_the_time_of_their_content(before, sent, want):
    old = trainjob(runtimePatches=[before]) if before else None
    stamped = admission.stamped(trainjob(runtimePatches=[sent]), old, STAMP)
    assert stamped["spec"]["runtimePatches"][0]["time"] == want


A, B = [patch(nodeSelector={"z": "a"})], [patch(nodeSelector={"z": "b"})]
ACTIVE = {"replicatedJobsStatus": [{"name": "node", "active": 1}, {"name": "idle", "active": 0}]}
CHANGES = {
    "running": (False, False, None, ["can only be modified when the TrainJob is suspended"]),
    "suspending": (False, True, None, []),
    "suspended": (True, True, {}, []),
    "resuming": (True, False, {}, []),
    "suspended, but pods still run": (True, True, ACTIVE, ["ReplicatedJob node is still active"]),
}


@pytest.mark.parametrize(("before", "after", "status", "refused"), CHANGES.values(), ids=CHANGES)
def test_patches_change_only_while_nothing_runs(before, after, status, refused):
    existing = [] if status is None else [existing_job_set(suspend=True, **status)]
    old, new = trainjob(suspend=before, runtimePatches=A), trainjob(suspend=after, runtimePatches=B)
    found = refusals(new, runtime(), *existing, old=old)
    assert len(found) == len(refused)
    assert all(words in line for words, line in zip(refused, found))


def test_a_suspended_job_takes_labels_selectors_tolerations_and_gates():
    change = patch(
        nodeSelector={"a": "b"},
        tolerations=[{"key": "k"}],
        schedulingGates=[{"name": "g"}],
        pod_metadata={"labels": {"l": "1"}},
    )
    job = trainjob(suspend=True, runtimePatches=[change])
    assert refusals(job, runtime(), existing_job_set(suspend=True), old=trainjob(suspend=True)) == []


def test_a_patch_that_cannot_be_merged_hides_nothing_else():
    job = trainjob({"env": [{"name": "PET_NNODES", "value": "1"}]}, runtimePatches=[patch(imagePullSecrets=[{}])])
    fields = [line.partition(":")[0] for line in refusals(job, runtime())]
    assert fields == ["spec.runtimePatches", "spec.trainer.env"]


def test_a_patch_that_could_never_be_merged_may_be_mended():
    broken = trainjob(suspend=True, runtimePatches=[patch(imagePullSecrets=[{}])])
    mended = trainjob(suspend=True, runtimePatches=[patch(imagePullSecrets=[{"name": "key"}])])
    assert refusals(mended, runtime(), existing_job_set(suspend=True), old=broken) == []


TUNE = {
    "full on one node": ([], {}, []),
    "two nodes of a small model": ([], {"numNodes": 2}, ["spec.trainer.numNodes"]),
    "LoRA": (["model.lora_attn_modules=[q]"], {}, []),
    "QLoRA on two devices": (
        ["model.quantize_base=True"],
        {},
        ["spec.trainer.numProcPerNode", "spec.trainer.resourcesPerNode"],
    ),
    "QLoRA on one device": (
        ["model.quantize_base=True"],
        {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "1"}}},
        [],
    ),
    "QLoRA that is DoRA": (["model.quantize_base=True", "model.use_dora=True"], {}, []),
    "a path of the runtime": (["output_dir=/x"], {}, ["spec.trainer.args[0]"]),
}


@pytest.mark.parametrize(("args", "trainer", "fields"), TUNE.values(), ids=TUNE)
def test_torchtune(args, trainer, fields):
    job = trainjob({"command": ["tune", "run"], "args": args, **trainer}, runtime="torchtune-llama3.2-1b")
    assert [line.partition(": ")[0] for line in refusals(job, tune_runtime())] == fields


def test_the_deprecated_runtime_of_a_job_is_warned_about():
    source = runtime(labels={"trainer.kubeflow.org/support": "deprecated"})
    request = Request("CREATE", kinds.TRAIN_JOB, trainjob())
    warnings = HOOKS["validator.trainjob.trainer.kubeflow.org"].validate(request, View(source)).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith('Referenced ClusterTrainingRuntime "rt" is deprecated')


MISSHAPEN = {
    "a spec that is a number": 5,
    "a spec that is a list": [],
    "patches that are a text": {"runtimePatches": "x"},
    "patches that are a map": {"runtimePatches": {"manager": "a.io/b"}},
    "a patch that is a number": {"runtimePatches": [5]},
    "a patch that is null": {"runtimePatches": [None]},
}


@pytest.mark.parametrize("spec", MISSHAPEN.values(), ids=MISSHAPEN)
def test_what_is_misshapen_is_left_to_the_schema(spec):
    """The defaulter speaks before the schema does: it must not stumble over anything."""
    job = {**trainjob(), "spec": spec}
    stamp = HOOKS["defaulter.trainjob.trainer.kubeflow.org"]
    assert stamp.mutate(Request("CREATE", kinds.TRAIN_JOB, job), View()) is None
