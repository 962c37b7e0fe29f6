"""Every algorithm step, table row, variable and error of the seeds 000–003 that speaks about this room."""

import asyncio
import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key
from prometheus_client import REGISTRY

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.kube import metrics
from allaboard.kube.controller import RESYNC
from allaboard.kube.plan import NOTHING
from allaboard.kube.queue import FIRST_DELAY, LONGEST_DELAY
from allaboard.testing.clock import FakeClock
from allaboard.training import lifecycle, resources, upsert
from allaboard.training import status as statuses
from allaboard.training.controller import TrainJobController
from allaboard.training.facts import Facts
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from tests.training.world import (
    NOW,
    SHIPPED,
    build,
    condition,
    container,
    env,
    existing_job_set,
    hostfile,
    job_set,
    mpi_runtime,
    of_kind,
    pod,
    refusals,
    replicated,
    runtime,
    size,
    trainjob,
    tune_runtime,
)  # fmt: skip

RANK = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def processes(trainer, policy=None, requirements=None):
    source = runtime(
        {"torch": policy or {}}, replicated(containers=[{"name": "node", "resources": requirements or {}}])
    )
    return env(job_set(source, trainjob(trainer)))["PET_NPROC_PER_NODE"]


CPU4, GPU2 = {"requests": {"cpu": "4"}}, {"limits": {"nvidia.com/gpu": "2"}}
# The TrainJob, the runtime, the container's resources, and what torchrun is told.
ALGORITHM_1 = {
    "step 1: the TrainJob's number": ({"numProcPerNode": 3}, {"numProcPerNode": 5}, CPU4, "3"),
    "step 1: a decimal string of one": ({"numProcPerNode": "8"}, None, CPU4, "8"),
    "step 2: the runtime's default": ({}, {"numProcPerNode": "8"}, CPU4, "8"),
    "step 2: auto where nobody says": ({}, None, GPU2, "auto"),
    "step 3: cpu takes the CPUs": ({"numProcPerNode": "cpu"}, None, CPU4, "4"),
    "step 3: cpu even beside GPUs": ({"numProcPerNode": "cpu"}, None, CPU4 | GPU2, "4"),
    "step 3: auto without GPU takes the CPUs": ({"numProcPerNode": "auto"}, None, CPU4, "4"),
    "step 3: the larger of request and limit": ({}, None, {"requests": {"cpu": "2"}, "limits": {"cpu": "3500m"}}, "4"),
    "step 3: at least one": ({}, None, {}, "1"),
    "step 4: gpu is passed on": ({"numProcPerNode": "gpu"}, None, GPU2, "gpu"),
    "step 4: auto with GPU is passed on": ({"numProcPerNode": "auto"}, None, GPU2, "auto"),
    "step 4: the runtime's gpu is passed on": ({}, {"numProcPerNode": "gpu"}, GPU2, "gpu"),
    "step 4: MIG slices are GPUs (ruling 2)": ({}, None, {"limits": {"nvidia.com/mig-1g.5gb": "2"}}, "auto"),
}


@pytest.mark.parametrize(("trainer", "policy", "requirements", "want"), ALGORITHM_1.values(), ids=ALGORITHM_1)
def test_seed_000_algorithm_1_processes_per_node(trainer, policy, requirements, want):
    assert processes(trainer, policy, requirements) == want


WORDS = {
    "gpu is the GPU count": ("gpu", GPU2, 2),
    "gpu is at least one": ("gpu", {}, 1),
    "cpu is the CPU rule": ("cpu", CPU4, 4),
    "auto is the GPU count, if any": ("auto", GPU2, 2),
    "auto is else the policy's value": ("auto", CPU4, 7),
    "a number is itself": (3, GPU2, 3),
}


@pytest.mark.parametrize(("wanted", "requirements", "want"), WORDS.values(), ids=WORDS)
def test_seed_000_algorithm_1_outside_torch(wanted, requirements, want):
    assert resources.processes(wanted, 7, requirements) == want


@pytest.mark.parametrize(
    ("implementation", "line"), [("OpenMPI", "{} slots=8\n"), ("Intel", "{}:8\n"), ("MPICH", "{}:8\n")]
)
def test_seed_000_algorithm_2_the_host_file_of_each_implementation(implementation, line):
    objects = build(
        mpi_runtime(as_node=False, implementation=implementation),
        trainjob({"numNodes": 4, "numProcPerNode": 8}, "my-job"),
    )
    assert hostfile(objects) == "".join(line.format(f"my-job-node-0-{n}.my-job") for n in range(4))


def test_seed_000_algorithm_2_only_training_pods_are_hosts():
    assert "launcher" not in hostfile(build(mpi_runtime(as_node=False), trainjob({"numNodes": 2})))
    assert "run-launcher-0-0.run" in hostfile(build(mpi_runtime(), trainjob({"numNodes": 2})))


UPSERTS = {
    "env, by name: replaced in place": (upsert.env, "name"),
    "volumes, by name: replaced in place": (upsert.volumes, "name"),
    "mounts, by path (ruling 16): replaced in place": (upsert.mounts, "mountPath"),
}


@pytest.mark.parametrize(("take_in", "key"), UPSERTS.values(), ids=UPSERTS)
def test_seed_000_algorithm_3_upsert(take_in, key):
    items = [{key: "a", "v": 1}, {key: "b", "v": 1}]
    take_in(items, [{key: "b", "v": 2}, {key: "c", "v": 2}])
    assert items == [{key: "a", "v": 1}, {key: "b", "v": 2}, {key: "c", "v": 2}]


def test_seed_000_algorithm_3_one_volume_may_be_mounted_twice():
    mounts = [{"name": "v", "mountPath": "/a"}]
    upsert.mounts(mounts, [{"name": "v", "mountPath": "/b"}])
    assert len(mounts) == 2


def world(job, **found):
    return lifecycle.World(TrainJob(job), facts=Facts(entropy=lambda size: b"\1" * size), **found)


def test_seed_000_algorithm_4_a_pass_is_repeated_without_harm():
    first = lifecycle.decide(world(trainjob({}), runtime=runtime()), OURS, NOW)
    assert first == lifecycle.decide(world(trainjob({}), runtime=runtime()), OURS, NOW)
    assert [write.document["kind"] for write in first.apply] == ["ConfigMap", "JobSet"]


def test_seed_000_algorithm_4_step_1_a_job_that_is_gone_asks_for_nothing():
    class Nothing:
        async def get(self, kind, key):
            return None

    controller = TrainJobController(Nothing(), FakeClock())
    assert asyncio.run(controller.reconcile(Key("team-a", "run"))) == NOTHING


def test_seed_000_algorithm_4_step_5_a_status_is_written_only_when_it_changed():
    job, done = trainjob(), existing_job_set(conditions=[condition("Completed", reason="AllJobsCompleted")])
    first = lifecycle.decide(world(job, runtime=runtime(), job_set=done), OURS, NOW)
    job["status"] = first.status[0].document["status"]
    again = lifecycle.decide(world(job, runtime=runtime(), job_set=done), OURS, NOW)
    assert again.status == ()


def test_seed_000_algorithm_4_an_unknown_runtime_kind_fails_the_job():
    job = trainjob()
    job["spec"]["runtimeRef"]["kind"] = "Other"
    plan = lifecycle.decide(world(job), OURS, NOW)
    failed = plan.status[0].document["status"]["conditions"][0]
    assert (failed["type"], failed["message"]) == ("Failed", "unsupported runtime: Other.trainer.kubeflow.org")


def test_seed_001_trainer_makes_jobset_podgroup_secret_and_config_map():
    gang = {**mpi_runtime(), "spec": {**mpi_runtime()["spec"], "podGroupPolicy": {"coscheduling": {}}}}
    kinds_made = {document["kind"] for document in build(gang, trainjob({"numNodes": 2}))}
    assert kinds_made == {"JobSet", "PodGroup", "Secret", "ConfigMap"}


@pytest.mark.parametrize(("network", "domain"), [({}, "run"), ({"network": {"subdomain": "mesh"}}, "mesh")])
def test_seed_001_mechanism_1_endpoints_and_subdomain(network, domain):
    source = mpi_runtime(as_node=False)
    source["spec"]["template"]["spec"] |= network
    assert (
        hostfile(build(source, trainjob({"numNodes": 2})))
        == f"run-node-0-0.{domain} slots=1\nrun-node-0-1.{domain} slots=1\n"
    )


def test_seed_001_mechanism_2_the_variables_of_torch():
    built = job_set(runtime(), trainjob({"numNodes": 2}))
    assert env(built) == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": RANK,
        "PET_MASTER_ADDR": "run-node-0-0.run",
        "PET_MASTER_PORT": "29500",
    }
    assert container(built)["ports"] == [{"containerPort": 29500}]


def test_seed_001_mechanism_2_torchtune_gets_meeting_point_recipe_and_fixed_paths():
    job = trainjob({"command": ["tune", "run"], "args": ["batch_size=2"]}, runtime="torchtune-llama3.2-1b")
    built = job_set(tune_runtime(), job)
    assert container(built)["command"] == [
        "tune", "run", "--rdzv_endpoint=run-node-0-0.run:29500", "full_finetune_distributed", "--config",
        "llama3_2/1B_full", "output_dir=/workspace/output", "tokenizer.path=/workspace/model/original/tokenizer.model",
        "checkpointer.checkpoint_dir=/workspace/model",
    ]  # fmt: skip
    assert container(built)["args"] == ["batch_size=2"]
    assert "PET_MASTER_ADDR" not in env(built)


def test_seed_001_mechanism_2_torchtune_is_checked_at_admission():
    job = trainjob(
        {"command": ["tune", "run"], "numNodes": 2, "args": ["output_dir=/x"]}, runtime="torchtune-llama3.2-1b"
    )
    fields = [line.partition(":")[0] for line in refusals(job, tune_runtime())]
    assert fields == ["spec.trainer.numNodes", "spec.trainer.args[0]"]


def test_seed_001_mechanism_3_mpi_objects_and_mounts():
    objects = build(mpi_runtime(as_node=False), trainjob({"numNodes": 2}))
    names = {document["metadata"]["name"] for document in objects}
    assert names == {"run", "run-mpi-ssh-auth", "run-mpi-hostfile"}
    mounts = {m["name"]: m["mountPath"] for m in container(of_kind(objects, "JobSet"), "launcher")["volumeMounts"]}
    assert mounts == {"mpi-ssh-auth": "/root/.ssh", "mpi-hostfile": "/etc/mpi"}


def test_seed_001_mechanism_4_gang_label_and_counts():
    source = runtime(
        None,
        replicated(containers=[{"name": "node", "resources": {"requests": {"cpu": "2"}}}]),
        podGroupPolicy={"coscheduling": {"scheduleTimeoutSeconds": 60}},
    )
    objects = build(source, trainjob({"numNodes": 4}))
    template = of_kind(objects, "JobSet")["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    # Ruling 8: upstream's label, not the seed's.
    assert template["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": "run"}
    assert of_kind(objects, "PodGroup")["spec"] == {
        "minMember": 4,
        "minResources": {"cpu": "8"},
        "scheduleTimeoutSeconds": 60,
    }


SUSPENSION = {
    #                                     TrainJob  JobSet  built
    "no JobSet yet":                      (False,   None,   True),
    "a running one is left alone":        (False,   False,  False),
    "suspending reaches it":              (True,    False,  True),
    "a suspended one takes changes":      (True,    True,   True),
    "resuming applies everything again":  (False,   True,   True),
}  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "built"), SUSPENSION.values(), ids=SUSPENSION)
def test_seed_001_suspend_decides_whether_the_jobset_is_touched(ours, theirs, built):
    existing = [] if theirs is None else [existing_job_set(suspend=theirs)]
    found = of_kind(build(runtime(), trainjob({}, suspend=ours), *existing), "JobSet")
    assert (found is not None) is built
    assert found is None or found["spec"]["suspend"] is ours


@pytest.mark.parametrize(("as_node", "nodes", "workers"), [(False, 4, 4), (True, 4, 3), (True, 2, 1)])
def test_seed_002_step_1_the_number_of_workers(as_node, nodes, workers):
    assert size(job_set(mpi_runtime(as_node=as_node), trainjob({"numNodes": nodes}))) == workers


SLOTS = {
    "the TrainJob's": ({"numProcPerNode": 3}, {}, "3"),
    "GPUs, where the runtime says 1": ({}, {"limits": {"nvidia.com/gpu": "4"}}, "4"),
    "the runtime's": ({}, {}, "1"),
}


@pytest.mark.parametrize(("trainer", "requirements", "slots"), SLOTS.values(), ids=SLOTS)
def test_seed_002_step_2_slots(trainer, requirements, slots):
    job = trainjob({"numNodes": 2, "resourcesPerNode": requirements, **trainer})
    assert env(job_set(mpi_runtime(), job), "launcher")["OMPI_MCA_orte_set_default_slots"] == slots


def test_seed_002_step_3_the_key_pair_is_mounted_with_its_modes():
    built = job_set(mpi_runtime(), trainjob({"numNodes": 2}))
    for job in ("node", "launcher"):
        secret = next(v for v in pod(built, job)["volumes"] if v["name"] == "mpi-ssh-auth")["secret"]
        modes = {item["path"]: oct(item["mode"]) for item in secret["items"]}
        assert modes == {"id_rsa": "0o640", "id_rsa.pub": "0o644", "authorized_keys": "0o644"}
        assert (secret["secretName"], oct(secret["defaultMode"])) == ("run-mpi-ssh-auth", "0o400")


def test_seed_002_step_3_only_the_launcher_gets_host_file_and_variables():
    built = job_set(mpi_runtime(), trainjob({"numNodes": 2}))
    assert [v["name"] for v in pod(built, "node")["volumes"]] == ["mpi-ssh-auth"]
    assert env(built, "node") == {}


ENVIRONMENT = {
    "OpenMPI": {
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "8",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    },
    "Intel": {
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "I_MPI_PERHOST": "8",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
    },
    "MPICH": {
        "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXTRA_ARGS": "-o ConnectionAttempts=10",
        "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
    },
}


@pytest.mark.parametrize(("implementation", "want"), ENVIRONMENT.items(), ids=ENVIRONMENT)
def test_seed_002_the_table_of_variables(implementation, want):
    built = job_set(mpi_runtime(implementation=implementation), trainjob({"numNodes": 2, "numProcPerNode": 8}))
    assert env(built, "launcher") == want


def test_seed_002_build_the_secret_is_ecdsa_p521_immutable_owned_and_made_once():
    secret = of_kind(build(mpi_runtime(), trainjob({"numNodes": 2})), "Secret")
    private = load_pem_private_key(base64.b64decode(secret["data"]["ssh-privatekey"]), None)
    public = load_ssh_public_key(base64.b64decode(secret["data"]["ssh-publickey"]))
    assert isinstance(private.curve, ec.SECP521R1)
    assert private.public_key().public_numbers() == public.public_numbers()
    assert (secret["type"], secret["immutable"]) == ("kubernetes.io/ssh-auth", True)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-run"
    again = build(mpi_runtime(), trainjob({"numNodes": 2}), secret)
    assert [d["kind"] for d in again] == ["ConfigMap", "JobSet"]


def test_seed_002_security_only_the_jobs_own_pods_get_the_key():
    sidecar = replicated("extra", labels={}, containers=[{"name": "extra", "image": "x"}])
    source = mpi_runtime()
    source["spec"]["template"]["spec"]["replicatedJobs"].append(sidecar)
    built = job_set(source, trainjob({"numNodes": 2}))
    mounted = {entry["name"] for entry in built["spec"]["replicatedJobs"] if pod(built, entry["name"]).get("volumes")}
    assert mounted == {"node", "launcher"}


def test_seed_002_the_launcher_counts_as_a_node():
    objects = build(mpi_runtime(), trainjob({"numNodes": 3, "numProcPerNode": 8}))
    assert hostfile(objects) == "run-node-0-0.run slots=8\nrun-node-0-1.run slots=8\nrun-launcher-0-0.run slots=8\n"


@pytest.mark.parametrize(
    "kind",
    [
        kinds.TRAIN_JOB,
        kinds.JOB_SET,
        kinds.CONFIG_MAP,
        kinds.SECRET,
        kinds.POD_GROUP_COSCHEDULING,
        kinds.POD_GROUP_VOLCANO,
    ],
    ids=str,
)
def test_seed_002_and_003_what_is_watched(kind):
    watch = next(watch for watch in TrainJobController(None, None).watches if watch.kind is kind)
    owned = {"metadata": {"name": "x", "namespace": "team-a", "ownerReferences": [TrainJob(trainjob()).owner]}}
    document = trainjob() if kind is kinds.TRAIN_JOB else owned
    assert list(watch.keys(document)) == [Key("team-a", "run")]


def test_seed_003_resync_and_back_off():
    assert RESYNC.total_seconds() == 10 * 3600
    assert (FIRST_DELAY.total_seconds(), LONGEST_DELAY.total_seconds()) == (0.005, 1000)


def seed_003_example():
    """The two objects as the seed writes them (ruling 19)."""
    job = {
        "name": "worker",
        "template": {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}},
    }
    source = runtime({"torch": {"numProcPerNode": "8"}}, job, name="torch-distributed")
    return {**source, "kind": "TrainingRuntime", "metadata": {"name": "torch-distributed", "namespace": "team-a"}}


def test_seed_003_its_own_example_runs():
    job = trainjob({"image": "pytorch/pytorch:2.0", "numNodes": 4}, "pytorch-job", "torch-distributed")
    job["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    source = seed_003_example()
    assert refusals(job, source) == []
    built = job_set(source, job)
    assert (size(built, "worker"), container(built, "worker", "main")["image"]) == (4, "pytorch/pytorch:2.0")
    assert env(built, "worker", "main")["PET_NPROC_PER_NODE"] == "8"
    assert env(built, "worker", "main")["PET_MASTER_ADDR"] == "pytorch-job-worker-0-0.pytorch-job"


def test_seed_003_its_example_without_a_kind_says_what_to_add():
    job = trainjob({"numNodes": 4}, "pytorch-job", "torch-distributed")
    assert "add `kind: TrainingRuntime`" in refusals(job, seed_003_example())[0]


CORRECTIONS = {
    "no JobSet: made":                  ([], {"ConfigMap", "JobSet", "Secret"}),
    "no Secret: made":                  (["JobSet", "ConfigMap"], {"ConfigMap", "Secret"}),
    "no ConfigMap: made":               (["JobSet", "Secret"], {"ConfigMap"}),
    "all there: the host file again":   (["JobSet", "Secret"], {"ConfigMap"}),
}  # fmt: skip


@pytest.mark.parametrize(("there", "made"), CORRECTIONS.values(), ids=CORRECTIONS)
def test_seed_003_the_table_of_corrections(there, made):
    source, job = mpi_runtime(), trainjob({"numNodes": 2})
    existing = [document for document in build(source, job) if document["kind"] in there]
    assert {document["kind"] for document in build(source, job, *existing)} == made


def test_seed_003_corrections_another_jobset_spec_is_put_right_while_it_sleeps():
    asleep = existing_job_set(suspend=True)
    built = of_kind(build(runtime(), trainjob({"numNodes": 3}, suspend=True), asleep), "JobSet")
    assert size(built) == 3


def test_seed_003_corrections_a_status_that_is_behind_is_written_over():
    job = trainjob()
    job["status"] = {"jobsStatus": [{"name": "node", "active": 9}]}
    done = existing_job_set(conditions=[condition("Completed", reason="AllJobsCompleted")])
    plan = lifecycle.decide(world(job, runtime=runtime(), job_set=done), OURS, NOW)
    assert plan.status[0].document["status"]["conditions"][0]["type"] == "Complete"


def test_seed_003_checklist_the_jobset_has_the_trainjobs_name_and_is_owned_by_it():
    for document in build(mpi_runtime(), trainjob({"numNodes": 2}, "my-job")):
        owner = document["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("TrainJob", "my-job", True)
        assert document["kind"] != "JobSet" or document["metadata"]["name"] == "my-job"


def test_seed_003_checklist_everything_is_applied_by_one_manager():
    """An Apply is by force: `kube/plan.py`."""
    plan = lifecycle.decide(world(trainjob({}), runtime=runtime()), OURS, NOW)
    assert TrainJobController.name == "trainer"
    assert (len(plan.apply), plan.create, plan.update, plan.patch) == (2, (), (), ())


STATUS = {
    "JobSetCompleted is TrainJobComplete": ("Completed", "Complete"),
    "JobSetFailed is TrainJobFailed": ("Failed", "Failed"),
}


@pytest.mark.parametrize(("theirs", "ours"), STATUS.values(), ids=STATUS)
def test_seed_003_the_table_of_conditions(theirs, ours):
    found = statuses.synced(
        TrainJob(trainjob()), existing_job_set(conditions=[condition(theirs, reason="Because")]), NOW
    )
    assert [(c["type"], c["status"], c["reason"]) for c in found["conditions"]] == [(ours, "True", "Because")]


def test_seed_003_suspended_follows_the_trainjobs_own_wish():
    assert statuses.synced(TrainJob(trainjob(suspend=True)), None, NOW)["conditions"][0]["type"] == "Suspended"


def test_seed_003_failures_a_missing_runtime_is_final():
    plan = lifecycle.decide(world(trainjob()), OURS, NOW)
    failed = plan.status[0].document["status"]["conditions"][0]
    assert (failed["type"], failed["reason"], plan.again) == ("Failed", "RuntimeNotFound", None)
    assert (plan.apply, plan.create) == ((), ())


def test_seed_003_failures_a_wrong_trainjob_never_comes_in():
    assert refusals(trainjob({"env": [{"name": "PET_NNODES", "value": "1"}]}), runtime()) != []


def test_seed_003_changing_the_spec_tries_again_after_a_missing_runtime():
    job = trainjob()
    job["metadata"]["generation"] = 2
    missing = {**condition("Failed", reason="RuntimeNotFound"), "observedGeneration": 1}
    job["status"] = {"conditions": [missing]}
    plan = lifecycle.decide(world(job, runtime=runtime()), OURS, NOW)
    assert plan.status[0].document["status"] == {}
    job["metadata"]["generation"] = 1
    assert lifecycle.decide(world(job, runtime=runtime()), OURS, NOW).apply == ()


METRICS = [
    "controller_runtime_reconcile_total", "controller_runtime_reconcile_time_seconds",
    "controller_runtime_reconcile_errors_total", "workqueue_depth", "workqueue_adds_total", "workqueue_retries_total",
]  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_seed_003_metrics_have_the_seeds_names(name):
    assert metrics
    known = {metric.name for metric in REGISTRY.collect()}
    assert name.removesuffix("_total") in known or name in known


def test_every_shipped_runtime_says_what_it_promises():
    assert all(document["kind"] == "ClusterTrainingRuntime" for document in SHIPPED.values())
