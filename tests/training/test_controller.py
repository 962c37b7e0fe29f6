"""The controller against the real server in memory: what a user sees of the room."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import Forbidden, Invalid, NotFound
from allaboard.api.meta import condition_of, is_true
from allaboard.kube.client import PatchType, Select
from allaboard.testing.plane import plane, until
from tests.patience import PATIENCE
from tests.training.world import patch

RUN = Key("default", "run")


def trainjob(trainer=None, runtime="torch-distributed", **spec):
    metadata = {"name": "run", "namespace": "default"}
    body = {"runtimeRef": {"name": runtime}, "trainer": trainer or {"numNodes": 2}, **spec}
    return {"apiVersion": kinds.TRAIN_JOB.api_version, "kind": "TrainJob", "metadata": metadata, "spec": body}


@asynccontextmanager
async def room(*controllers, admission=("trainjob", "jobset")):
    async with plane(("trainjob", *controllers), admission) as heart:
        yield heart


def in_room(*controllers, **options):
    """Run a test's coroutine inside a plane with these controllers."""

    def decorate(test):
        def run():
            async def inside():
                async with room(*controllers, **options) as heart:
                    await test(heart)

            asyncio.run(inside())

        run.__name__ = test.__name__
        return run

    return decorate


async def create(heart, document):
    return await heart.client.create(kinds.TRAIN_JOB, document, manager="user")


async def change(heart, body):
    return await heart.client.patch(kinds.TRAIN_JOB, RUN, body, type=PatchType.MERGE, manager="user")


def ready(document):
    return (document.get("status") or {}).get("aboard") is not None


@in_room()
async def test_a_trainjob_becomes_a_jobset_and_a_snapshot(heart):
    job = await create(heart, trainjob())
    jobset = await until(heart, kinds.JOB_SET, RUN, lambda found: True)
    snapshot = await until(heart, kinds.CONFIG_MAP, Key("default", "run-runtime-snapshot"), lambda found: True)
    for made in (jobset, snapshot):
        owner = made["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (job["metadata"]["uid"], True, True)
        fields = made["metadata"]["managedFields"][0]
        assert (fields["manager"], fields["operation"]) == ("trainer", "Apply")


@in_room("jobset")
async def test_seed_001_the_recommended_way_suspend_change_resume(heart):
    await create(heart, trainjob(suspend=True))
    await until(heart, kinds.TRAIN_JOB, RUN, lambda found: is_true(found, "Suspended"))
    await change(heart, {"spec": {"runtimePatches": [patch("acme.io/x", nodeSelector={"pool": "a"})]}})
    changed = await until(heart, kinds.JOB_SET, RUN, lambda found: "nodeSelector" in _pod(found))
    assert changed["spec"]["suspend"] is True
    await change(heart, {"spec": {"suspend": False}})
    await until(heart, kinds.JOB_SET, RUN, lambda found: found["spec"]["suspend"] is False)
    resumed = await until(heart, kinds.TRAIN_JOB, RUN, lambda found: not is_true(found, "Suspended"))
    assert condition_of(resumed, "Suspended")["reason"] == "Resumed"


def _pod(jobset):
    return jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]


@in_room()
async def test_a_running_jobset_is_not_touched(heart):
    await create(heart, trainjob())
    made = await until(heart, kinds.JOB_SET, RUN, lambda found: True)
    body = {"metadata": {"labels": {"touched": "by-a-user"}}}
    await heart.client.patch(kinds.JOB_SET, RUN, body, type=PatchType.MERGE, manager="user")
    await change(heart, {"metadata": {"labels": {"woken": "up"}}})
    await _settled(heart)
    found = await heart.client.get(kinds.JOB_SET, RUN)
    assert found["metadata"]["labels"] == {"touched": "by-a-user"}
    assert found["metadata"]["generation"] == made["metadata"]["generation"]


async def _settled(heart):
    """Several turns of the loop with nothing new."""
    for _ in range(50):
        await asyncio.sleep(0)


@in_room("garbage")
async def test_deleting_a_trainjob_takes_everything_with_it_once(heart):
    await create(heart, trainjob())
    await until(heart, kinds.JOB_SET, RUN, lambda found: True)
    await heart.client.delete(kinds.TRAIN_JOB, RUN, propagation="Foreground")
    async with asyncio.timeout(PATIENCE):
        while await heart.client.get(kinds.TRAIN_JOB, RUN) or await heart.client.get(kinds.JOB_SET, RUN):
            await asyncio.sleep(0.01)
    assert await heart.client.get(kinds.CONFIG_MAP, Key("default", "run-runtime-snapshot")) is None


@in_room()
async def test_a_missing_runtime_is_refused_with_those_that_exist(heart):
    with pytest.raises(Forbidden) as found:
        await create(heart, trainjob(runtime="torch-xl"))
    assert str(found.value).startswith(
        'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: '
    )
    assert "the cluster has: deepspeed-distributed, " in str(found.value)


@in_room(admission=())
async def test_a_runtime_that_is_gone_before_the_first_pass_is_final(heart):
    await create(heart, trainjob(runtime="torch-xl"))
    found = await until(heart, kinds.TRAIN_JOB, RUN, lambda job: is_true(job, "Failed"))
    assert condition_of(found, "Failed")["reason"] == "RuntimeNotFound"
    assert await heart.client.get(kinds.JOB_SET, RUN) is None


@in_room()
async def test_the_jobsets_end_is_the_trainjobs(heart):
    await create(heart, trainjob())
    made = await until(heart, kinds.JOB_SET, RUN, lambda found: True)
    ended = {
        "type": "Completed",
        "status": "True",
        "reason": "AllJobsCompleted",
        "message": "jobset completed successfully",
    }
    status = {"conditions": [{**ended, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    await heart.client.update(kinds.JOB_SET, {**made, "status": status}, manager="test", subresource="status")
    found = await until(heart, kinds.TRAIN_JOB, RUN, lambda job: is_true(job, "Complete"))
    assert condition_of(found, "Complete")["reason"] == "AllJobsCompleted"
    assert found["status"]["aboard"]["phase"] == "Succeeded"


@in_room()
async def test_a_finished_trainjob_goes_when_its_time_is_over(heart):
    await create(heart, trainjob(ttlSecondsAfterFinished=0))
    made = await until(heart, kinds.JOB_SET, RUN, lambda found: True)
    ended = {
        "type": "Failed",
        "status": "True",
        "reason": "FailedJobs",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await heart.client.update(
        kinds.JOB_SET, {**made, "status": {"conditions": [ended]}}, manager="test", subresource="status"
    )
    async with asyncio.timeout(PATIENCE):
        while await heart.client.get(kinds.TRAIN_JOB, RUN):
            await asyncio.sleep(0.01)


@in_room()
async def test_an_mpi_secret_that_is_deleted_comes_back_and_one_that_is_there_stays(heart):
    secret = Key("default", "run-mpi-ssh-auth")
    await create(heart, trainjob(runtime="mpi-distributed"))
    first = await until(heart, kinds.SECRET, secret, lambda found: True)
    await change(heart, {"metadata": {"labels": {"woken": "up"}}})
    await _settled(heart)
    assert (await heart.client.get(kinds.SECRET, secret))["data"] == first["data"]
    await heart.client.delete(kinds.SECRET, secret)
    again = await until(heart, kinds.SECRET, secret, lambda found: found["metadata"]["uid"] != first["metadata"]["uid"])
    assert again["immutable"] is True


def test_seed_003_the_log_says_what_the_seed_shows(caplog):
    caplog.set_level("INFO", logger="allaboard")

    @in_room("jobset", "job")
    async def train(heart):
        await create(heart, trainjob())
        await until(heart, kinds.TRAIN_JOB, RUN, ready)

    train()
    said = [record.getMessage() for record in caplog.records]
    lines = [
        'msg="Reconciling TrainJob" trainjob=default/run',
        'msg="Building objects" runtime=torch-distributed',
        'msg="Applying JobSet" jobset=default/run',
        'msg="Status synced" trainjob=default/run',
    ]
    places = [said.index(line) for line in lines]
    assert places == sorted(places)


# --- seed 003: the table of idempotence, row by row ---


@in_room("garbage")
async def test_seed_003_idempotence_the_same_spec_again_is_one_jobset(heart):
    await create(heart, trainjob())
    made = await until(heart, kinds.JOB_SET, RUN, lambda found: True)
    await heart.client.apply(kinds.TRAIN_JOB, trainjob(), manager="user", force=True)
    await change(heart, {"metadata": {"labels": {"woken": "up"}}})
    await _settled(heart)
    (found,) = await heart.client.list(kinds.JOB_SET)
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@in_room()
async def test_seed_003_idempotence_an_update_reaches_the_jobset_while_it_is_suspended(heart):
    """Upstream has fixed `trainer` since the seed was written: what may change goes through patches and suspend."""
    await create(heart, trainjob(suspend=True))
    await until(heart, kinds.JOB_SET, RUN, lambda found: True)
    with pytest.raises(Invalid, match="field is immutable"):
        await change(heart, {"spec": {"trainer": {"numNodes": 4}}})
    wish = {"spec": {"runtimePatches": [patch("acme.io/x", nodeSelector={"pool": "a"})]}}
    await change(heart, wish)
    first = await until(heart, kinds.JOB_SET, RUN, lambda found: "nodeSelector" in _pod(found))
    await change(heart, wish)
    await _settled(heart)
    again = await heart.client.get(kinds.JOB_SET, RUN)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@in_room("garbage")
async def test_seed_003_idempotence_deleting_takes_what_was_made(heart):
    await create(heart, trainjob(runtime="deepspeed-distributed"))
    await until(heart, kinds.SECRET, Key("default", "run-mpi-ssh-auth"), lambda found: True)
    for _ in range(2):
        try:
            await heart.client.delete(kinds.TRAIN_JOB, RUN)
        except NotFound:
            continue
    made = (kinds.JOB_SET, kinds.SECRET, kinds.CONFIG_MAP)
    async with asyncio.timeout(PATIENCE):
        while any([await heart.client.list(kind, Select("default")) for kind in made]):
            await asyncio.sleep(0.02)


# --- seed 003: concurrency ---


@in_room()
async def test_seed_003_concurrency_many_events_of_one_job_are_one_look_at_a_time(heart):
    loop = next(loop for loop in heart.loops if loop.controller.name == "trainer")
    reconcile, running, most = loop.controller.reconcile, set(), []

    async def watched(key):
        assert key not in running
        running.add(key)
        most.append(key)
        await asyncio.sleep(0)
        plan = await reconcile(key)
        running.discard(key)
        return plan

    loop.controller.reconcile = watched
    await create(heart, trainjob(suspend=True))
    for number in range(50):
        await change(heart, {"metadata": {"labels": {"number": str(number)}}})
    await _settled(heart)
    assert 1 <= len(most) < 50 + 10
