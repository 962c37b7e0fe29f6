"""What a pod must not be able to do where it is isolated: each attempt is made for real, as the pod's root."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from world import LEVELS, Api, config, log_of, pod, processes_of, running

from allaboard.api.documents import Key
from allaboard.api.kinds import POD
from allaboard.node.provision import short_name

ISOLATED = [level for level in LEVELS if level != "D"]

# Each line is one attempt; it prints its name only when it succeeds.
ATTEMPTS = {
    "write-usr": "open('/usr/aboard-was-here', 'w').close(); check('/usr/aboard-was-here')",
    "write-etc": "open('/etc/aboard-was-here', 'w').close(); check('/etc/aboard-was-here')",
    "mount": "import ctypes; r = ctypes.CDLL(None).mount(b'tmpfs', b'/mnt', b'tmpfs', 0, None); assert r == 0",
    "umount": "import ctypes; r = ctypes.CDLL(None).umount2(b'/etc/hosts', 2); assert r == 0",
    "unshare": "import ctypes; r = ctypes.CDLL(None).unshare(0x00020000); assert r == 0",
    "mknod": "import os, stat; os.mknod('/tmp/disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0)); open('/tmp/disk')",
    "sysrq": "open('/proc/sysrq-trigger', 'w').write('h')\nassert open('/proc/sysrq-trigger').read() is None",
    "sysctl": "open('/proc/sys/kernel/panic', 'w').write('1')",
    "signal": "import os; os.kill({pid}, 0)",
    "ptrace": "import ctypes; r = ctypes.CDLL(None).ptrace(16, 1, 0, 0); assert r == 0",
    "peek-init": "import os; [os.readlink('/proc/1/fd/' + name) for name in os.listdir('/proc/1/fd')]",
    "see-host-processes": "import os; assert len([n for n in os.listdir('/proc') if n.isdigit()]) > 20",
    "state": "import os; assert 'pods' in os.listdir({state!r})",
    "sethostname": "import socket; socket.sethostname('mine')",
    "other-host-home": "import os; assert 'secret' in os.listdir('/root')",
    "chroot-escape": "import os; os.chroot('/proc/1/root'); assert os.path.exists({state!r} + '/zygote')",
    "reboot": "import ctypes; r = ctypes.CDLL(None).reboot(0); assert r == 0",
    "module": "import ctypes; r = ctypes.CDLL(None).syscall(175, b'', 0, b''); assert r == 0",
}
# A file the container makes for itself is its own business; the host must not have it.
OWN = {"write-usr", "write-etc", "unshare"}


def script(state):
    lines = ["import sys", "def check(path): pass"]
    for name, code in ATTEMPTS.items():
        body = code.replace("{pid}", str(os.getpid())).replace("{state!r}", repr(str(state))).replace("\n", "\n    ")
        lines += ["try:", f"    {body}", f"    print({name!r}, flush=True)", "except BaseException: pass"]
    return "\n".join(lines)


@pytest.mark.parametrize("level", ISOLATED)
def test_a_pod_cannot_reach_the_host_or_its_neighbours(tmp_path, level):
    async def story():
        api = Api()
        async with running(api, config(tmp_path / "state", level=level)) as agent:
            await api.create(POD, pod("a", "python", "-c", script(agent.config.state)))
            return log_of(agent, await api.phase("a", "Succeeded", "Failed")).split()

    done = set(asyncio.run(story()))
    assert done <= OWN, done
    assert not Path("/usr/aboard-was-here").exists()
    assert not Path("/etc/aboard-was-here").exists()


@pytest.mark.parametrize("level", ISOLATED)
def test_neighbours_do_not_see_each_others_processes_or_secrets(tmp_path, level):
    async def story():
        api = Api()
        async with running(api, config(tmp_path / "state", level=level)) as agent:
            hidden = {"env": [{"name": "SECRET", "value": "hush-hush"}]}
            await api.create(POD, pod("keeper", "sleep 31.25; true", container=hidden))
            await api.phase("keeper", "Running")
            files = "grep -r hush /dev/shm /run /tmp /var/lib 2>/dev/null"
            line = f"cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; {files}; true"
            await api.create(POD, pod("snoop", line))
            return log_of(agent, await api.phase("snoop", "Succeeded"))

    heard = asyncio.run(story())
    assert "hush-hush" not in heard
    assert "31.25" not in heard


def leftovers(state):
    """Everything the pods of an agent may leave on the host."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout.count("\n")
    mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
    groups = list(Path("/sys/fs/cgroup").glob(f"*/**/aboard-{short_name(state)}"))
    memory = list(Path("/dev/shm").glob(f"*{short_name(state)}"))
    return {"links": links, "mounts": mounts, "groups": groups, "memory": memory, "processes": processes_of(state)}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_two_hundred_pods_leave_nothing_behind(tmp_path, level):
    state = tmp_path / "state"
    before = leftovers(state)

    async def story():
        api = Api()
        async with running(api, config(state, level=level)) as agent:
            for batch in range(10):
                names = [f"p{batch}-{index}" for index in range(20)]
                for index, name in enumerate(names):
                    line = "true" if index % 4 else "setsid sleep 99.75 & sleep 99.75"
                    volumes = [{"name": "v", "emptyDir": {"medium": "Memory"} if index % 2 else {}}]
                    await api.create(POD, pod(name, line, volumes=volumes, terminationGracePeriodSeconds=0))
                for index, name in enumerate(names):
                    await api.phase(name, "Running" if index % 4 == 0 else "Succeeded")
                    await api.delete(POD, Key("default", name))
                for name in names:
                    await api.until(POD, Key("default", name), lambda doc: doc is None)
            async with asyncio.timeout(20):
                while agent.tenants or list((state / "pods").iterdir()):
                    await asyncio.sleep(0.05)
            assert not list(agent.provision.volatile.iterdir())

    asyncio.run(story())
    assert "sleep 99.75" not in subprocess.run(["ps", "axo", "args"], capture_output=True, text=True).stdout
    assert leftovers(state) == before
