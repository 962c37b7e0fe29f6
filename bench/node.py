"""What pods cost on this machine: started and reaped, idle by the hundred, writing fast, and around `hello`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "node"))

from world import Api, config, log_of, pod, running

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import POD
from allaboard.node.agent import Agent
from allaboard.node.journal import View
from bench.rows import Row

TICKS = os.sysconf("SC_CLK_TCK")
PODS, IN_FLIGHT, IDLE = 300, 8, 300
WRITERS, LINES, SECONDS = 10, 20_000, 5
Story = Callable[[Api, Agent], Coroutine[None, None, list[Row]]]


def measure() -> Iterable[Row]:
    for helper in (True, False):
        yield from asyncio.run(_with_agent(throughput, helper=helper))
    for story in (crowd, flood):
        yield from asyncio.run(_with_agent(story))


async def _with_agent(story: Story, *, helper: bool = True) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        api = Api()
        level = "auto" if helper else "auto-python"
        async with running(api, config(Path(place) / "state", level=level)) as agent:
            return await story(api, agent)


async def throughput(api: Api, agent: Agent) -> list[Row]:
    """Short pods, eight in flight: from the first status to the exit code learned."""
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one(name: str) -> None:
        async with gate:
            await api.create(POD, pod(name, "/bin/true", "x"))
            await api.phase(name, "Succeeded", seconds=60)

    await asyncio.gather(*(one(f"warm-{number}") for number in range(10)))
    workers = [json.loads((agent.config.state / "zygote").read_text())["pid"]]
    workers += [agent.processes.helper_pid] if agent.processes.helper_pid else []
    began, own, theirs = time.perf_counter(), time.process_time(), sum(map(_cpu, workers))
    await asyncio.gather(*(one(f"pod-{number}") for number in range(PODS)))
    rate = PODS / (time.perf_counter() - began)
    cost = 1000 * (time.process_time() - own + sum(map(_cpu, workers)) - theirs) / PODS
    helper = "with" if agent.processes.helper else "without"
    bar = 150 if agent.processes.helper else 60
    return [
        Row(f"pods, start → reaped, level {agent.level}, {helper} the helper", rate, "/s", bar, higher_is_better=True),
        Row(f"CPU per pod, {helper} the helper", cost, "ms"),
    ]


def _cpu(pid: int) -> float:
    """Seconds a process and its reaped children have used."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15])) / TICKS


async def crowd(api: Api, agent: Agent) -> list[Row]:
    """Idle pods by the hundred: what they take of the machine's memory, and whether one reaches all by name."""
    before = _available()
    names = [f"idle-{number}" for number in range(IDLE)]
    for name in names:
        await api.create(POD, _member(name, ["sleep", "1000"]))
    for name in names:
        await api.phase(name, "Running", seconds=180)
    await asyncio.sleep(1)
    used = (before - _available()) / 2**30
    await api.create(POD, _member("caller", ["python3", "-c", CALLER.replace("COUNT", str(IDLE))]))
    await api.phase("caller", "Succeeded", "Failed", seconds=120)
    answered = int(log_of(agent, await api.get(POD, Key("default", "caller"))).split()[-1])
    return [
        Row(f"{IDLE} idle pods: memory in all", used, "GiB", 1.5),
        Row(f"{IDLE} idle pods: reached by name", answered, "pods", IDLE, higher_is_better=True),
    ]


# A closed port that refuses at once is an answer too: the name was found and the machine behind it spoke.
CALLER = """
import socket
answered = 0
for number in range(COUNT):
    try:
        socket.create_connection((f"idle-{number}.crowd", 9), timeout=5).close()
    except ConnectionRefusedError:
        answered += 1
print(answered)
"""


def _member(name: str, command: list[str]) -> Document:
    return pod(name, *command, hostname=name, subdomain="crowd")


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) * 1024


async def flood(api: Api, agent: Agent) -> list[Row]:
    """Ten pods write fast while one of them is followed: nothing is lost, and the agent hardly notices."""
    total = LINES * SECONDS
    for number in range(WRITERS):
        await api.create(POD, pod(f"writer-{number}", "python3", "-c", WRITER.replace("TOTAL", str(total))))
    for number in range(WRITERS):
        await api.phase(f"writer-{number}", "Running", "Succeeded")
    own = time.process_time()
    followed = await _follow(api, agent, "writer-0")
    for number in range(WRITERS):
        await api.phase(f"writer-{number}", "Succeeded", seconds=120)
    share = 100 * (time.process_time() - own) / SECONDS
    logs = [log_of(agent, await api.get(POD, Key("default", f"writer-{number}"))) for number in range(WRITERS)]
    wrong = sum(text.splitlines() != _lines(total) for text in (*logs, followed))
    return [
        Row(f"{WRITERS} pods x {LINES:,} lines/s, one followed: agent", share, "% of a core", 30),
        Row("logs with a line lost or out of order", wrong, "logs", 0),
    ]


def _lines(total: int) -> list[str]:
    return [f"line {number} of a training run that says a lot" for number in range(total)]


WRITER = """
import sys, time
began = time.monotonic()
for number in range(TOTAL):
    sys.stdout.write(f"line {number} of a training run that says a lot\\n")
    if number % 200 == 199:
        sys.stdout.flush()
        time.sleep(max(0, began + number / 20000 - time.monotonic()))
"""


async def _follow(api: Api, agent: Agent, name: str) -> str:
    tenant = agent.tenants[(await api.get(POD, Key("default", name)))["metadata"]["uid"]]
    pieces = [piece async for piece in agent.logs.read(tenant.attempts["main"][-1].place / "log", View(follow=True))]
    return b"".join(pieces).decode()
