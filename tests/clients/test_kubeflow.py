"""The kubeflow SDK, unmodified: every call a user of TrainerClient makes, with nothing but a kubeconfig."""

import shutil
import subprocess
import sys
import warnings

import pytest
import yaml

from tests.clients.objects import config_map, package, until
from tests.patience import PATIENCE

package("kubeflow.trainer")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kubeflow.common.types import KubernetesBackendConfig
    from kubeflow.trainer import (
        BuiltinTrainer,
        CustomTrainer,
        CustomTrainerContainer,
        HuggingFaceDatasetInitializer,
        Initializer,
        TorchTuneConfig,
        TrainerClient,
    )
    from kubeflow.trainer.options import (
        ActiveDeadlineSeconds,
        Annotations,
        ContainerPatch,
        JobSetSpecPatch,
        JobSetTemplatePatch,
        JobSpecPatch,
        JobTemplatePatch,
        Labels,
        Name,
        PodSpecPatch,
        PodTemplatePatch,
        ReplicatedJobPatch,
        RuntimePatch,
        TrainerArgs,
        TrainerCommand,
        TrainingRuntimeSpecPatch,
    )
    from kubernetes import client as kubernetes

FRAMEWORKS = {"torch-distributed": "torch", "plain": "plain", "jax-distributed": "jax", "mpi-distributed": "mpi"}
QUICK = {"polling_interval": 1, "timeout": PATIENCE}


@pytest.fixture(scope="module")
def client(kubeconfig):
    return TrainerClient(KubernetesBackendConfig(config_file=kubeconfig))


@pytest.fixture(scope="module")
def custom(client):
    return client.backend.custom_api


def says(word):
    print("says", word, flush=True)


def fails():
    print("about to fail", flush=True)
    raise SystemExit(3)


def waits():
    import time

    print("waiting", flush=True)
    time.sleep(6000)


def tells():
    import os

    from kubeflow.trainer.backends.kubernetes.utils import update_trainjob_status

    print("told", update_trainjob_status(progress_percent=50, metrics={"loss": 0.5}), os.getpid() > 0, flush=True)


def finished(client, name, status="Complete"):
    return client.wait_for_job_status(name, {status}, **QUICK)


def stored(custom, name):
    return custom.get_namespaced_custom_object("trainer.kubeflow.org", "v1alpha1", "default", "trainjobs", name)


FIRST_STEPS = """
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import TrainerClient
for client in (TrainerClient(), TrainerClient(KubernetesBackendConfig(context="aboard"))):
    print(client.backend.namespace, "torch-distributed" in [runtime.name for runtime in client.list_runtimes()])
"""


def test_the_client_needs_nothing_but_a_kubeconfig_and_has_nothing_to_warn_of(person, kubeconfig):
    environment = {**person.environment, "KUBECONFIG": kubeconfig}
    command = [sys.executable, "-c", FIRST_STEPS]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert (said.stdout, said.stderr) == ("default True\ndefault True\n", "")


def test_every_shipped_runtime_can_be_read(client):
    found = {runtime.name: runtime for runtime in client.list_runtimes()}
    assert {name: found[name].trainer.framework for name in FRAMEWORKS} == FRAMEWORKS
    assert found["torchtune-llama3.2-1b"].trainer.trainer_type.value == "BuiltinTrainer"
    one = client.get_runtime("torch-distributed")
    assert (one.name, one.trainer.num_nodes, one.kind.value) == ("torch-distributed", 1, "ClusterTrainingRuntime")
    assert one.trainer.command[0] == "bash" and "torchrun" in one.trainer.command[2]
    with pytest.raises(RuntimeError, match="Failed to get Runtime: nowhere"):
        client.get_runtime("nowhere")


def test_a_function_trains_on_two_nodes(client):
    trainer = CustomTrainer(func=says, func_args={"word": "hello"}, num_nodes=2, resources_per_node={"cpu": "100m"})
    name = client.train(runtime="plain", trainer=trainer)
    seen = []
    job = client.wait_for_job_status(name, callbacks=[lambda job: seen.append(job.status)], **QUICK)
    assert job.status == "Complete" and seen[-1] == "Complete"
    assert [(step.name, step.status, step.device) for step in sorted(job.steps, key=lambda step: step.name)] == [
        ("node-0", "Succeeded", "cpu"),
        ("node-1", "Succeeded", "cpu"),
    ]
    for step in ("node-0", "node-1"):
        assert list(client.get_job_logs(name, step=step)) == ["says hello"]
    assert list(client.get_job_logs(name, follow=True)) == ["says hello"]
    told = lambda: {(event.involved_object_kind, event.reason) for event in client.get_job_events(name)}
    until(lambda: {("Pod", "Scheduled"), ("Pod", "Started"), ("JobSet", "AllJobsCompleted")} <= told())
    assert [each.status for each in client.list_jobs() if each.name == name] == ["Complete"]
    assert name in [each.name for each in client.list_jobs(client.get_runtime("plain"))]
    assert name not in [each.name for each in client.list_jobs(client.get_runtime("torch-distributed"))]
    client.delete_job(name)
    with pytest.raises(RuntimeError, match="Failed to get TrainJob"):
        client.get_job(name)


def test_a_running_job_says_so_and_its_logs_are_followed(client):
    name = client.train(runtime="plain", trainer=CustomTrainer(func=waits, num_nodes=2))
    assert finished(client, name, "Running").num_nodes == 2
    assert next(client.get_job_logs(name, follow=True)) == "waiting"
    client.delete_job(name)


def test_a_failed_job_says_so(client):
    name = client.train(runtime="plain", trainer=CustomTrainer(func=fails))
    assert finished(client, name, "Failed").status == "Failed"
    assert "about to fail" in list(client.get_job_logs(name))
    with pytest.raises(RuntimeError, match="is Failed"):
        client.wait_for_job_status(name, **QUICK)


def test_every_option_reaches_the_pods(client, custom):
    patch = TrainingRuntimeSpecPatch(
        template=JobSetTemplatePatch(
            metadata={"labels": {"set": "mine"}},
            spec=JobSetSpecPatch(
                [
                    ReplicatedJobPatch(
                        "node",
                        JobTemplatePatch(
                            spec=JobSpecPatch(
                                PodTemplatePatch(
                                    metadata={"labels": {"pod": "mine"}},
                                    spec=PodSpecPatch(
                                        volumes=[{"name": "words", "configMap": {"name": "words"}}],
                                        containers=[
                                            ContainerPatch(
                                                "node", volume_mounts=[{"name": "words", "mountPath": "/words"}]
                                            )
                                        ],
                                    ),
                                )
                            )
                        ),
                    )
                ]
            ),
        )
    )
    client.backend.core_api.create_namespaced_config_map("default", config_map("words", word="mounted"))
    name = client.train(
        runtime="plain",
        options=[
            Name("optional"),
            Labels({"who": "me"}),
            Annotations({"note": "mine"}),
            TrainerCommand(["sh", "-c"]),
            TrainerArgs(["cat /words/word; echo"]),
            ActiveDeadlineSeconds(600),
            RuntimePatch(patch),
        ],
    )
    assert name == "optional" and finished(client, name).status == "Complete"
    assert list(client.get_job_logs(name)) == ["mounted"]
    document = stored(custom, name)
    assert (document["metadata"]["labels"]["who"], document["metadata"]["annotations"]["note"]) == ("me", "mine")
    assert document["spec"]["activeDeadlineSeconds"] == 600
    pods = client.backend.core_api.list_namespaced_pod("default", label_selector="pod=mine").items
    assert [pod.metadata.labels["jobset.sigs.k8s.io/jobset-name"] for pod in pods] == [name]


def test_a_container_of_ones_own(client):
    trainer = CustomTrainerContainer(image="python:3.11-slim", num_nodes=1, env={"WORD": "from the environment"})
    command = [TrainerCommand(["python3", "-c", "import os; print(os.environ['WORD'])"])]
    name = client.train(runtime="plain", trainer=trainer, options=command)
    finished(client, name)
    assert list(client.get_job_logs(name)) == ["from the environment"]


FETCHING = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: fetching, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
        - name: dataset-initializer
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
            spec:
              template:
                spec:
                  restartPolicy: Never
                  volumes: [{name: initializer, emptyDir: {}}]
                  containers:
                    - name: dataset-initializer
                      image: busybox
                      command: [sh, -c, "echo fetches $STORAGE_URI"]
                      volumeMounts: [{name: initializer, mountPath: /workspace}]
        - name: node
          dependsOn: [{name: dataset-initializer, status: Complete}]
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                spec:
                  restartPolicy: Never
                  volumes: [{name: initializer, emptyDir: {}}]
                  containers:
                    - name: node
                      image: python:3.11-slim
                      command: [echo, trains]
                      volumeMounts: [{name: initializer, mountPath: /workspace}]
"""


def test_an_initializer_is_a_step_with_logs(client, custom):
    runtimes = ("trainer.kubeflow.org", "v1alpha1", "default", "trainingruntimes")
    custom.create_namespaced_custom_object(*runtimes, yaml.safe_load(FETCHING))
    runtime = client.get_runtime("fetching")
    assert runtime.kind.value == "TrainingRuntime" and "fetching" in [each.name for each in client.list_runtimes()]
    wanted = Initializer(dataset=HuggingFaceDatasetInitializer(storage_uri="hf://some/where"))
    name = client.train(runtime=runtime, initializer=wanted)
    job = finished(client, name)
    assert {step.name: step.status for step in job.steps} == {"dataset-initializer": "Succeeded", "node-0": "Succeeded"}
    assert list(client.get_job_logs(name, step="dataset-initializer")) == ["fetches hf://some/where"]
    assert list(client.get_job_logs(name)) == ["trains"]


def test_a_builtin_trainer_becomes_a_torchtune_command(client, custom):
    trainer = BuiltinTrainer(config=TorchTuneConfig(epochs=2, batch_size=8, num_nodes=1))
    name = client.train(runtime="torchtune-llama3.2-1b", trainer=trainer)
    assert client.get_job(name).status == "Created"  # it waits for the model and for a GPU
    job = stored(custom, name)["spec"]["trainer"]
    assert job["command"] == ["tune", "run"] and {"epochs=2", "batch_size=8"} <= set(job["args"])
    client.delete_job(name)


def test_progress_told_from_inside_is_on_the_job(client, custom):
    name = client.train(
        runtime="plain", trainer=CustomTrainer(func=tells, env={"PYTHONPATH": ":".join(filter(None, sys.path))})
    )
    finished(client, name)
    assert list(client.get_job_logs(name))[-1:] == ["told True True"]
    told = stored(custom, name)["status"]["trainerStatus"]
    assert (told["progressPercentage"], told["metrics"]) == (50, [{"name": "loss", "value": "0.5"}])


def test_the_packages_of_a_runtime_are_printed(client, capsys):
    client.get_runtime_packages(client.get_runtime("plain"))
    said = capsys.readouterr().out
    assert f"Python: {sys.version_info.major}.{sys.version_info.minor}" in said and "pip" in said


def test_what_the_server_refuses_is_the_cause_of_what_the_sdk_raises(client):
    with pytest.raises(RuntimeError, match="Failed to create TrainJob") as caught:
        client.train(runtime="plain", trainer=CustomTrainer(func=says), options=[Name("Not A Name")])
    assert isinstance(caught.value.__cause__, kubernetes.ApiException) and caught.value.__cause__.status == 422


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("torchrun"), reason="no torchrun: pip install torch")
def test_the_default_runtime_trains_with_torchrun(client):
    def ranks():
        import torch.distributed as dist

        dist.init_process_group("gloo")
        print("rank", dist.get_rank(), "of", dist.get_world_size(), flush=True)

    name = client.train(trainer=CustomTrainer(func=ranks, num_nodes=2))
    client.wait_for_job_status(name, timeout=PATIENCE, polling_interval=1)
    assert list(client.get_job_logs(name)) == ["rank 0 of 2"]
    assert list(client.get_job_logs(name, step="node-1")) == ["rank 1 of 2"]


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("mpirun") or not shutil.which("sshd"), reason="apt-get install openmpi-bin openssh-server"
)
def test_an_mpi_runtime_has_its_launcher_as_first_node(client):
    name = client.train(
        runtime="mpi-distributed", trainer=CustomTrainer(func=says, func_args={"word": "x"}, num_nodes=2)
    )
    job = client.wait_for_job_status(name, timeout=PATIENCE, polling_interval=1)
    assert "node-0" in {step.name for step in job.steps}  # the workers go when the launcher is done
    assert list(client.get_job_logs(name)).count("says x") == 2
