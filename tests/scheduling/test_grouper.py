"""Pods get their PodGroup in one pass per workload, and it follows what the workload says."""

import pytest

from allaboard.api import kinds, labels
from allaboard.api.meta import annotations_of, key_of, labels_of
from allaboard.scheduling.grouper import Grouper, kind_named, workload_key
from allaboard.scheduling.podgroups import TOLD_QUEUE, Settings, TypeDefault, merged
from allaboard.testing.clock import FakeClock

from .builders import OURS, World, finished, jobset, jobset_pods, owned_by, pod, thing


def world(defaults=None):
    grouper = Grouper(None, FakeClock(), None, Settings(OURS, defaults or {}))
    around = World(grouper)
    grouper.reader = grouper.live = around
    around.defaults()
    return grouper, around


def train_job(name="x", **metadata):
    return thing("trainer.kubeflow.org/v1alpha1", "TrainJob", name, uid=f"tj-{name}", **metadata)


def submitted(around, top=None, *, count=2, **metadata):
    """A TrainJob's JobSet with its Job and pods, as the other rooms make them."""
    top = top or train_job()
    owner = jobset("x", f"node:{count}", ownerReferences=owned_by(top), **metadata)
    job, pods = jobset_pods(owner, "node", count)
    for kind, document in ((kinds.TRAIN_JOB, top), (kinds.JOB_SET, owner), (kinds.JOB, job)):
        around.put(kind, document)
    for document in pods:
        around.put(kinds.POD, document)
    return workload_key(pods[0]), pods


def carried_out(around, plan):
    """The plan's writes, as the server would do them."""
    for write in plan.create:
        around.put(write.kind, write.document)
    for write in plan.update:
        around.put(write.kind, write.document)
    for write in plan.patch:
        old = around.documents[(write.kind, write.key)]
        change = write.body["metadata"]
        said = {**annotations_of(old), **change.get("annotations", {})}
        worn = {**labels_of(old), **change.get("labels", {})}
        around.put(write.kind, {**old, "metadata": {**old["metadata"], "annotations": said, "labels": worn}})


def group_of(around, name="pg-x-uid-x"):
    return around.documents[(kinds.POD_GROUP, key_of({"metadata": {"name": name, "namespace": "default"}}))]


def test_one_pass_makes_the_group_and_tells_every_pod():
    grouper, around = world()
    key, pods = submitted(around)
    plan = finished(grouper.reconcile(key))
    (made,) = plan.create
    assert made.document["spec"] == {
        "minMember": 2,
        "queue": "default-queue",
        "priorityClassName": "train",
        "subGroups": [{"name": "node", "minMember": 2}],
    }
    assert made.document["metadata"]["ownerReferences"] == [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "x", "uid": "uid-x"}
    ]
    assert [write.key for write in plan.patch] == [key_of(document) for document in pods]
    assert plan.patch[0].body == {
        "metadata": {"annotations": {labels.POD_GROUP: "pg-x-uid-x"}, "labels": {labels.SUB_GROUP: "node"}}
    }


def test_a_second_pass_has_nothing_to_do():
    grouper, around = world()
    key, _ = submitted(around)
    carried_out(around, finished(grouper.reconcile(key)))
    assert not finished(grouper.reconcile(key))


def test_pods_that_have_their_group_wake_nobody():
    grouper, around = world()
    key, pods = submitted(around)
    assert list(grouper.watches[0].keys(pods[0])) == [key]
    carried_out(around, finished(grouper.reconcile(key)))
    settled = around.documents[(kinds.POD, key_of(pods[0]))]
    assert not list(grouper.watches[0].keys(settled))


def test_an_owner_not_seen_yet_is_waited_for():
    grouper, around = world()
    job, pods = jobset_pods(jobset("x", "node:1"), "node", 1)
    around.put(kinds.JOB, job)
    around.put(kinds.POD, pods[0])
    plan = finished(grouper.reconcile(workload_key(pods[0])))
    assert plan.again is not None
    assert not plan.create


QUEUES = {
    #                                          TrainJob labels            JobSet labels              want
    "the TrainJob's label": ({labels.QUEUE: "a"}, {}, "a"),
    "the JobSet's label wins": ({labels.QUEUE: "a"}, {labels.QUEUE: "b"}, "b"),
    "a project is a queue": ({"project": "p"}, {}, "p"),
    "nobody says anything": ({}, {}, "default-queue"),
}


@pytest.mark.parametrize(("top", "own", "want"), QUEUES.values(), ids=QUEUES)
def test_queue(top, own, want):
    grouper, around = world()
    key, _ = submitted(around, train_job(labels=top), labels=own)
    assert finished(grouper.reconcile(key)).create[0].document["spec"]["queue"] == want


CLASSES = {
    "a label that names a class": ({"priorityClassName": "build"}, "build"),
    "the seed's spelling": ({"priorityClassName": "Inference"}, "inference"),
    "a class that does not exist is passed over": ({"priorityClassName": "ghost"}, "train"),
}


@pytest.mark.parametrize(("worn", "want"), CLASSES.values(), ids=CLASSES)
def test_priority_class(worn, want):
    grouper, around = world()
    key, _ = submitted(around, train_job(labels=worn))
    assert finished(grouper.reconcile(key)).create[0].document["spec"]["priorityClassName"] == want


def test_a_kinds_own_defaults():
    grouper, around = world({"JobSet.jobset.x-k8s.io": TypeDefault("build", "non-preemptible")})
    key, _ = submitted(around)
    spec = finished(grouper.reconcile(key)).create[0].document["spec"]
    assert (spec["priorityClassName"], spec["preemptibility"]) == ("build", "non-preemptible")


def test_preemptibility_and_topology_are_inherited():
    grouper, around = world()
    said = {labels.TOPOLOGY: "t", labels.TOPOLOGY_REQUIRED: "rack"}
    key, _ = submitted(around, train_job(labels={labels.PREEMPTIBILITY: "non-preemptible"}, annotations=said))
    spec = finished(grouper.reconcile(key)).create[0].document["spec"]
    assert spec["preemptibility"] == "non-preemptible"
    assert spec["topologyConstraint"] == {"topology": "t", "requiredTopologyLevel": "rack"}


# --- a change of labels moves a job (quirk 18 fixed) ---


def relabelled(around, worn):
    old = around.documents[(kinds.TRAIN_JOB, key_of(train_job()))]
    new = {**old, "metadata": {**old["metadata"], "labels": worn}}
    return around.put(kinds.TRAIN_JOB, new)


def test_a_new_queue_label_moves_the_job():
    grouper, around = world()
    key, _ = submitted(around)
    carried_out(around, finished(grouper.reconcile(key)))
    assert relabelled(around, {labels.QUEUE: "other"}) == [key]
    (update,) = finished(grouper.reconcile(key)).update
    assert update.document["spec"]["queue"] == "other"


def test_a_queue_set_by_hand_stands_until_the_labels_say_something_else():
    grouper, around = world()
    key, _ = submitted(around)
    carried_out(around, finished(grouper.reconcile(key)))
    group = group_of(around)
    around.put(kinds.POD_GROUP, {**group, "spec": {**group["spec"], "queue": "by-hand"}})
    assert not finished(grouper.reconcile(key))
    relabelled(around, {labels.QUEUE: "other"})
    (update,) = finished(grouper.reconcile(key)).update
    assert update.document["spec"]["queue"] == "other"


def test_a_status_change_of_the_owner_wakes_nobody():
    grouper, around = world()
    key, _ = submitted(around)
    carried_out(around, finished(grouper.reconcile(key)))
    old = around.documents[(kinds.TRAIN_JOB, key_of(train_job()))]
    assert not around.put(kinds.TRAIN_JOB, {**old, "status": {"conditions": []}})


def test_what_others_set_on_a_group_is_kept():
    existing = {
        "metadata": {"name": "g", "ownerReferences": [], "annotations": {TOLD_QUEUE: "q"}, "labels": {"mine": "1"}},
        "spec": {"minMember": 1, "queue": "q", "markUnschedulable": False},
    }
    wanted = {
        "metadata": {"name": "g", "ownerReferences": [], "annotations": {TOLD_QUEUE: "q"}},
        "spec": {"minMember": 2, "queue": "q"},
    }
    new = merged(existing, wanted)
    assert new["spec"] == {"minMember": 2, "queue": "q", "markUnschedulable": False}
    assert new["metadata"]["labels"] == {"mine": "1"}


# --- whose pods get a group ---

JOB = thing("batch/v1", "Job", "j")
WISHFUL = thing("batch/v1", "Job", "j", labels={labels.QUEUE: "q"})
GROUPED = {
    "a bare pod needs none": (pod("p"), None, False),
    "a plain Job's pod needs none": (pod("p", JOB), JOB, False),
    "a Job that names a queue": (pod("p", WISHFUL), WISHFUL, True),
    "a pod that names a queue": (pod("p", worn={labels.QUEUE: "q"}), None, True),
    "a pod of kai-scheduler": (pod("p", scheduler="kai-scheduler"), None, True),
    "a pod of another scheduler": (pod("p", scheduler="other"), None, False),
    "a pod with a group of its own": (pod("p", scheduler="aboard", said={labels.POD_GROUP: "mine"}), None, False),
    "a coscheduling pod": (pod("p", JOB, scheduler="aboard", worn={labels.POD_GROUP_COSCHEDULING: "g"}), JOB, False),
    "a volcano pod": (pod("p", JOB, scheduler="aboard", said={labels.POD_GROUP_VOLCANO: "g"}), JOB, False),
}


@pytest.mark.parametrize(("who", "owner", "want"), GROUPED.values(), ids=GROUPED)
def test_who_gets_a_group(who, owner, want):
    grouper, around = world()
    if owner is not None:
        around.put(kinds.JOB, owner)
    around.put(kinds.POD, who)
    assert bool(finished(grouper.reconcile(workload_key(who))).create) is want


def mpi_job(**spec):
    replicas = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    top = thing("kubeflow.org/v2beta1", "MPIJob", "mp", {"mpiReplicaSpecs": replicas, **spec})
    launcher = thing("batch/v1", "Job", "mp-launcher", ownerReferences=owned_by(top))
    marks = {"training.kubeflow.org/job-name": "mp"}
    pods = [pod("mp-launcher-abc", launcher, {**marks, "training.kubeflow.org/job-role": "launcher"})]
    pods += [pod(f"mp-worker-{index}", top, {**marks, "training.kubeflow.org/job-role": "worker"}) for index in (0, 1)]
    return top, launcher, pods


def test_the_launcher_of_an_mpi_job_boards_with_its_workers():
    grouper, around = world()
    top, launcher, pods = mpi_job()
    around.put(kinds.MPI_JOB, top)
    around.put(kinds.JOB, launcher)
    for document in pods:
        around.put(kinds.POD, document)
    (key,) = {workload_key(document) for document in pods}
    plan = finished(grouper.reconcile(key))
    assert [made.document["spec"]["minMember"] for made in plan.create] == [3]
    assert sorted(patch.key.name for patch in plan.patch) == ["mp-launcher-abc", "mp-worker-0", "mp-worker-1"]


def test_a_workload_that_cannot_be_grouped_says_why_on_its_pods():
    grouper, around = world()
    owner = thing("amlarc.azureml.com/v1alpha1", "AmlJob", "a")
    around.put(kind_named({"apiVersion": "amlarc.azureml.com/v1alpha1", "kind": "AmlJob"}), owner)
    around.put(kinds.POD, pod("p", owner))
    (event,) = finished(grouper.reconcile(workload_key(pod("p", owner)))).events
    assert (event.reason, event.type) == ("PodGrouperWarning", "Warning")


def test_an_owner_that_cannot_be_read_still_groups_its_pods():
    grouper, around = world()
    owner = thing("secret.example.com/v1", "Vault", "v")
    around.put(kinds.POD, pod("p", owner))
    (made,) = finished(grouper.reconcile(workload_key(pod("p", owner)))).create
    assert made.document["metadata"]["name"] == "pg-v-uid-v"


PLURALS = {
    "RayCluster": "rayclusters",
    "Proxy": "proxies",
    "Ingress": "ingresses",
}


@pytest.mark.parametrize(("kind", "want"), PLURALS.items(), ids=PLURALS)
def test_plural_of_a_kind_we_do_not_know(kind, want):
    assert kind_named({"apiVersion": "example.com/v1", "kind": kind}).plural == want


# --- the gang before its pods exist ---


def templated(name="x", *, scheduler="default-scheduler", **spec):
    owner = jobset(name, "init:1", "node:2<init")
    for job in owner["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"] = {"spec": {"schedulerName": scheduler, "containers": []}}
    return {**owner, "spec": {**owner["spec"], **spec}}


EARLY = {
    "a JobSet's first phase has its group before its pods": (templated(), ["pg-x-uid-x-init"]),
    "a suspended one has none": (templated(suspend=True), []),
    "nor one of another scheduler": (templated(scheduler="other"), []),
    "nor one that ended": (templated() | {"status": {"terminalState": "Completed"}}, []),
}


@pytest.mark.parametrize(("owner", "want"), EARLY.values(), ids=EARLY)
def test_groups_before_pods(owner, want):
    grouper, around = world()
    (key,) = around.put(kinds.JOB_SET, owner)
    plan = finished(grouper.reconcile(key))
    assert [write.document["metadata"]["name"] for write in plan.create] == want
    assert not plan.patch


def test_a_group_made_early_is_the_group_the_pods_find():
    grouper, around = world()
    owner = templated()
    around.put(kinds.JOB_SET, owner)
    carried_out(around, finished(grouper.reconcile(workload_key(jobset_pods(owner, "init", 1)[1][0]))))
    job, pods = jobset_pods(owner, "init", 1)
    around.put(kinds.JOB, job)
    around.put(kinds.POD, pods[0])
    plan = finished(grouper.reconcile(workload_key(pods[0])))
    assert not plan.create
    assert not plan.update
    assert len(plan.patch) == 1
