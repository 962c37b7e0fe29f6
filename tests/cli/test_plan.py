"""`aboard plan`: what would become of a job, asked on a cluster with two nodes of two GPUs."""

import asyncio

import pytest
from click import unstyle

from allaboard.api.documents import Key
from allaboard.api.errors import NotFound
from allaboard.api.kinds import POD_GROUP, TRAIN_JOB
from allaboard.api.meta import annotations_of
from allaboard.cli.plan import screen_of
from allaboard.main.planning import Forecast, forecast
from allaboard.sdk.building import Wish, train_job
from allaboard.testing.plane import add_nodes, plane, until


def job(name="new", nodes=2, gpus=1, runtime="torch-distributed", **labels):
    resources = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    document = train_job(Wish(name, "pass", nodes=nodes, runtime=runtime, resources=resources))
    document["metadata"]["labels"] = labels
    return document


async def told(wanted, running=None):
    """The forecast for a job while another one runs."""
    async with plane() as heart:
        await add_nodes(heart, 2, **{"nvidia.com/gpu": "2"})
        if running is not None:
            await heart.client.create(TRAIN_JOB, running, manager="test")
            await _placed(heart)
        return await forecast(heart.client, wanted)


async def _placed(heart):
    """Until the gang of the running job has its place."""
    while not (groups := await heart.client.list(POD_GROUP)):
        await asyncio.sleep(0)
    key = Key("default", groups[0]["metadata"]["name"])
    await until(heart, POD_GROUP, key, lambda group: (group.get("status") or {}).get("allocated"))
    assert annotations_of(groups[0])


FULL = job("big", nodes=2, gpus=2)
SCARCE = "InsufficientResource"
URGENT = job(priorityClassName="build-preemptible")
CASES = {
    #                             wanted        running               fits   action     evicted  code    smaller
    "an empty cluster has room":  (job(),        None,                 True,  "",        0, "",          0),
    "a full one has none":        (job(),        FULL,                 False, "",        0, SCARCE,      0),
    "a smaller one may fit":      (job(nodes=4), job("big", nodes=1),  False, "",        0, SCARCE,      3),
    "it never could":             (job(gpus=4),  None,                 False, "",        0, "NeverFits", 0),
    "the more urgent takes over": (URGENT,       FULL,                 True,  "preempt", 2, "",          0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "running", "fits", "action", "evicted", "code", "smaller"), CASES.values(), ids=CASES
)
def test_forecast(wanted, running, fits, action, evicted, code, smaller):
    found = asyncio.run(told(wanted, running))
    assert (found.fits, found.action, len(found.evicted)) == (fits, action, evicted)
    assert (found.why.get("code", ""), found.smaller) == (code, smaller)
    assert found.pods == wanted["spec"]["trainer"]["numNodes"]


def test_a_missing_runtime_is_said_with_those_there_are():
    with pytest.raises(NotFound, match=r'"torch" not found; there are: .*torch-distributed'):
        asyncio.run(told(job(runtime="torch")))


SCREENS = {
    "fits": (Forecast("q", 2, {"a": "n0", "b": "n0"}), "now          ✓ fits: 2 on n0"),
    "by force": (
        Forecast("q", 1, {"a": "n0"}, "reclaim", ("default/big-node-0-1-abcde",)),
        "by reclaim   ✓ evicts big (1 pod): 1 on n0",
    ),
    "a reason": (Forecast("q", 1, why={"code": "NeverFits", "message": "m"}), "now          ✗ (NeverFits) m"),
    "smaller": (Forecast("q", 4, why={"code": "x", "message": "m"}, smaller=3), "fits now with --nodes 3"),
}


@pytest.mark.parametrize(("found", "line"), SCREENS.values(), ids=SCREENS)
def test_screen(found, line):
    assert any(line in unstyle(shown) for shown in screen_of("job", found))
