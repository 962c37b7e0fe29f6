"""PyTorchJobs and MPIJobs run as their operators ran them, and become TrainJobs."""

import copy

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.jobs.legacy import mpi, mpirules, torchpods
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
        rows = {name: _counts(row) for name, row in status.get("replicaStatuses", {}).items()}
        rows = [f"{name}:{row}" for name, row in rows.items() if row]
        return " ".join([*rows, *(c["type"] for c in status["conditions"] if c["status"] == "True")]).replace("'", "")


def _counts(row):
    return {key: value for key, value in row.items() if key != "selector"}


def replica(count, container="pytorch", **spec):
    return {
        "replicas": count,
        "template": {"spec": {"containers": [{"name": container, "image": "i", "command": ["t"]}]}},
        **spec,
    }


def torch_job(workers=1, policy=None, **replicas):
    specs = {"Master": replica(1, **replicas), "Worker": replica(workers, **replicas)}
    return {"metadata": {"name": "x"}, "spec": {"pytorchReplicaSpecs": specs, "runPolicy": policy or {}}}


def workers_only(count, policy=None, **spec):
    return {
        "metadata": {"name": "x"},
        "spec": {"pytorchReplicaSpecs": {"Worker": replica(count)}, "runPolicy": policy or {}, **spec},
    }


def mpi_job(policy=None, launcher=None, worker=None, **spec):
    specs = {"Launcher": replica(1, "mpi") | (launcher or {}), "Worker": replica(2, "mpi") | (worker or {})}
    return {"metadata": {"name": "x"}, "spec": {"mpiReplicaSpecs": specs, "runPolicy": policy or {}, **spec}}


TORCH = {
    "pods that wait count for nothing": (torch_job(2), "", "Created"),
    "a running master is a running job": (
        torch_job(),
        "x-:run",
        "Master:{active: 1} Worker:{active: 1} Created Running",
    ),
    "running workers are not": (torch_job(), "x-worker:run", "Worker:{active: 1} Created"),
    "without a master they are": (workers_only(2), "x-:run", "Worker:{active: 2} Created Running"),
    "the master decides": (
        torch_job(),
        "x-:run x-master:exit",
        "Master:{succeeded: 1} Worker:{succeeded: 1} Created Succeeded",
    ),
    "without a master all workers do": (workers_only(2), "x-:run x-worker-0:exit", "Worker:{active: 1, succeeded: 1} "
        "Created Running"),
    "of ranks that come and go one is enough": (
        workers_only(2, elasticPolicy={"minReplicas": 1}),
        "x-:run x-worker-1:exit",
        "Worker:{succeeded: 2} Created Succeeded",
    ),
    "a failure that may be tried again is": (
        torch_job(),
        "x-master:run x-worker:exit/1",
        "Master:{active: 1} Created Running",
    ),
    "and the job runs again when it is": (
        torch_job(),
        "x-:run x-worker:exit/1 x-worker:run",
        "Master:{active: 1} Worker:{active: 1} Created Running",
    ),
    "one that may not ends it": (
        torch_job(restartPolicy="Never"),
        "x-:run x-worker:exit/1",
        "Master:{active: 1} Worker:{failed: 1} Created Failed",
    ),
    "an exit code below 128 ends it": (
        torch_job(restartPolicy="ExitCode"),
        "x-:run x-worker:exit/2",
        "Master:{active: 1} Worker:{failed: 1} Created Failed",
    ),
    "a signal does not": (
        torch_job(restartPolicy="ExitCode"),
        "x-worker:exit/137",
        "Created Restarting",
    ),
    "a suspended job has no pods": (torch_job(policy={"suspend": True}), "", "Created Suspended"),
    "a deadline ends it": (
        torch_job(policy={"activeDeadlineSeconds": 9}),
        "x-:run +9",
        "Master:{active: 1} Worker:{active: 1} Created Failed",
    ),
    "restarts have a limit": (
        torch_job(policy={"backoffLimit": 2}),
        "x-:run x-worker:run/2",
        "Master:{active: 1} Worker:{active: 1} Created Failed",
    ),
    "a limit of none allows no failure": (
        torch_job(policy={"backoffLimit": 0}),
        "x-:run x-worker:exit/1",
        "Master:{active: 1} Worker:{active: 1} Created Failed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "script", "want"), TORCH.values(), ids=TORCH)
def test_a_pytorchjob(document, script, want):
    assert Old().add(kinds.PYTORCH_JOB, document).settle().act(script).told(kinds.PYTORCH_JOB) == want


def said(world):
    return [event.message for event in world.events if not event.message.startswith(("Created", "Deleted", "Pod:"))]


def test_words_about_a_pytorchjob_are_the_operators():
    world = Old().add(kinds.PYTORCH_JOB, torch_job()).settle().act("x-:run x-worker:exit/1 x-:run x-master:exit")
    assert said(world) == [
        "job x is restarting because Worker replica(s) failed.",
        "PyTorchJob x is restarting because 1 Worker replica(s) failed.",
        "PyTorchJob x is successfully completed.",
    ]
    world = Old().add(kinds.PYTORCH_JOB, workers_only(1)).settle().act("x-:run x-:exit")
    assert said(world) == ["PyTorchJob ns/x successfully completed."]


#                 pods left                      services left
CLEAN = {
    "None":    (["x-master-0", "x-worker-0"], ["x-master-0", "x-worker-0"]),
    "Running": (["x-master-0"],               ["x-master-0"]),
    "All":     ([],                           []),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "pods", "services"), [(key, *rest) for key, rest in CLEAN.items()], ids=CLEAN)
def test_a_finished_job_is_cleaned_as_asked(policy, pods, services):
    world = Old().add(kinds.PYTORCH_JOB, torch_job(policy={"cleanPodPolicy": policy})).settle()
    world.act("x-:run x-master:exit reap")
    assert [pod["metadata"]["name"] for pod in world.pods()] == pods
    assert sorted(key.name for key in world.kinds[kinds.SERVICE]) == services


def test_a_pytorchjob_sleeps_and_starts_anew():
    world = Old().add(kinds.PYTORCH_JOB, torch_job(policy={"activeDeadlineSeconds": 9})).settle().act("x-:run +5")
    world.edit(kinds.PYTORCH_JOB, "x", "spec", "runPolicy", "suspend", value=True).settle().act("reap")
    assert world.told(kinds.PYTORCH_JOB) == "Created Suspended" and world.pods() == []
    world.edit(kinds.PYTORCH_JOB, "x", "spec", "runPolicy", "suspend", value=False).settle().act("x-:run +5")
    assert world.told(kinds.PYTORCH_JOB) == "Master:{active: 1} Worker:{active: 1} Created Running"


def test_a_finished_pytorchjob_goes_in_time():
    world = Old().add(kinds.PYTORCH_JOB, torch_job(policy={"ttlSecondsAfterFinished": 5})).settle()
    world.act("x-:run x-master:exit")
    assert Key("ns", "x") in world.kinds[kinds.PYTORCH_JOB]
    assert Key("ns", "x") not in world.act("+5").kinds[kinds.PYTORCH_JOB]


def test_replicas_know_their_place():
    job = {**torch_job(2), "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    env = torchpods.environment(job, "Worker", 1)
    assert env["MASTER_ADDR"] == "x-master-0"
    assert (env["RANK"], env["WORLD_SIZE"], env["PET_NNODES"]) == ("2", "3", "3")
    assert env["PET_NPROC_PER_NODE"] == "auto"
    job["spec"]["nprocPerNode"] = "4"
    assert torchpods.environment(job, "Master", 0)["WORLD_SIZE"] == "12"
    assert torchpods.pod_of(job, "Master", 0)["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"


ELASTIC = {
    "nothing said means as many as there are": ({}, {"PET_NNODES": "2:2", "PET_RDZV_BACKEND": "c10d"}),
    "a least number is the most, too": ({"minReplicas": 1}, {"PET_NNODES": "1:1"}),
    "both are a range": ({"minReplicas": 1, "maxReplicas": 4}, {"PET_NNODES": "1:4"}),
    "they meet at the first worker": ({}, {"PET_RDZV_ENDPOINT": "x-worker-0:23456"}),
    "or where they are told": ({"rdzvHost": "h", "rdzvPort": 9}, {"PET_RDZV_ENDPOINT": "h:9"}),
    "settings are joined": (
        {"rdzvConf": [{"key": "a", "value": "b"}, {"key": "c", "value": "d"}]},
        {"PET_RDZV_CONF": "a=b,c=d"},
    ),
    "the rest is passed on": (
        {"rdzvId": "i", "maxRestarts": 3, "nProcPerNode": 2},
        {"PET_RDZV_ID": "i", "PET_MAX_RESTARTS": "3", "PET_NPROC_PER_NODE": "2"},
    ),
}


@pytest.mark.parametrize(("policy", "want"), ELASTIC.values(), ids=ELASTIC)
def test_ranks_that_come_and_go_know_where_to_meet(policy, want):
    env = torchpods.environment(workers_only(2, elasticPolicy=policy), "Worker", 1)
    assert {key: env[key] for key in want} == want


def test_a_service_has_every_named_port():
    job = torch_job()
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"name": "web", "containerPort": 80}, {"containerPort": 81}]
    job["metadata"] |= {"namespace": "ns", "uid": "u"}
    service = torchpods.service_of({**job, "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}, "Master", 0)
    assert service["spec"]["ports"] == [{"name": "web", "port": 80}, {"name": "pytorchjob-port", "port": 23456}]


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
    assert world.told(kinds.MPI_JOB) == "Launcher:{succeeded: 1} Created Succeeded"


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
    assert world.told(kinds.MPI_JOB) == "Launcher:{failed: 1} Created Failed"
    assert [pod["metadata"]["name"][:10] for pod in world.pods()] == ["x-launcher"]


def test_why_a_launcher_failed_is_told_with_its_last_words():
    world = Old().add(kinds.MPI_JOB, mpi_job(policy={"backoffLimit": 0})).settle().act("x-:run x-launcher:exit/1")
    (failed,) = [c for c in world.kinds[kinds.MPI_JOB][Key("ns", "x")]["status"]["conditions"] if c["type"] == "Failed"]
    assert failed["reason"] == "BackoffLimitExceeded/"
    assert failed["message"] == "Job has reached the specified backoff limit: "


def test_an_evicted_worker_fails_the_job():
    world = Old().add(kinds.MPI_JOB, mpi_job()).settle().act("x-:run")
    evicted = {"phase": "Failed", "reason": "Evicted"}
    world.edit(kinds.POD, "x-worker-0", "status", value=evicted).settle()
    assert world.told(kinds.MPI_JOB) == "Worker:{active: 1, failed: 1} Launcher:{active: 1} Created Failed"
    assert "1/2 workers are evicted" in said(world)


def test_workers_find_the_launcher_and_restart_as_told():
    job = {**mpi_job(), "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}
    job["metadata"] = {"name": "x", "namespace": "ns", "uid": "u"}
    worker, launcher = mpi.worker_of(job, 1), mpi.launcher_of(job, suspend=False)["spec"]["template"]
    assert worker["spec"]["dnsConfig"] == {"searches": ["x.ns.svc.cluster.local"]}
    assert worker["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "1"
    assert (worker["spec"]["restartPolicy"], launcher["spec"]["restartPolicy"]) == ("Never", "OnFailure")
    assert {"name": "OMPI_MCA_orte_set_default_slots", "value": "1"} in launcher["spec"]["containers"][0]["env"]


WORKER = "spec.mpiReplicaSpecs[Worker]"
WRONG = {
    "nothing": (mpi_job(), ""),
    "no workers": (
        mpi_job(worker={"replicas": 0}),
        f"{WORKER}.replicas: Invalid value: 0: must be greater than or equal to 1",
    ),
    "two launchers": (
        mpi_job(launcher={"replicas": 2}),
        "spec.mpiReplicaSpecs[Launcher].replicas: Invalid value: 2: must be 1",
    ),
    "a policy of another operator": (
        mpi_job(worker={"restartPolicy": "ExitCode"}),
        f'{WORKER}.restartPolicy: Unsupported value: "ExitCode": supported values: "Never", "OnFailure"',
    ),
    "a negative limit": (
        mpi_job(policy={"backoffLimit": -1}),
        "spec.runPolicy.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
    ),
    "an unknown clean-up": (
        mpi_job(policy={"cleanPodPolicy": "Some"}),
        'spec.runPolicy.cleanPodPolicy: Unsupported value: "Some": supported values: "All", "None", "Running"',
    ),
    "two things at once": (
        mpi_job(policy={"backoffLimit": -1}, slotsPerWorker=-2),
        "[spec.slotsPerWorker: Invalid value: -2: must be greater than or equal to 0, "
        "spec.runPolicy.backoffLimit: Invalid value: -1: must be greater than or equal to 0]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "want"), WRONG.values(), ids=WRONG)
def test_an_mpijob_that_cannot_run_is_told_so_and_left_alone(document, want):
    assert mpirules.complaint(document) == (f"Found validation errors: {want}" if want else "")
    world = Old().add(kinds.MPI_JOB, document).settle()
    assert bool(world.pods()) == (not want)


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
    for role in document["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["nodeSelector"] = {"zone": "a"}
    result = convert(document)
    spec = result.job["spec"]
    assert spec["runtimeRef"] == {"name": "torch-distributed"}
    assert spec["trainer"] == {"numNodes": 4, "numProcPerNode": 2, "image": "i", "command": ["t"]}
    assert spec["runtimePatches"][0]["manager"] == "aboard.dev/convert"
    assert result.lost == []


@pytest.mark.parametrize(
    ("family", "runtime"),
    [(None, "mpi-distributed"), ("Intel", "mpi-distributed-intel"), ("MPICH", "mpi-distributed-mpich")],
)
def test_an_mpijob_becomes_a_trainjob_of_its_family(family, runtime):
    stated = {"mpiImplementation": family} if family else {}
    result = convert({**mpi_job(slotsPerWorker=2, **stated), "kind": "MPIJob"})
    assert (result.job["spec"]["runtimeRef"]["name"], result.lost) == (runtime, [])
    assert (result.job["spec"]["trainer"]["numNodes"], result.job["spec"]["trainer"]["numProcPerNode"]) == (2, 2)


def test_a_launcher_that_works_is_one_node_more():
    result = convert({**mpi_job(runLauncherAsWorker=True), "kind": "MPIJob"})
    assert result.job["spec"]["trainer"]["numNodes"] == 3


def test_launcher_and_workers_are_patched_each_as_they_were():
    document = {**mpi_job(), "kind": "MPIJob"}
    specs = document["spec"]["mpiReplicaSpecs"]
    specs["Launcher"]["template"]["spec"]["nodeSelector"] = {"pool": "login"}
    specs["Worker"]["template"]["spec"]["nodeSelector"] = {"pool": "gpu"}
    jobs = convert(document).job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"][
        "replicatedJobs"
    ]
    pods = {job["name"]: job["template"]["spec"]["template"]["spec"]["nodeSelector"]["pool"] for job in jobs}
    assert pods == {"node": "gpu", "launcher": "login"}


def test_the_queue_of_a_legacy_job_is_its_trainjobs():
    document = {**torch_job(policy={"schedulingPolicy": {"queue": "vision", "minAvailable": 2}}), "kind": "PyTorchJob"}
    result = convert(document)
    assert result.job["metadata"]["labels"] == {"kai.scheduler/queue": "vision"}
    assert result.lost == ["spec.runPolicy.schedulingPolicy.minAvailable: a TrainJob takes this from its runtime"]


def at(document, path, value):
    """A copy of the manifest that says one thing more."""
    document = copy.deepcopy(document)
    place = document
    *way, last = path.split(".")
    for step in way:
        place = place[int(step)] if step.isdecimal() else place.setdefault(step, {})
    place[last] = value
    return document


TORCH_WORKER, MPI_LAUNCHER = "spec.pytorchReplicaSpecs.Worker", "spec.mpiReplicaSpecs.Launcher"
LOST = {
    "a retry limit": ("spec.runPolicy.backoffLimit", 3),
    "what is cleaned": ("spec.runPolicy.cleanPodPolicy", "Running"),
    "who manages it": ("spec.runPolicy.managedBy", "kueue.x-k8s.io/multikueue"),
    "ranks that come and go": ("spec.elasticPolicy", {"minReplicas": 1}),
    "a restart policy": (f"{TORCH_WORKER}.restartPolicy", "OnFailure"),
    "a field of the pod": (f"{TORCH_WORKER}.template.spec.hostNetwork", True),
    "a priority": (f"{TORCH_WORKER}.template.spec.priorityClassName", "high"),
    "init containers": (f"{TORCH_WORKER}.template.spec.initContainers", [{"name": "i"}]),
    "a field nobody knows": ("spec.unheardOf", 1),
}


@pytest.mark.parametrize(("path", "value"), LOST.values(), ids=LOST)
def test_what_a_trainjob_has_no_place_for_is_said_by_name(path, value):
    (said,) = convert(at({**torch_job(), "kind": "PyTorchJob"}, path, value)).lost
    assert said.startswith(f"{path}: ")


SAID = {
    "another container": (
        torch_job, "PyTorchJob", f"{TORCH_WORKER}.template.spec.containers",
        [{"name": "pytorch", "image": "i", "command": ["t"]}, {"name": "side"}],
        f'{TORCH_WORKER}: container "side" has no place in a TrainJob; make a runtime that has it'),
    "ports of the container": (
        torch_job, "PyTorchJob", f"{TORCH_WORKER}.template.spec.containers.0.ports", [{"containerPort": 1}],
        f"{TORCH_WORKER}.template.spec.containers.ports: has no place in a TrainJob; make a runtime that has it"),
    "a master of its own kind": (
        torch_job, "PyTorchJob", "spec.pytorchReplicaSpecs.Master.template.spec.nodeSelector", {"a": "b"},
        "spec.pytorchReplicaSpecs.Master differs from Worker in nodeSelector; every node of a TrainJob is the same"),
    "workers with an image of their own": (
        mpi_job, "MPIJob", "spec.mpiReplicaSpecs.Worker.template.spec.containers.0.image", "w",
        "spec.mpiReplicaSpecs.Worker differs in image; every node of a TrainJob is the same"),
    "a launcher with resources of its own": (
        mpi_job, "MPIJob", f"{MPI_LAUNCHER}.template.spec.containers.0.resources", {"limits": {"cpu": "1"}},
        f"{MPI_LAUNCHER} differs in resources; every node of a TrainJob is the same"),
    "a family nobody ships": (
        mpi_job, "MPIJob", "spec.mpiImplementation", "Spectrum",
        'spec.mpiImplementation: no shipped runtime speaks "Spectrum"; they speak OpenMPI, Intel, MPICH'),
}  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "path", "value", "want"), SAID.values(), ids=SAID)
def test_what_differs_inside_a_job_is_said(make, kind, path, value, want):
    assert convert(at({**make(), "kind": kind}, path, value)).lost == [want]


def test_other_kinds_are_refused_by_name():
    with pytest.raises(NotConvertible, match='kind "TFJob" cannot be converted'):
        convert({"kind": "TFJob", "metadata": {"name": "x"}, "spec": {}})
