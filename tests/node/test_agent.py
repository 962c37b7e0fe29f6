"""The agent with real processes: what a pod's author sees."""

import asyncio
import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from world import WAYS, Api, config, log_of, pod, running, state_of

from allaboard.api.documents import Key
from allaboard.api.kinds import NODE, POD
from allaboard.node import hosts

NETWORKED = [way for way in WAYS if way[0] in "AB"]
MARK = f"12012.{os.getpid()}"  # how long nobody else sleeps


def live(settings, story):
    """Run a story against an agent."""

    async def go():
        api = Api()
        async with running(api, settings) as agent:
            return await story(api, agent)

    return asyncio.run(go())


@pytest.fixture(params=WAYS)
def settings(request, tmp_path):
    return config(tmp_path / "state", level=request.param)


ENDS = {
    "a command that ends well": ("exit 0", "Succeeded", 0, "Completed"),
    "a command that fails": ("exit 3", "Failed", 3, "Error"),
    "a command killed by a signal": ("kill -s SEGV $$$$", "Failed", 139, "Error"),
    "a command that is not there": (["nowhere", "x"], "Failed", 128, "StartError"),
}


def test_the_end_of_a_command_is_the_end_of_its_pod(settings):
    async def story(api, agent):
        for index, (command, *_) in enumerate(ENDS.values()):
            words = command if isinstance(command, list) else [command]
            await api.create(POD, pod(f"p{index}", *words))
        for index, (command, phase, code, reason) in enumerate(ENDS.values()):
            done = await api.phase(f"p{index}", "Succeeded", "Failed")
            ended = state_of(done)["state"]["terminated"]
            assert (done["status"]["phase"], ended["exitCode"], ended["reason"]) == (phase, code, reason), command
        said = lambda _: any("nowhere" in words for words in api.events("Failed"))
        await api.until(POD, Key("default", "p0"), said)

    live(settings, story)


TALK = """
import os, socket, sys
rank, master = int(os.environ["RANK"]), os.environ["PET_MASTER_ADDR"]
if rank == 0:
    door = socket.create_server((master, int(os.environ["PET_MASTER_PORT"])))
    print("heard", door.accept()[0].recv(100).decode())
else:
    while True:
        try:
            link = socket.create_connection((master, int(os.environ["PET_MASTER_PORT"])), timeout=60)
            break
        except OSError:
            import time; time.sleep(0.05)
    link.sendall(socket.gethostname().encode())
"""


def couple(job, rank):
    env = [{"name": "RANK", "value": str(rank)}, {"name": "PET_MASTER_PORT", "value": "29500"}]
    env.append({"name": "PET_MASTER_ADDR", "value": f"{job}-node-0-0.{job}"})
    spec = {"hostname": f"{job}-node-0-{rank}", "subdomain": job}
    return pod(f"{job}-{rank}", "python", "-c", TALK, container={"env": env}, **spec)


def test_two_jobs_meet_by_name_on_the_same_port_at_once(settings):
    async def story(api, agent):
        for job in ("red", "blue"):
            for rank in (1, 0):
                await api.create(POD, couple(job, rank))
        for job in ("red", "blue"):
            await api.phase(f"{job}-1", "Succeeded")
            done = await api.phase(f"{job}-0", "Succeeded")
            assert log_of(agent, done) == f"heard {job}-node-0-1\n"

    live(settings, story)


def test_deleting_a_pod_asks_first_and_then_takes_everything_away(settings):
    async def story(api, agent):
        await api.create(POD, pod("a", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"))
        born = await api.phase("a", "Running")
        await api.until(POD, Key("default", "a"), lambda _: log_of(agent, born) == "up\n")
        await api.delete(POD, Key("default", "a"))
        await api.until(POD, Key("default", "a"), lambda pod: pod is None)
        await api.until(NODE, Key("", "n1"), lambda _: not list((agent.config.state / "pods").iterdir()))
        assert ("a", "Succeeded") in api.story

    live(settings, story)


def test_a_stubborn_pod_is_killed_when_its_grace_is_over(settings):
    async def story(api, agent):
        stubborn = pod("a", f"trap '' TERM; setsid sleep {MARK} & sleep {MARK}", terminationGracePeriodSeconds=0)
        await api.create(POD, stubborn)
        await api.phase("a", "Running")
        await api.delete(POD, Key("default", "a"))
        await api.until(POD, Key("default", "a"), lambda pod: pod is None)

    live(settings, story)
    assert MARK not in subprocess.run(["ps", "axo", "args"], capture_output=True, text=True).stdout


def test_the_node_says_what_it_has_and_where_it_listens(settings):
    async def story(api, agent):
        found = await api.until(NODE, Key("", "n1"), lambda node: node is not None and "status" in node)
        assert found["status"]["allocatable"]["cpu"]
        ready = next(c for c in found["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"

    live(settings, story)


def networks_held(pid):
    """Which network namespaces a process keeps by descriptor."""
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed just now
            links.append(os.readlink(entry))
    return sorted(link for link in links if link.startswith("net:"))


@pytest.mark.skipif(not NETWORKED, reason="pods have no network of their own here")
@pytest.mark.parametrize("level", NETWORKED)
def test_a_pod_that_cannot_be_housed_says_so_leaves_nothing_and_is_tried_again(level, tmp_path):
    async def story(api, agent):
        homeless = pod("a", "cat /etc/hostname", hostname="a", subdomain="b")
        place = str(hosts.place_of(homeless))
        zygote = json.loads((agent.config.state / "zygote").read_text())["pid"]
        before = networks_held(zygote)
        agent.neighbours.book[place] = "nowhere"
        await api.create(POD, homeless)
        await api.until(POD, Key("default", "a"), lambda pod: api.events("FailedCreatePodSandBox"))
        assert networks_held(zygote) == before
        agent.neighbours.book[place] = "10.88.3.4"
        assert log_of(agent, await api.phase("a", "Succeeded")) == "a\n"

    live(config(tmp_path / "state", level=level), story)
