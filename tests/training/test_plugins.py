"""One framework or scheduler at a time: what its plugin does to pods, and when it keeps still."""

import pytest

from allaboard.api import kinds
from allaboard.training.facts import Facts, Settings
from allaboard.training.framework import OURS
from allaboard.training.job import TrainJob
from allaboard.training.plugins.mpi import UnknownImplementation
from allaboard.training.plugins.progress import NoAuthority
from allaboard.training.plugins.torch import UnknownTarget
from tests.training.world import (
    build,
    container,
    env,
    existing_job_set,
    job_set,
    mpi_runtime,
    of_kind,
    pod,
    replicated,
    runtime,
    size,
    trainjob,
    tune_runtime,
)  # fmt: skip

GPUS = {"limits": {"nvidia.com/gpu": "4"}}
SIDE = [{"name": "node"}, {"name": "monitor"}]


@pytest.mark.parametrize("policy", [{}, {"torch": {}}, {"jax": {}}, {"xgboost": {}}, {"flux": {}}], ids=str)
def test_nodes_of_the_trainjob_count_before_those_of_the_runtime(policy):
    source = runtime({"numNodes": 3, **policy})
    assert (size(job_set(source, trainjob({}))), size(job_set(source, trainjob({"numNodes": 7})))) == (3, 7)


@pytest.mark.parametrize("policy", [{}, {"torch": {}}, {"jax": {}}, {"xgboost": {}}, {"flux": {}}], ids=str)
def test_the_trainjobs_words_reach_its_container(policy):
    job = trainjob({"image": "mine:1", "env": [{"name": "LR", "value": "1"}], "resourcesPerNode": GPUS})
    built = job_set(runtime({"numNodes": 1, **policy}), job)
    assert container(built)["image"] == "mine:1"
    assert container(built)["resources"] == GPUS
    assert env(built)["LR"] == "1"


def test_an_explicit_empty_list_clears_the_templates_arguments():
    source = runtime({}, replicated(containers=[{"name": "node", "command": ["a"], "args": ["b"]}]))
    assert container(job_set(source, trainjob({"args": []})))["args"] == []
    assert container(job_set(source, trainjob({})))["args"] == ["b"]


def test_torch_tells_further_containers_too():
    targets = {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["monitor", "check"]}]}}
    source = runtime({"numNodes": 2, "torch": targets}, replicated(containers=SIDE, initContainers=[{"name": "check"}]))
    built = job_set(source, trainjob())
    assert env(built, name="monitor")["PET_MASTER_ADDR"] == "run-node-0-0.run"
    assert {entry["name"] for entry in pod(built)["initContainers"][0]["env"]} >= {"PET_NNODES", "PET_MASTER_PORT"}


def test_torch_says_which_container_is_missing():
    targets = {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["ghost"]}]}}
    with pytest.raises(UnknownTarget, match='podSet "node" container "ghost" not found'):
        job_set(runtime({"torch": targets}), trainjob())


RECIPES = {
    "one device": ({"numProcPerNode": 1}, "full_finetune_single_device", "llama3_2/1B_full_single_device"),
    "one device, LoRA": (
        {"numProcPerNode": 1, "args": ["model.lora_attn_modules=[q]"]},
        "lora_finetune_single_device",
        "llama3_2/1B_lora_single_device",
    ),
    "one device, QLoRA": (
        {"numProcPerNode": 1, "args": ["model.quantize_base=true"]},
        "lora_finetune_single_device",
        "llama3_2/1B_qlora_single_device",
    ),
    "several devices": ({}, "full_finetune_distributed", "llama3_2/1B_full"),
    "several devices, LoRA": (
        {"args": ["model.lora_attn_modules=[q]"]},
        "lora_finetune_distributed",
        "llama3_2/1B_lora",
    ),
    "several nodes": ({"numNodes": 2}, "full_finetune_distributed", "llama3_2/1B_full_multinode"),
}


@pytest.mark.parametrize(("trainer", "recipe", "config"), RECIPES.values(), ids=RECIPES)
def test_torchtune_chooses_recipe_and_configuration(trainer, recipe, config):
    job = trainjob({"command": ["tune", "run"], **trainer}, runtime="torchtune-llama3.2-1b")
    words = container(job_set(tune_runtime(), job))["command"]
    assert recipe in words
    assert words[words.index("--config") + 1] == config


def test_torchtune_leaves_other_commands_alone():
    job = trainjob({"command": ["tune", "cat"]}, runtime="torchtune-llama3.2-1b")
    assert container(job_set(tune_runtime(), job))["command"] == ["tune", "cat"]


JAX = {
    "one process a node": ({"numNodes": 2}, "2", None),
    "a number changes nothing": ({"numNodes": 2, "numProcPerNode": 4}, "2", None),
    "one process a GPU": ({"numNodes": 2, "numProcPerNode": "gpu", "resourcesPerNode": GPUS}, "8", "4"),
}


@pytest.mark.parametrize(("trainer", "processes", "local"), JAX.values(), ids=JAX)
def test_jax_counts_processes(trainer, processes, local):
    found = env(job_set(runtime({"jax": {}}), trainjob(trainer)))
    assert (found["JAX_NUM_PROCESSES"], found.get("JAX_LOCAL_PROCESSES")) == (processes, local)


def test_the_users_own_jax_variables_win():
    job = trainjob({"env": [{"name": "JAX_NUM_PROCESSES", "value": "9"}]})
    assert env(job_set(runtime({"jax": {}}), job))["JAX_NUM_PROCESSES"] == "9"


def test_xgboost_counts_a_worker_per_gpu():
    job = trainjob({"numNodes": 2, "resourcesPerNode": GPUS})
    assert env(job_set(runtime({"xgboost": {}}), job))["DMLC_NUM_WORKER"] == "8"


def test_an_unknown_mpi_family_is_refused_with_those_known():
    with pytest.raises(UnknownImplementation, match='"MVAPICH" is not supported; one of: OpenMPI, Intel, MPICH'):
        build(mpi_runtime(implementation="MVAPICH"), trainjob())


def test_a_runtime_with_its_own_worker_image_keeps_it():
    source = mpi_runtime()
    source["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0][
        "image"
    ] = "sshd:1"
    built = job_set(source, trainjob({"numNodes": 2, "image": "mine:2"}))
    assert [container(built, job)["image"] for job in ("node", "launcher")] == ["sshd:1", "mine:2"]


def test_ssh_keys_go_where_the_runtime_says():
    source = mpi_runtime()
    source["spec"]["mlPolicy"]["mpi"]["sshAuthMountPath"] = "/home/mpiuser/.ssh"
    mounts = container(job_set(source, trainjob({"numNodes": 2})), "node")["volumeMounts"]
    assert mounts == [{"name": "mpi-ssh-auth", "mountPath": "/home/mpiuser/.ssh"}]


FLUX = {
    "ours": ({}, "tcp://eth0:%p", "fcfs"),
    "the runtime's": ({"FLUX_NETWORK_DEVICE": "hsn0"}, "tcp://hsn0:%p", "fcfs"),
}


@pytest.mark.parametrize(("own", "bind", "policy"), FLUX.values(), ids=FLUX)
def test_flux_is_set_up_by_variables(own, bind, policy):
    variables = [{"name": name, "value": value} for name, value in own.items()]
    source = runtime({"flux": {}}, replicated(containers=[{"name": "node", "env": variables}]))
    script = of_kind(build(source, trainjob({})), "ConfigMap")["data"]["init.sh"]
    assert f'default_bind = "{bind}"' in script
    assert f'queue-policy = "{policy}"' in script


def test_flux_hosts_follow_the_subdomain():
    source = runtime({"flux": {}}, template={"network": {"subdomain": "mesh"}})
    script = of_kind(build(source, trainjob({"numNodes": 3})), "ConfigMap")["data"]["init.sh"]
    assert 'default_connect = "tcp://%h.mesh.team-a.svc.cluster.local:%p"' in script
    assert "hosts='run-node-0-[0-2]'" in script


def gang(policy, *jobs, **template):
    return runtime(None, *jobs, podGroupPolicy=policy, template=template)


def test_a_pod_group_is_made_once_and_again_while_suspended():
    source, group = gang({"coscheduling": {}}), of_kind(build(gang({"coscheduling": {}}), trainjob()), "PodGroup")
    assert of_kind(build(source, trainjob(), group), "PodGroup") is None
    assert of_kind(build(source, trainjob(suspend=True), group), "PodGroup") == group


def test_volcano_takes_queue_priority_and_topology():
    source = gang(
        {"volcano": {"networkTopology": {"mode": "soft", "highestTierAllowed": 2}}},
        replicated(priorityClassName="high"),
    )
    source["spec"]["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": "vision"}}
    objects = build(source, trainjob({"numNodes": 2}))
    assert of_kind(objects, "PodGroup")["spec"] == {
        "minMember": 2,
        "queue": "vision",
        "priorityClassName": "high",
        "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
    }
    template = of_kind(objects, "JobSet")["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"scheduling.k8s.io/group-name": "run"}


WAITS = [{"name": "first", "status": "Complete"}]
GANGS = {
    "all start together": ([replicated("first", None), replicated()], {}, 2),
    "one waits for the other": ([replicated("first", None), {**replicated(), "dependsOn": WAITS}], {}, 1),
    "in order": ([replicated("first", None), replicated()], {"startupPolicy": {"startupPolicyOrder": "InOrder"}}, 1),
}


@pytest.mark.parametrize(("jobs", "template", "members"), GANGS.values(), ids=GANGS)
def test_a_gang_is_the_trainers_phase(jobs, template, members):
    group = of_kind(build(gang({"coscheduling": {}}, *jobs, **template), trainjob()), "PodGroup")
    assert group["spec"]["minMember"] == members


def test_progress_is_told_to_every_container_of_the_trainer():
    source = runtime(None, replicated("side", None), replicated(containers=SIDE))
    built = of_kind(build(source, trainjob(), gates=frozenset({"TrainJobStatus"})), "JobSet")
    for name in ("node", "monitor"):
        assert env(built, name=name)["KUBEFLOW_TRAINER_SERVER_URL"] == (
            "https://kubeflow-trainer-controller-manager.kubeflow-system.svc:10443"
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/run/status"
        )
    assert env(built, "side") == {}
    token = pod(built)["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]
    assert token["audience"] == "trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/run/status"


def test_progress_needs_a_certificate_to_trust():
    facts = Facts(settings=Settings(gates=frozenset({"TrainJobStatus"})))
    with pytest.raises(NoAuthority, match=r"has no .ca"):
        OURS.build(runtime(), TrainJob(trainjob()), facts)


INPUT = {"storageUri": "s3://b/x", "env": [{"name": "REGION", "value": "eu"}], "secretRef": {"name": "keys"}}


def test_initializers_are_told_what_to_fetch():
    job = trainjob(initializer={"dataset": INPUT}, runtime="torchtune-llama3.2-1b")
    built = job_set(tune_runtime(), job)
    found = container(built, "dataset-initializer", "dataset-initializer")
    assert env(built, "dataset-initializer", "dataset-initializer") == {"STORAGE_URI": "s3://b/x", "REGION": "eu"}
    assert found["envFrom"] == [{"secretRef": {"name": "keys"}}]
    model = env(built, "model-initializer", "model-initializer")
    assert model == {"STORAGE_URI": "hf://meta-llama/Llama-3.2-1B-Instruct"}


def test_labelled_jobs_run_once():
    source = runtime(None, {**replicated(), "replicas": 3})
    assert job_set(source, trainjob())["spec"]["replicatedJobs"][0]["replicas"] == 1


def test_a_running_jobset_is_not_built_again():
    assert of_kind(build(runtime(), trainjob(), existing_job_set()), "JobSet") is None
    assert kinds.JOB_SET.kind == "JobSet"
