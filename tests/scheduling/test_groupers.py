"""Each kind of workload becomes the gangs its family promises."""

import pytest

from allaboard.api import labels
from allaboard.api.documents import Key
from allaboard.scheduling.groupers import jobset as jobsets
from allaboard.scheduling.groupers.families import grouper_of
from allaboard.scheduling.groupers.leaderworker import GROUP_INDEX, WORKER_INDEX
from allaboard.scheduling.groupers.workload import CannotGroup, Workload

from .builders import jobset, jobset_pods, owned_by, pod, thing

ROLE = "training.kubeflow.org/replica-type"


def told(groups):
    """Gangs as text: name without uid, minimum, roles, members by role."""
    lines = []
    for group in groups:
        roles = " ".join(f"{r.name}={r.min_member}" + (f"/{r.parent}" if r.parent else "") for r in group.roles)
        members = " ".join(f"{name}:{role}" if role else name for name, role in group.members.items())
        lines.append(f"{group.name} >={group.min_member} [{roles}] {members}".replace("  ", " "))
    return lines


def grouped(owner, pods, **more):
    workload = Workload(owner, tuple(pods), (owner,), owner["metadata"].get("labels", {}), **more)
    return told(grouper_of(owner)(workload))


# --- JobSet: ruling 10 ---

JOBSETS = {
    #                                             roles                            order       want
    "all roles without order are one gang": (("a:2", "b:1"), "", ["pg-x-uid-x >=3 [a=2 b=1]"]),
    "any order is one gang": (("a:2", "b:1"), "AnyOrder", ["pg-x-uid-x >=3 [a=2 b=1]"]),
    "in order is a gang per role": (("a:2", "b:1"), "InOrder", ["pg-x-uid-x-a >=2 [a=2]", "pg-x-uid-x-b >=1 [b=1]"]),
    "who waits for another is in a later gang": (
        ("init:1", "node:4<init"),
        "",
        ["pg-x-uid-x-init >=1 [init=1]", "pg-x-uid-x-node >=4 [node=4]"],
    ),
    "who waits for the same starts together": (
        ("i:1", "a:2<i", "b:3<i"),
        "",
        ["pg-x-uid-x-i >=1 [i=1]", "pg-x-uid-x-a >=5 [a=2 b=3]"],
    ),
    "a single role has the plain name": (("node:4",), "InOrder", ["pg-x-uid-x >=4 [node=4]"]),
}


@pytest.mark.parametrize(("roles", "order", "want"), JOBSETS.values(), ids=JOBSETS)
def test_jobset_phases(roles, order, want):
    owner = jobset("x", *roles, order=order)
    pods = [p for role in roles for p in jobset_pods(owner, role.partition(":")[0], 1)[1]]
    assert [line.rpartition("]")[0] + "]" for line in grouped(owner, pods)] == want


def test_a_phase_without_pods_has_no_gang_yet():
    owner = jobset("x", "init:1", "node:4<init")
    assert [line.split()[0] for line in grouped(owner, jobset_pods(owner, "init", 1)[1])] == ["pg-x-uid-x-init"]


COUNTS = {
    "parallelism counts": ({"parallelism": 3}, 1, 3),
    "completions cap parallelism": ({"parallelism": 4, "completions": 2}, 1, 2),
    "completions beyond parallelism do not": ({"parallelism": 2, "completions": 9}, 1, 2),
    "replicas multiply": ({"parallelism": 2}, 3, 6),
    "nothing said is one pod": ({}, 1, 1),
}


@pytest.mark.parametrize(("spec", "replicas", "want"), COUNTS.values(), ids=COUNTS)
def test_pods_of_a_replicated_job(spec, replicas, want):
    assert jobsets.pods_of({"name": "a", "replicas": replicas, "template": {"spec": spec}}) == want


def test_a_pod_of_an_unknown_role_is_refused_by_name():
    owner = jobset("x", "a:1")
    with pytest.raises(CannotGroup, match='has no job "ghost"'):
        grouped(owner, jobset_pods(owner, "ghost", 1)[1])


# --- Kubeflow v1 ---


def kubeflow(kind, field, roles, **spec):
    replicas = {role: {"replicas": count} for role, count in roles.items()}
    return thing("kubeflow.org/v1", kind, "x", {field: replicas, **spec})


def torch(roles, **spec):
    return kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles, **spec)


MASTER, WORKER = {ROLE: "master"}, {ROLE: "worker"}
SEGMENTED = {labels.SEGMENT_SIZE: "2"}

KUBEFLOW = {
    "all replicas of a TFJob": (
        kubeflow("TFJob", "tfReplicaSpecs", {"PS": 1, "Worker": 3}),
        [pod("a")],
        ["pg-x-uid-x >=4 [] a"],
    ),
    "minAvailable is enough": (
        kubeflow("TFJob", "tfReplicaSpecs", {"Worker": 3}, runPolicy={"schedulingPolicy": {"minAvailable": 2}}),
        [pod("a")],
        ["pg-x-uid-x >=2 [] a"],
    ),
    "an MPI launcher counts": (
        kubeflow("MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 4}),
        [pod("a")],
        ["pg-x-uid-x >=5 [] a"],
    ),
    "a launcher that comes late does not": (
        kubeflow(
            "MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 4}, launcherCreationPolicy="WaitForWorkersReady"
        ),
        [pod("a")],
        ["pg-x-uid-x >=4 [] a"],
    ),
    "until it is there": (
        kubeflow(
            "MPIJob", "mpiReplicaSpecs", {"Launcher": 1, "Worker": 4}, launcherCreationPolicy="WaitForWorkersReady"
        ),
        [pod("a", worn={"training.kubeflow.org/job-role": "launcher"})],
        ["pg-x-uid-x >=5 [] a"],
    ),
    "a PyTorchJob has roles": (
        torch({"Master": 1, "Worker": 3}),
        [pod("m", worn=MASTER), pod("w", worn=WORKER)],
        ["pg-x-uid-x >=4 [master=1 worker=3] m:master w:worker"],
    ),
    "an elastic PyTorchJob starts with fewer": (
        torch({"Worker": 8}, elasticPolicy={"minReplicas": 2}),
        [pod("w", worn=WORKER)],
        ["pg-x-uid-x >=2 [worker=2] w:worker"],
    ),
    "minAvailable beats the elastic policy": (
        torch({"Worker": 8}, elasticPolicy={"minReplicas": 2}, runPolicy={"schedulingPolicy": {"minAvailable": 5}}),
        [pod("w", worn=WORKER)],
        ["pg-x-uid-x >=5 [worker=5] w:worker"],
    ),
    "workers in segments": (
        torch({"Master": 1, "Worker": 5}),
        [pod("w", worn={**WORKER, "training.kubeflow.org/replica-index": "3"}, said=SEGMENTED)],
        ["pg-x-uid-x >=6 [master=1 worker=0 worker-0=2/worker worker-1=2/worker worker-2=1/worker] w:worker-1"],
    ),
}


@pytest.mark.parametrize(("owner", "pods", "want"), KUBEFLOW.values(), ids=KUBEFLOW)
def test_kubeflow(owner, pods, want):
    assert grouped(owner, pods) == want


def test_each_replicas_own_minimum_counts():
    owner = torch({"Master": 1, "Worker": 8})
    owner["spec"]["pytorchReplicaSpecs"]["Worker"]["minReplicas"] = 3
    assert grouped(owner, [pod("w", worn=WORKER)]) == ["pg-x-uid-x >=4 [master=1 worker=3] w:worker"]


REFUSED = {
    "replicas of 0": (torch({"Worker": 0}), "too small; must be at least 1"),
    "an MPIJob without launcher": (kubeflow("MPIJob", "mpiReplicaSpecs", {"Worker": 1}), "has no Launcher"),
    "a segment size of zero": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 2}),
        "is not a size; must be a whole number above 0",
    ),
    "an LWS without size": (thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "x"), "size"),
    "an AmlJob without node count": (thing("amlarc.azureml.com/v1alpha1", "AmlJob", "x"), "is not a number of nodes"),
    "a RayJob without cluster": (thing("ray.io/v1", "RayJob", "x"), "has no RayCluster yet"),
    "a grove pod without gang": (thing("grove.io/v1alpha1", "PodCliqueSet", "x"), "its gang is unknown"),
}


@pytest.mark.parametrize(("owner", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_grouped_says_why(owner, words):
    with pytest.raises(CannotGroup, match=words):
        grouped(owner, [pod("a", worn=WORKER, said={labels.SEGMENT_SIZE: "0"})])


# --- pods of their own ---

JOB = thing("batch/v1", "Job", "j")
ALONE = {
    "a bare pod": (None, [pod("p")], ["pg-p-uid-p >=1 [] p"]),
    "pods of a Job stand apart": (JOB, [pod("p", JOB), pod("q", JOB)], ["pg-p-uid-j >=1 [] p", "pg-q-uid-j >=1 [] q"]),
    "replicas of a Deployment own themselves": (
        thing("apps/v1", "Deployment", "d"),
        [pod("p"), pod("q")],
        ["pg-p-uid-p >=1 [] p", "pg-q-uid-q >=1 [] q"],
    ),
    "an unknown owner's pods share a group": (
        thing("example.com/v1", "Thing", "t"),
        [pod("p"), pod("q")],
        ["pg-t-uid-t >=1 [] p q"],
    ),
    "spark's pods share the group of their selector": (
        None,
        [pod("p", worn={"spark-app-name": "s", "spark-app-selector": "spark-1"})],
        ["spark-1 >=1 [] p"],
    ),
    "an AmlJob says its node count": (
        thing(
            "amlarc.azureml.com/v1alpha1", "AmlJob", "x", {"job": {"options": {"envs": {"AZUREML_NODE_COUNT": "3"}}}}
        ),
        [pod("p")],
        ["pg-x-uid-x >=3 [] p"],
    ),
    "a RunaiJob's attempts stand apart": (
        thing("run.ai/v1", "RunaiJob", "r"),
        [pod("r-1-abc")],
        ["pg-r-1-uid-r >=1 [] r-1-abc"],
    ),
}


@pytest.mark.parametrize(("owner", "pods", "want"), ALONE.values(), ids=ALONE)
def test_alone(owner, pods, want):
    assert grouped(owner or pods[0], pods) == want


PRIORITIES = {
    "train": thing("example.com/v1", "Thing", "t"),
    "build": thing("kubeflow.org/v1beta1", "Notebook", "n"),
    "inference": thing("egx.nvidia.io/v1", "SPOTRequest", "s"),
}


@pytest.mark.parametrize(("want", "owner"), PRIORITIES.items(), ids=PRIORITIES)
def test_default_class(want, owner):
    assert grouper_of(owner)(Workload(owner, (pod("p"),)))[0].priority_class == want


# --- LeaderWorkerSet ---


def lws(size, **spec):
    return thing(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "x", {"leaderWorkerTemplate": {"size": size, **spec}}
    )


def worker(group, index, **more):
    return pod(f"x-{group}-{index}", worn={GROUP_INDEX: str(group), WORKER_INDEX: str(index)}, **more)


LWS = {
    "a gang per replica": (
        lws(3),
        [worker(0, 0), worker(0, 1), worker(1, 0)],
        [
            "pg-x-uid-x-group-0 >=3 [leader=1 workers=2] x-0-0:leader x-0-1:workers",
            "pg-x-uid-x-group-1 >=3 [leader=1 workers=2] x-1-0:leader",
        ],
    ),
    "a group of one has only a leader": (lws(1), [worker(0, 0)], ["pg-x-uid-x-group-0 >=1 [leader=1] x-0-0:leader"]),
    "workers divide evenly, the leader is extra": (
        lws(5, subGroupPolicy={"subGroupSize": 2}),
        [worker(0, 0), worker(0, 2), worker(0, 3)],
        [
            "pg-x-uid-x-group-0 >=5 [segment-0=0 leader=1/segment-0 workers=2/segment-0 segment-1=2] "
            "x-0-0:leader x-0-2:workers x-0-3:segment-1",
        ],
    ),
    "all together divide evenly": (
        lws(4, subGroupPolicy={"subGroupSize": 2}),
        [worker(0, 1), worker(0, 2)],
        [
            "pg-x-uid-x-group-0 >=4 [segment-0=0 leader=1/segment-0 workers=1/segment-0 segment-1=2] "
            "x-0-1:workers x-0-2:segment-1",
        ],
    ),
    "the leader stands outside": (
        lws(5, subGroupPolicy={"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}),
        [worker(0, 0), worker(0, 1)],
        ["pg-x-uid-x-group-0 >=5 [leader=1 segment-0=2 segment-1=2] x-0-0:leader x-0-1:segment-0"],
    ),
}


@pytest.mark.parametrize(("owner", "pods", "want"), LWS.values(), ids=LWS)
def test_leader_worker_set(owner, pods, want):
    assert grouped(owner, pods) == want


def test_workers_that_wait_for_their_leader_are_not_waited_for():
    owner = lws(4)
    owner["spec"]["startupPolicy"] = "LeaderReady"
    assert grouped(owner, [worker(0, 0)]) == ["pg-x-uid-x-group-0 >=1 [leader=1] x-0-0:leader"]
    assert grouped(owner, [worker(0, 0, node="n"), worker(0, 1)])[0].startswith("pg-x-uid-x-group-0 >=4")


# --- Ray, Knative, Grove: families that read further objects ---


def ray_cluster(*groups):
    spec = {"headGroupSpec": {}, "workerGroupSpecs": [dict(group) for group in groups]}
    return thing("ray.io/v1", "RayCluster", "c", spec)


SMALL, LARGE = (
    {"groupName": "small", "replicas": 2},
    {"groupName": "large", "replicas": 4, "minReplicas": 1, "numOfHosts": 2},
)


def test_a_ray_cluster_is_its_head_and_the_least_of_its_workers():
    owner = ray_cluster(SMALL, LARGE, {"groupName": "off", "replicas": 9, "suspend": True})
    pods = [pod("h", worn={"ray.io/group": "headgroup"}), pod("w", worn={"ray.io/group": "small"})]
    assert grouped(owner, pods) == ["pg-c-uid-c >=5 [headgroup=1 small=2 large=2] h:headgroup w:small"]


def test_a_ray_job_finds_its_cluster_through_its_status():
    job = thing("ray.io/v1", "RayJob", "j") | {"status": {"rayClusterName": "c"}}
    found = {Key("default", "c"): ray_cluster(SMALL)}
    assert grouped(job, [pod("h")], related=found) == ["pg-j-uid-j >=3 [headgroup=1 small=2] h"]


def test_a_knative_revision_is_a_gang_of_its_least_scale():
    service = thing("serving.knative.dev/v1", "Service", "s")
    revision = thing("serving.knative.dev/v1", "Revision", "r", annotations={"autoscaling.knative.dev/min-scale": "2"})
    pods = [pod("a", worn={"serving.knative.dev/revision": "r"}), pod("b", worn={"serving.knative.dev/revision": "r"})]
    assert grouped(service, pods, related={Key("default", "r"): revision}) == ["pg-r-uid-r >=2 [] a b"]
    assert len(grouped(service, pods)) == 2, "a revision that cannot be read leaves its pods alone"


def test_a_pod_gang_spells_out_its_groups():
    owner = thing("grove.io/v1alpha1", "PodCliqueSet", "s", annotations={"grove.io/topology-name": "t"})
    listed = [{"name": "a", "minReplicas": 2, "podReferences": [{"name": "p"}]}, {"name": "b", "minReplicas": 1}]
    near = {"packConstraint": {"required": "rack"}}
    configs = [{"name": "ab", "podGroupNames": ["a", "b"], "topologyConstraint": near}]
    gang = thing(
        "scheduler.grove.io/v1alpha1", "PodGang", "g", {"podgroups": listed, "topologyConstraintGroupConfigs": configs}
    )
    pods = [pod("p", worn={"grove.io/podgang": "g"})]
    want = ["pg-g-uid-g >=3 [ab=0 a=2/ab b=1/ab] p:a"]
    assert (
        grouped(owner, pods, related={Key("default", "g"): gang}, annotations=owner["metadata"]["annotations"]) == want
    )


def test_pods_of_a_cronjob_belong_to_their_run():
    cron = thing("batch/v1", "CronJob", "c")
    run = thing("batch/v1", "Job", "c-1", ownerReferences=owned_by(cron))
    workload = Workload(cron, (pod("p", run),), (run, cron))
    assert [group.owner for group in grouper_of(cron)(workload)] == [run]
