"""The scheduler at work: gangs get their places whole, wait whole, and say why."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from allaboard.api import kinds, labels
from allaboard.api.errors import Forbidden
from allaboard.api.meta import is_leaving, key_of
from allaboard.scheduling.loop import CYCLE, Scheduler
from allaboard.scheduling.podgroups import WORKLOAD
from allaboard.testing.clock import FakeClock
from allaboard.testing.plane import add_nodes, plane, until

from .builders import OURS, World, at, finished, jobset, node, pod, pod_group, queue


def world(*documents):
    scheduler = Scheduler(None, FakeClock(), OURS)
    around = World(scheduler)
    scheduler.reader = around
    around.defaults()
    for kind, document in documents:
        around.put(kind, document)
    return scheduler, around


def gang(name, count, cpu, **spec):
    """A PodGroup with as many pods as it needs."""
    said = {labels.POD_GROUP: name}
    pods = [(kinds.POD, pod(f"{name}-{index}", said=said, cpu=cpu)) for index in range(count)]
    return [(kinds.POD_GROUP, pod_group(name, count, **spec)), *pods]


def carried_out(around, plan):
    """The writes that later cycles read: requests and conditions."""
    for group in plan.together:
        for document in group:
            around.put(kinds.BIND_REQUEST, document)
    for patch in plan.patch:
        old = around.documents[(patch.kind, patch.key)]
        if "status" in patch.body and patch.kind == kinds.POD_GROUP:
            around.put(patch.kind, {**old, "status": {**old.get("status", {}), **patch.body["status"]}})


def bound(around, *names):
    """The binder did its work, and the pods run."""
    for name in names:
        old = around.documents[(kinds.POD, key_of(pod(name)))]
        spec, status = {**old["spec"], "nodeName": "n"}, {"phase": "Running"}
        around.put(kinds.POD, {**old, "spec": spec, "status": status})
        around.drop(kinds.BIND_REQUEST, {"metadata": {"name": name, "namespace": "default"}})


def cycle(scheduler):
    return finished(scheduler.reconcile(CYCLE))


def placed(plan):
    return [[document["metadata"]["name"] for document in group] for group in plan.together]


def test_two_gangs_that_each_need_the_machine():
    scheduler, around = world((kinds.NODE, node("n")), *gang("a", 2, "4"), *gang("b", 2, "4"))
    plan = cycle(scheduler)
    assert placed(plan) == [["a-0", "a-1"]]
    refused = [patch for patch in plan.patch if patch.kind == kinds.POD_GROUP and "status" in patch.body]
    (condition,) = refused[0].body["status"]["schedulingConditions"]
    assert refused[0].key.name == "b"
    assert condition["message"]
    assert {event.regarding["kind"] for event in plan.events} == {"PodGroup", "Pod"}
    # What was said is not said again, and a cycle without news decides nothing.
    carried_out(around, plan)
    assert not cycle(scheduler).together
    bound(around, "a-0", "a-1")
    assert not cycle(scheduler).events
    # The first ends, the second runs.
    for name in ("a-0", "a-1"):
        old = around.documents[(kinds.POD, key_of(pod(name)))]
        around.put(kinds.POD, {**old, "status": {"phase": "Succeeded"}})
    plan = cycle(scheduler)
    assert placed(plan) == [["b-0", "b-1"]]
    turned = [p.body["status"]["schedulingConditions"] for p in plan.patch if "status" in p.body]
    assert [condition["status"] for condition in turned[0]] == ["False"]


def test_without_news_a_pass_does_nothing():
    scheduler, around = world((kinds.NODE, node("n")))
    cycle(scheduler)
    assert not cycle(scheduler)
    assert not around.put(kinds.NODE, node("n")), "nothing moved, so nobody is woken"


UNREADABLE = {
    "a minimum in words": ({"minMember": "two"}, 'minMember: "two" is not a whole number'),
    "a role without a name": (
        {"subGroups": [{"minMember": 1}]},
        "spec.subGroups[0].name: None is missing or not the only one of its name",
    ),
    "a role with no letters": (
        {"subGroups": [{"name": ""}]},
        "spec.subGroups[0].name: '' is missing or not the only one of its name",
    ),
    "two roles of one name": (
        {"subGroups": [{"name": "a"}, {"name": "a"}]},
        "spec.subGroups[1].name: 'a' is missing or not the only one of its name",
    ),
    "roles in a circle": (
        {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
        'spec.subGroups: "a" has a parent that does not exist or is its own descendant',
    ),
}


@pytest.mark.parametrize(("spec", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_group_that_cannot_be_read_says_why_and_holds_up_nobody(spec, words):
    """Where nobody asks our admission, a PodGroup may say anything."""
    scheduler, around = world((kinds.NODE, node("n")), *gang("bad", 2, "1", **spec), *gang("good", 1, "1"))
    plan = cycle(scheduler)
    assert placed(plan) == [["good-0"]]
    (refused,) = (patch.body["status"] for patch in plan.patch if patch.kind == kinds.POD_GROUP)
    assert refused["schedulingConditions"][0]["message"] == f"its PodGroup cannot be read: {words}"
    carried_out(around, plan)
    around.put(*gang("bad", 2, "1")[0])
    assert placed(cycle(scheduler)) == [["bad-0", "bad-1"]]


def test_each_gang_is_a_group_of_its_own():
    scheduler, _ = world((kinds.NODE, node("n")), *gang("a", 2, "1"), *gang("b", 1, "1"))
    assert placed(cycle(scheduler)) == [["a-0", "a-1"], ["b-0"]]


def test_a_gang_the_server_refuses_is_tried_again_later_and_holds_up_nobody():
    scheduler, around = world((kinds.NODE, node("n")), *gang("a", 1, "1"))
    plan = cycle(scheduler)
    scheduler.lost(plan.together[0], Forbidden("the namespace is going"))
    for kind, document in gang("b", 1, "1"):
        around.put(kind, document)
    plan = cycle(scheduler)
    assert placed(plan) == [["b-0"]]
    carried_out(around, plan)
    scheduler.clock.advance(timedelta(seconds=2))
    assert placed(cycle(scheduler)) == [["a-0"]]


def test_pods_of_a_namespace_on_its_way_out_are_left_alone():
    leaving = {"metadata": {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    scheduler, _ = world((kinds.NODE, node("n")), (kinds.NAMESPACE, leaving), *gang("a", 1, "1"))
    assert not cycle(scheduler).together


def test_a_gang_behind_gates_hears_it_on_its_group_and_its_pods_are_left_alone():
    documents = gang("a", 2, "1")
    for _, document in documents[1:]:
        document["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    scheduler, around = world((kinds.NODE, node("n")), *documents)
    plan = cycle(scheduler)
    assert [patch.kind for patch in plan.patch] == [kinds.POD_GROUP]
    assert plan.patch[0].body["status"]["aboard"]["why"]["code"] == "SchedulingGated"
    carried_out(around, plan)
    for _, document in gang("a", 2, "1")[1:]:
        around.put(kinds.POD, document)
    assert placed(cycle(scheduler)) == [["a-0", "a-1"]]


def test_failed_requests_are_removed_and_their_pods_placed_anew():
    scheduler, around = world((kinds.NODE, node("n")), *gang("a", 1, "1"))
    plan = cycle(scheduler)
    carried_out(around, plan)
    request = around.documents[(kinds.BIND_REQUEST, key_of(pod("a-0")))]
    around.put(kinds.BIND_REQUEST, {**request, "status": {"phase": "Failed"}})
    (removal,) = cycle(scheduler).delete
    assert removal.kind == kinds.BIND_REQUEST
    around.drop(kinds.BIND_REQUEST, request)
    assert placed(cycle(scheduler)) == [["a-0"]]


def test_a_pod_alone_says_kube_schedulers_words():
    scheduler, _ = world((kinds.POD, pod("a", cpu="1")))
    plan = cycle(scheduler)
    (condition,) = plan.patch[0].body["status"]["conditions"]
    assert condition["message"] == "no nodes available to schedule pods"
    assert plan.events[0].reason == "FailedScheduling"


def test_a_gang_with_an_unknown_queue_is_told_so_and_others_go_on():
    scheduler, _ = world((kinds.NODE, node("n")), *gang("a", 1, "1", queue="ghost"), *gang("b", 1, "1"))
    plan = cycle(scheduler)
    assert placed(plan) == [["b-0"]]
    (said,) = [patch.body["status"] for patch in plan.patch if "status" in patch.body and patch.kind == kinds.POD_GROUP]
    assert said["schedulingConditions"][0]["reason"] == "QueueDoesNotExist"


def test_a_queue_that_appears_lets_its_gang_run():
    scheduler, around = world((kinds.NODE, node("n")), *gang("a", 1, "1", queue="late"))
    carried_out(around, cycle(scheduler))
    around.put(kinds.QUEUE, queue("late"))
    assert placed(cycle(scheduler)) == [["a-0"]]


def test_through_the_whole_house_one_job_runs_and_the_other_waits_whole():
    """The real cluster with the real JobSet, Job, grouper, scheduler and binder; nobody runs the pods."""

    def whole(name):
        made = jobset(name, "node:2")
        job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
        container = {"name": "node", "image": "x", "resources": {"requests": {"cpu": "4"}}}
        job["template"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        return {**made, "metadata": {"name": name, "namespace": "default"}}

    async def first_pod(heart, name):
        while not (found := await pods_of(heart, name)):
            await asyncio.sleep(0)
        return key_of(found[0])

    async def pods_of(heart, name):
        found = await heart.client.list(kinds.POD)
        return [document for document in found if document["metadata"]["name"].startswith(name)]

    async def story():
        async with plane() as heart:
            await add_nodes(heart, 1, cpu="8")
            for name in ("a", "b"):
                created = await heart.client.create(kinds.JOB_SET, whole(name), manager="test")
                group = at(f"pg-{name}-{created['metadata']['uid']}")
                if name == "a":  # the first takes the machine
                    await until(heart, kinds.POD, await first_pod(heart, "a"), lambda p: p["spec"].get("nodeName"))
            await until(heart, kinds.POD_GROUP, group, lambda g: "aboard" in g.get("status", {}))
            for document in await pods_of(heart, "a"):
                await until(heart, kinds.POD, key_of(document), lambda p: p["spec"].get("nodeName"))
            assert not any(document["spec"].get("nodeName") for document in await pods_of(heart, "b"))
            await heart.client.delete(kinds.JOB_SET, at("a"), propagation="Background")
            for document in await pods_of(heart, "a"):  # no node agent here: the pods end at once
                await until(heart, kinds.POD, key_of(document), is_leaving)
                await heart.client.delete(kinds.POD, key_of(document), grace=0)
            for document in await pods_of(heart, "b"):
                await until(heart, kinds.POD, key_of(document), lambda p: p["spec"].get("nodeName"))

    asyncio.run(story())


def test_the_start_of_a_gang_is_noted_where_somebody_minds():
    promising = queue("default-queue")
    promising["spec"]["preemptMinRuntime"] = "5m"
    scheduler, around = world((kinds.NODE, node("n")), *gang("a", 1, "1"))
    plan = cycle(scheduler)
    assert not plan.patch
    carried_out(around, plan)
    around.put(kinds.QUEUE, promising)
    for kind, document in gang("b", 1, "1"):
        around.put(kind, document)
    (patch,) = cycle(scheduler).patch
    assert list(patch.body["metadata"]["annotations"]) == [labels.LAST_START]


def test_a_cycle_that_breaks_off_leaves_no_trace():
    class Clumsy:
        name = "clumsy"

        def gang_key(self, *_):
            raise RuntimeError("oops")

    scheduler, _ = world((kinds.NODE, node("n")), *gang("a", 1, "1"))
    usual = scheduler.policy
    scheduler.snapshot.shard.policy = replace(usual, plugins=(*usual.plugins, Clumsy()))
    with pytest.raises(RuntimeError):
        cycle(scheduler)
    scheduler.snapshot.shard.policy = usual
    assert placed(cycle(scheduler)) == [["a-0"]]


def test_an_eviction_names_the_job_it_is_for():
    important = pod_group("pg-big-uid", 1, priorityClassName="build-preemptible")
    important["metadata"]["annotations"] = {WORKLOAD: "trainer.kubeflow.org/v1alpha1|TrainJob|big|uid"}
    runs = pod("small-0", said={labels.POD_GROUP: "small"}, node="n", phase="Running", cpu="8")
    scheduler, around = world((kinds.NODE, node("n")), (kinds.POD_GROUP, pod_group("small", 1)), (kinds.POD, runs))
    around.put(kinds.POD_GROUP, important)
    around.put(kinds.POD, pod("big-0", said={labels.POD_GROUP: "pg-big-uid"}, cpu="8"))
    (words,) = (event.message for event in cycle(scheduler).events if event.reason == "Evict")
    assert words == 'evicted to make room for "default/big", which has a higher priority in the same queue'


# --- what is promised is no document's to tell ---


def on(name, where=None, gpus="1"):
    """A gang of one pod, on a node or waiting."""
    running = {"node": where, "phase": "Running"} if where else {}
    document = pod(f"{name}-0", said={labels.POD_GROUP: name}, cpu="1", **running, **{"nvidia.com/gpu": gpus})
    return [(kinds.POD_GROUP, pod_group(name, 1)), (kinds.POD, document)]


def scattered():
    """Of two gangs one is moved to the node of the other, to make room for a third; which one, and where to."""
    machines = [(kinds.NODE, node(name, **{"nvidia.com/gpu": "2"})) for name in "ab"]
    scheduler, around = world(*machines, *on("one", "a"), *on("two", "b"), *on("x", gpus="2"))
    (gone,) = cycle(scheduler).delete
    name = gone.key.name.removesuffix("-0")
    (seat,) = scheduler.snapshot.state.gangs[f"default/{name}"].promised
    return scheduler, around, name, seat


def test_who_was_moved_is_promised_his_place_until_his_owner_makes_new_pods():
    scheduler, around, name, seat = scattered()
    around.drop(kinds.POD, pod(f"{name}-0"))
    assert placed(cycle(scheduler)) == [["x-0"]]
    assert scheduler.snapshot.state.gangs[f"default/{name}"].promised == (seat,)
    around.put(*on(name)[1])
    (request,) = cycle(scheduler).together[0]
    assert request["spec"]["selectedNode"] == seat.node
    around.drop(*on(name)[0])
    cycle(scheduler)
    assert f"default/{name}" not in scheduler.snapshot.state.gangs


def test_promises_outlive_a_state_that_is_laid_out_anew():
    scheduler, around, name, seat = scattered()
    for number in range(20):
        around.put(kinds.NODE, node(f"new{number}", **{"nvidia.com/gpu": "0"}))
    cycle(scheduler)
    assert scheduler.snapshot.state.gangs[f"default/{name}"].promised == (seat,)
