"""PyTorchJobs and MPIJobs run as their operators ran them, and become TrainJobs."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.jobs.legacy import mpi, pytorch
from allaboard.jobs.legacy.controller import MpiJobController, PyTorchJobController
from allaboard.jobs.legacy.convert import NotConvertible, convert

from .world import World


class Old(World):
    def start_controllers(self):
        super().start_controllers()
        self.controllers += [PyTorchJobController(self, self), MpiJobController(self, self, lambda: 7)]

    def carry_out(self, controller, plan):
        for write in plan.apply:
            self.write()
            document = {**write.document, "metadata": {"uid": f"u{next(self.uids)}", **write.document["metadata"]}}
            self.put(write.kind, document)
        super().carry_out(controller, plan)

    def told(self, kind):
        status = self.kinds[kind][Key("ns", "x")]["status"]
        rows = [f"{name}:{row}" for name, row in status.get("replicaStatuses", {}).items() if row]
        return " ".join([*rows, *(c["type"] for c in status["conditions"] if c["status"] == "True")]).replace("'", "")


def replica(count, container="pytorch", **spec):
    return {
        "replicas": count,
        "template": {"spec": {"containers": [{"name": container, "image": "i", "command": ["t"]}]}},
        **spec,
    }


def torch_job(workers=1, policy=None, **replicas):
    specs = {"Master": replica(1, **replicas), "Worker": replica(workers, **replicas)}
    return {"metadata": {"name": "x"}, "spec": {"pytorchReplicaSpecs": specs, "runPolicy": policy or {}}}


def mpi_job(policy=None, **spec):
    specs = {"Launcher": replica(1, "mpi"), "Worker": replica(2, "mpi")}
    return {"metadata": {"name": "x"}, "spec": {"mpiReplicaSpecs": specs, "runPolicy": policy or {}, **spec}}


TORCH = {
    "every replica is a pod": (torch_job(2), "", "Master:{active: 1} Worker:{active: 2} Created"),
    "a running master is a running job": (
        torch_job(),
        "x-:run",
        "Master:{active: 1} Worker:{active: 1} Created Running",
    ),
    "the master decides": (
        torch_job(),
        "x-:run x-master:exit",
        "Master:{succeeded: 1} Worker:{succeeded: 1} Created Succeeded",
    ),
    "a failure that may be tried again is": (
        torch_job(),
        "x-worker:exit/1",
        "Master:{active: 1} Worker:{active: 1} Created Restarting",
    ),
    "one that may not ends it": (
        torch_job(restartPolicy="Never"),
        "x-worker:exit/1",
        "Master:{active: 1} Worker:{failed: 1} Created Failed",
    ),
    "an exit code below 128 ends it": (
        torch_job(restartPolicy="ExitCode"),
        "x-worker:exit/2",
        "Master:{active: 1} Worker:{failed: 1} Created Failed",
    ),
    "a signal does not": (
        torch_job(restartPolicy="ExitCode"),
        "x-worker:exit/137",
        "Master:{active: 1} Worker:{active: 1} Created Restarting",
    ),
    "a suspended job has no pods": (torch_job(policy={"suspend": True}), "", "Created Suspended"),
    "a deadline ends it": (
        torch_job(policy={"activeDeadlineSeconds": 9}),
        "x-:run +9",
        "Master:{active: 1} Worker:{active: 1} Created Failed",
    ),
    "restarts have a limit": (
        torch_job(policy={"backoffLimit": 2}),
        "x-worker:run/2",
        "Master:{active: 1} Worker:{active: 1} Created Failed",
    ),
}


@pytest.mark.parametrize(("document", "script", "want"), TORCH.values(), ids=TORCH)
def test_a_pytorchjob(document, script, want):
    assert Old().add(kinds.PYTORCH_JOB, document).settle().act(script).told(kinds.PYTORCH_JOB) == want


CLEAN = {"None": ["x-master-0", "x-worker-0"], "Running": ["x-master-0"], "All": []}


@pytest.mark.parametrize(("policy", "left"), CLEAN.items(), ids=CLEAN)
def test_a_finished_job_is_cleaned_as_asked(policy, left):
    world = Old().add(kinds.PYTORCH_JOB, torch_job(policy={"cleanPodPolicy": policy})).settle()
    world.act("x-:run x-master:exit reap")
    assert [pod["metadata"]["name"] for pod in world.pods()] == left


def test_replicas_know_their_place():
    job = {**torch_job(2), "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    env = pytorch.environment(job, "Worker", 1)
    assert env["MASTER_ADDR"] == "x-master-0"
    assert (env["RANK"], env["WORLD_SIZE"], env["PET_NNODES"]) == ("2", "3", "3")
    job["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 4, "rdzvConf": [{"key": "a", "value": "b"}]}
    env = pytorch.environment(job, "Worker", 1)
    assert (env["PET_NNODES"], env["PET_RDZV_ENDPOINT"], env["PET_RDZV_CONF"]) == ("1:4", "x-worker-0:23456", "a=b")
    assert pytorch.pod_of(job, "Master", 0)["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"


def test_an_mpijob_has_workers_keys_hosts_and_a_launcher():
    world = Old().add(kinds.MPI_JOB, mpi_job(slotsPerWorker=4)).settle()
    assert [pod["metadata"]["name"][:10] for pod in world.pods()] == ["x-launcher", "x-worker-0", "x-worker-1"]
    config = world.kinds[kinds.CONFIG_MAP][Key("ns", "x-config")]["data"]
    assert config["hostfile"] == "x-worker-0.x.ns.svc slots=4\nx-worker-1.x.ns.svc slots=4\n"
    assert set(world.kinds[kinds.SECRET][Key("ns", "x-ssh")]["data"]) == {"ssh-privatekey", "ssh-publickey"}
    world.act("x-:run")
    assert "Running" in world.told(kinds.MPI_JOB)
    script = world.kinds[kinds.CONFIG_MAP][Key("ns", "x-config")]["data"]["discover_hosts.sh"]
    assert script == "#!/bin/sh\necho x-worker-0.x.ns.svc\necho x-worker-1.x.ns.svc\n"
    world.act("x-launcher:exit")
    assert world.told(kinds.MPI_JOB) == "Launcher:{succeeded: 1} Worker:{succeeded: 2} Created Succeeded"


def test_a_launcher_may_wait_for_its_workers():
    world = Old().add(kinds.MPI_JOB, mpi_job(launcherCreationPolicy="WaitForWorkersReady")).settle()
    assert not world.kinds[kinds.JOB]
    assert world.act("x-worker:run").kinds[kinds.JOB]


def test_a_suspended_mpijob_sleeps_and_wakes():
    world = Old().add(kinds.MPI_JOB, mpi_job(policy={"suspend": True})).settle()
    assert world.pods() == []
    world.edit(kinds.MPI_JOB, "x", "spec", "runPolicy", "suspend", value=False).settle()
    assert len(world.pods()) == 3


def test_a_failed_launcher_fails_the_job_and_workers_are_cleaned():
    document = mpi_job(policy={"backoffLimit": 0, "cleanPodPolicy": "Running"})
    world = Old().add(kinds.MPI_JOB, document).settle().act("x-:run x-launcher:exit/1 reap")
    assert world.told(kinds.MPI_JOB) == "Launcher:{failed: 1} Worker:{active: 2} Created Failed"
    assert [pod["metadata"]["name"][:10] for pod in world.pods()] == ["x-launcher"]


def test_implementations_have_their_own_environment():
    for name, variable in (
        ("OpenMPI", "OMPI_MCA_orte_default_hostfile"),
        ("Intel", "I_MPI_HYDRA_HOST_FILE"),
        ("MPICH", "HYDRA_HOST_FILE"),
    ):
        job = {**mpi_job(mpiImplementation=name), "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}
        job["metadata"] = {"name": "x", "namespace": "ns", "uid": "u"}
        container = mpi.launcher_of(job, suspend=False)["spec"]["template"]["spec"]["containers"][0]
        assert {"name": variable, "value": "/etc/mpi/hostfile"} in container["env"]


def test_a_pytorchjob_becomes_a_trainjob():
    document = {**torch_job(3), "kind": "PyTorchJob"}
    document["spec"]["nprocPerNode"] = "2"
    document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    result = convert(document)
    spec = result.job["spec"]
    assert spec["runtimeRef"] == {"name": "torch-distributed"}
    assert spec["trainer"] == {"numNodes": 4, "numProcPerNode": 2, "image": "i", "command": ["t"]}
    assert spec["runtimePatches"][0]["manager"] == "aboard.dev/convert"
    assert result.lost == []


def test_an_mpijob_becomes_a_trainjob_and_says_what_it_lost():
    result = convert({**mpi_job(slotsPerWorker=2, mpiImplementation="Intel"), "kind": "MPIJob"})
    assert result.job["spec"]["trainer"]["numNodes"] == 2
    assert result.lost == ["spec.mpiImplementation: a TrainJob takes this from its runtime"]


def test_other_kinds_are_refused_by_name():
    with pytest.raises(NotConvertible, match='kind "TFJob" cannot be converted'):
        convert({"kind": "TFJob", "metadata": {"name": "x"}, "spec": {}})
