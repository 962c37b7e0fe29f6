"""Following a job: its last lines are read, whichever watch brings its news first."""

import asyncio

from allaboard.api.documents import Key
from allaboard.api.kinds import POD, TRAIN_JOB
from allaboard.kube.client import EVERYTHING, Listing
from allaboard.sdk.follow import Follower, Line
from allaboard.testing.clock import FakeClock

OVER = {"type": "Complete", "status": "True", "reason": "JobsCompleted", "message": ""}
JOB = {
    "apiVersion": TRAIN_JOB.api_version,
    "kind": "TrainJob",
    "metadata": {"name": "quick", "namespace": "default", "uid": "u", "resourceVersion": "1"},
    "spec": {},
    "status": {"conditions": [OVER]},
}
POD_THAT_RAN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "quick-node-0-0-x", "namespace": "default", "uid": "p", "resourceVersion": "2"},
    "spec": {"containers": [{"name": "node"}]},
    "status": {"phase": "Succeeded"},
}


class Slow:
    """A server whose watch of pods is behind: it tells of the job's end before it tells of any pod."""

    async def listing(self, kind, select=EVERYTHING):
        return Listing([JOB] if kind is TRAIN_JOB else [], "1")

    async def watch(self, kind, since, select=EVERYTHING):
        await asyncio.Event().wait()
        yield []

    async def list(self, kind, select=EVERYTHING):
        return [POD_THAT_RAN] if kind is POD else []

    async def pieces(self, path, query):
        assert path.endswith("/pods/quick-node-0-0-x/log")
        yield b"last words\n"


def test_the_lines_of_a_pod_nobody_told_us_of_are_read_when_the_job_is_over():
    async def story():
        follower = Follower(Slow(), Key("default", "quick"), FakeClock())
        return [happening.text async for happening in follower.happenings() if isinstance(happening, Line)]

    assert asyncio.run(story()) == ["last words"]
