"""Plain processes on a system that is not Linux: no /proc, no descriptors of processes, no reaper, no inotify.

`ABOARD_PORTABLE` asks for the ways that every Unix has; here they are held against those of Linux.
"""

import asyncio
import os
import signal
import subprocess
import sys
from ipaddress import IPv4Network

import pytest
from outside import MARK, Lonely, code_of, last_phase, processes_with
from world import NOTHING, Api, config, leftovers, log_of, opened, pod, running

from allaboard.api.documents import Key
from allaboard.api.kinds import POD
from allaboard.node import families, levels, machine, portable, procfs, syscalls
from allaboard.node.families import Grip

linux = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc to hold it against")


@pytest.fixture
def lonely(tmp_path):
    made = Lonely(tmp_path, "D", ABOARD_PORTABLE="1")
    yield made
    made.clean_up()
    assert leftovers(made.state) == NOTHING
    assert not processes_with(MARK)


@pytest.fixture
def child():
    with subprocess.Popen(["sleep", MARK]) as process:
        yield process
        process.kill()


@linux
def test_both_see_the_same_processes(child):
    ours = {entry for entry in portable.table() if entry[0] in (os.getpid(), child.pid)}
    assert ours == {entry for entry in procfs.table() if entry[0] in (os.getpid(), child.pid)}
    assert abs(portable.resident(os.getpid()) - procfs.resident(os.getpid())) < 2**24
    assert abs(portable.machine_use()[0] - procfs.machine_use()[0]) < 2**31
    assert abs(portable.processor_seconds(os.getpid()) - procfs.processor_seconds(os.getpid())) < 60


@pytest.mark.parametrize("twin", [portable, procfs], ids=["portable", "procfs"])
def test_a_process_is_the_same_until_it_ends_also_while_nobody_buries_it(child, twin):
    born = twin.start_ticks(child.pid)
    assert twin.is_same(child.pid, born) and not twin.is_same(child.pid, born - 10**6)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid not in {pid for pid, _ in twin.table()}
    child.wait()
    assert not twin.is_same(child.pid, born)
    assert (twin.resident(child.pid), twin.processor_seconds(child.pid)) == (0, 0.0)


def held(pid):
    return Grip(pid, portable.start_ticks(pid), portable.descriptor_of(pid))


@pytest.fixture
def by_looking(monkeypatch):
    monkeypatch.setattr(families, "is_same", portable.is_same)


def test_an_end_is_found_by_looking(child, by_looking):
    grip = held(child.pid)
    assert not grip.wait(0)
    grip.send(signal.SIGTERM)
    assert grip.wait(60) and grip.is_over()
    child.wait()
    grip.send(signal.SIGKILL)  # to nobody: also not to who has the number now
    grip.let_go()


def test_who_is_gone_cannot_be_held(child):
    child.kill()
    child.wait()
    with pytest.raises(ProcessLookupError):
        portable.descriptor_of(child.pid)


def test_the_boot_has_a_name_where_the_kernel_gives_it_elsewhere(tmp_path, monkeypatch):
    tool = tmp_path / "sysctl"
    tool.write_text('#!/bin/sh\n[ "$2" = kern.bootsessionuuid ] && echo 1234-ABCD\n')
    tool.chmod(0o755)
    monkeypatch.setattr(machine, "BOOT", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert machine.boot_id() == "1234-ABCD"


def test_a_machine_that_answers_at_one_address_gives_that_to_all():
    assert machine.loopback(IPv4Network("192.0.2.0/24")) == machine.ONE
    assert machine.loopback(machine.ONE) == machine.ONE


def test_a_pod_runs_ends_and_takes_its_orphans_along(lonely):
    lonely.start()
    lonely.put(pod("ends", f"sleep {MARK} & (sleep {MARK} &) ; exit 5"))
    lonely.put(pod("killed", "kill -9 $$$$"))
    lonely.until(lambda s: last_phase(s, "ends") == last_phase(s, "killed") == "Failed")
    found = lonely.statuses()
    assert [code_of(found[name][-1]) for name in ("ends", "killed")] == [5, 137]
    assert not processes_with(MARK)


def test_an_agent_that_starts_again_finds_its_pods(lonely):
    during = lonely.gate.to(pod("during", f"{opened('during')}; exit 5"))
    lonely.start()
    lonely.put(during)
    lonely.put(lonely.gate.to(pod("after", f"{opened('after')}; exit 6")))
    lonely.put(pod("stays", f"sleep {MARK}"))
    lonely.until(lambda s: all(last_phase(s, name) == "Running" for name in ("during", "after", "stays")))
    lonely.kill()
    lonely.gate.open("during")
    lonely.until(lambda _: lonely.ended(during))
    lonely.start()
    lonely.gate.open("after")
    lonely.until(lambda s: last_phase(s, "during") == last_phase(s, "after") == "Failed")
    found = lonely.statuses()
    assert [code_of(found[name][-1]) for name in ("during", "after")] == [5, 6]
    assert last_phase(found, "stays") == "Running"


def test_too_much_memory_is_seen(lonely):
    hog = "x = bytearray(300 * 2**20)\nimport time\ntime.sleep(3000)"
    limit = {"resources": {"limits": {"memory": "100Mi"}}}
    lonely.start()
    lonely.put(pod("hog", "python", "-c", hog, container=limit))
    lonely.until(lambda s: last_phase(s, "hog") == "Failed")
    ended = lonely.statuses()["hog"][-1]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


MEET = """
import os, socket, time
master = (os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"]))
if os.environ["RANK"] == "0":
    print("heard", socket.create_server(master).accept()[0].recv(100).decode())
else:
    while True:
        try:
            link = socket.create_connection(master, timeout=60)
            break
        except OSError:
            time.sleep(0.05)
    link.sendall(socket.gethostname().encode())
"""


def test_two_jobs_meet_where_the_machine_has_one_address_only(tmp_path, monkeypatch):
    """Other systems answer at 127.0.0.1 alone; and without inotify logs are looked at."""

    def none():
        raise AttributeError("inotify_init1")

    async def story():
        api = Api()
        settings = config(tmp_path / "state", level="D", loopback=IPv4Network("127.0.0.1/32"))
        async with running(api, settings) as agent:
            for job in ("red", "blue"):
                for rank in ("1", "0"):
                    names = {"RANK": rank, "PET_MASTER_PORT": "29500", "PET_MASTER_ADDR": f"{job}-0.{job}"}
                    env = [{"name": name, "value": value} for name, value in names.items()]
                    spec = {"hostname": f"{job}-{rank}", "subdomain": job}
                    await api.create(POD, pod(f"{job}-{rank}", "python", "-c", MEET, container={"env": env}, **spec))
            ends = [await api.phase(f"{job}-0", "Succeeded", "Failed") for job in ("red", "blue")]
            return [log_of(agent, end) for end in ends], {end["status"]["podIP"] for end in ends}

    monkeypatch.setattr(syscalls, "inotify_open", none)
    assert asyncio.run(story()) == (["heard red-1\n", "heard blue-1\n"], {"127.0.0.1"})


def test_a_log_grows_where_the_kernel_tells_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(syscalls, "inotify_open", lambda: (_ for _ in ()).throw(AttributeError("inotify_init1")))

    async def story():
        api = Api()
        async with running(api, config(tmp_path / "state", level="D")) as agent:
            await api.create(POD, pod("a", f"echo one; sleep {MARK}"))
            born = await api.phase("a", "Running")
            index = agent.config.state / "pods" / born["metadata"]["uid"] / "main.0" / "log.index"
            await api.until(POD, Key("default", "a"), lambda _: index.exists() and index.stat().st_size >= 16)

    asyncio.run(story())


def test_another_system_is_told_what_it_lacks_and_where_it_is(monkeypatch):
    monkeypatch.setattr(levels.sys, "platform", "darwin")
    found = levels.probe()
    assert (found.level, found.items) == ("D", {"platform": "darwin has no namespaces"})
    assert "Linux" in found.misses()["platform"]


IMPORTS = """
import os, socket
del os.pidfd_open, os.pipe2, os.O_PATH, os.sched_getaffinity, socket.AF_NETLINK, socket.MSG_CMSG_CLOEXEC
os.environ["ABOARD_PORTABLE"] = "1"
from allaboard.node import agent, zygote
"""


def test_nothing_is_loaded_that_other_systems_lack():
    """What follows is done by the tests above: this one is about names that are looked up while modules load."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
