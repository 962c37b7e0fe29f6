"""A Job larger than one pass of its controller, on the real cluster with a journal that takes its time."""

import asyncio

from allaboard.api.documents import Key
from allaboard.api.kinds import JOB, POD, SERVICE_ACCOUNT
from allaboard.cluster.sqlite import Sqlite
from allaboard.jobs.workforce import MOST_AT_ONCE
from allaboard.testing.plane import plane, until
from tests.patience import PATIENCE

PODS, LARGE = MOST_AT_ONCE + 1, Key("default", "large")


def job(pods):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "large", "namespace": "default"}, "spec": spec,
    }  # fmt: skip


async def counted(heart, count):
    """Until so many pods are there."""
    async with asyncio.timeout(PATIENCE):
        while heart.cluster.store.table(POD.resource).count() != count:
            await asyncio.sleep(0)


def test_a_job_of_more_pods_than_a_pass_makes_gets_and_loses_them_all(tmp_path):
    async def go():
        journal = Sqlite(tmp_path / "store.db")
        async with plane(controllers=("accounts", "job"), journal=journal) as heart:
            await until(heart, SERVICE_ACCOUNT, Key("default", "default"), lambda _: True)
            await heart.client.create(JOB, job(PODS), manager="test")
            await counted(heart, PODS)
            made = await until(heart, JOB, LARGE, lambda job: (job.get("status") or {}).get("active") == PODS)
            await heart.client.update(JOB, {**made, "spec": {**made["spec"], "suspend": True}}, manager="test")
            await counted(heart, 0)
        journal.close()

    asyncio.run(go())
