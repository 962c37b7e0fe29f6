"""What a pod must not be able to do where it is isolated: each attempt is made for real, as the pod's root."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from world import LEVELS, NOTHING, PATIENCE, WAYS, Api, config, leftovers, log_of, pod, running

from allaboard.api.documents import Key
from allaboard.api.kinds import POD
from allaboard.node import sandbox, syscalls

ISOLATED = [way for way in WAYS if way != "D"]

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
    "keyctl": "import ctypes; r = ctypes.CDLL(None).syscall(250, 0, -3, 1); assert r >= 0",
    "bpf": "import ctypes; r = ctypes.CDLL(None).syscall(321, 0, b'\\0' * 64, 64); assert r >= 0",
    "perf": "import ctypes; r = ctypes.CDLL(None).syscall(298, b'\\0' * 128, 0, -1, -1, 0); assert r >= 0",
    "kexec": "import ctypes; r = ctypes.CDLL(None).syscall(246, 0, 0, 0, 0); assert r == 0",
    "user-namespace": "import ctypes; r = ctypes.CDLL(None).unshare(0x10000000); assert r == 0",
    "new-mount": "import ctypes; r = ctypes.CDLL(None).syscall(430, b'tmpfs', 0); assert r >= 0",
    "handles": "import ctypes; r = ctypes.CDLL(None).syscall(304, -100, b'\\0' * 64, 0); assert r >= 0",
    "host-keys": "import glob; [open(p).read()[0] for p in glob.glob('/etc/ssh/ssh_host_*_key')][0]",
    "host-logs": "import os; assert os.listdir('/var/log') or os.listdir('/var/backups')",
    "top-files": "import os; assert [n for n in os.listdir('/') if os.path.isfile('/' + n)]",
    "lost-and-found": "import os; os.listdir('/lost+found')",
    "host-shadow": "assert ':$' in open('/etc/shadow').read()",
    "memory-of-host": "open('/dev/mem')",
    "disk": "import os; assert [n for n in os.listdir('/dev') if n.startswith(('sd', 'vd', 'nvme', 'mem', 'kmsg'))]",
    "home-of-the-plane": "open({state!r} + '/../keys/admin.token').read()",
    "kill-everyone": "import os; os.kill(1, 9)\nassert False",
    "init-environment": "assert open('/proc/1/environ').read()",
    "init-memory": "assert open('/proc/1/mem', 'rb')",
    "module": "import ctypes; r = ctypes.CDLL(None).syscall(175, b'', 0, b''); assert r == 0",
}
# A file the container makes for itself is its own business; the host must not have it.
OWN = {"write-usr", "write-etc"}


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


HOME = {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w", "subPath": "link"}]}


@pytest.mark.parametrize("level", ISOLATED)
@pytest.mark.parametrize("link", ["/etc", "../../../../../../../../../etc", "../.."])
def test_a_link_in_a_volume_does_not_lead_to_the_host(tmp_path, level, link):
    async def story():
        api = Api()
        volumes = [{"name": "v", "hostPath": {"path": str(tmp_path / "shared")}}]
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared" / "link").symlink_to(link)
        async with running(api, config(tmp_path / "state", level=level, host_paths=(str(tmp_path),))):
            await api.create(POD, pod("a", "touch /w/was-here", container=HOME, volumes=volumes))
            done = await api.phase("a", "Failed")
            return done["status"]["containerStatuses"][0]["state"]["terminated"]

    ended = asyncio.run(story())
    assert ended["reason"] == "StartError"
    assert "subPath link" in ended["message"]


@pytest.mark.parametrize("level", ISOLATED)
def test_a_part_of_a_volume_is_made_and_shown(tmp_path, level):
    async def story():
        api = Api()
        mounts = [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w", "subPath": "a/b"}]
        async with running(api, config(tmp_path / "state", level=level)) as agent:
            volumes = [{"name": "v", "emptyDir": {}}]
            line = "echo hello > /w/x; cat /v/a/b/x"
            await api.create(POD, pod("a", line, container={"volumeMounts": mounts}, volumes=volumes))
            return log_of(agent, await api.phase("a", "Succeeded"))

    assert asyncio.run(story()) == "hello\n"


@pytest.mark.parametrize("level", ISOLATED)
def test_neighbours_do_not_see_each_others_processes_or_secrets(tmp_path, level):
    async def story():
        api = Api()
        async with running(api, config(tmp_path / "state", level=level)) as agent:
            hidden = {"env": [{"name": "SECRET", "value": "hush-hush"}]}
            await api.create(POD, pod("keeper", "sleep 3131.25; true", container=hidden))
            await api.phase("keeper", "Running")
            files = "grep -r hush /dev/shm /run /tmp /var/lib 2>/dev/null"
            line = f"cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; {files}; true"
            await api.create(POD, pod("snoop", line))
            return log_of(agent, await api.phase("snoop", "Succeeded"))

    heard = asyncio.run(story())
    assert "hush-hush" not in heard
    assert "3131.25" not in heard


@pytest.mark.slow
@pytest.mark.parametrize("level", WAYS)
def test_two_hundred_pods_leave_nothing_behind(tmp_path, level):
    state, mark = tmp_path / "state", f"99099.{os.getpid()}"

    async def story():
        api = Api()
        async with running(api, config(state, level=level)) as agent:
            for batch in range(10):
                names = [f"p{batch}-{index}" for index in range(20)]
                for index, name in enumerate(names):
                    line = "true" if index % 4 else f"setsid sleep {mark} & sleep {mark}"
                    volumes = [{"name": "v", "emptyDir": {"medium": "Memory"} if index % 2 else {}}]
                    await api.create(POD, pod(name, line, volumes=volumes, terminationGracePeriodSeconds=0))
                for index, name in enumerate(names):
                    await api.phase(name, "Running" if index % 4 == 0 else "Succeeded")
                    await api.delete(POD, Key("default", name))
                for name in names:
                    await api.until(POD, Key("default", name), lambda doc: doc is None)
            async with asyncio.timeout(PATIENCE):
                while agent.tenants or list((state / "pods").iterdir()):
                    await asyncio.sleep(0.05)
            of_all = agent.provision.tree.cover  # the one layer all of them stood on
            assert [str(path) for path in agent.provision.volatile.iterdir()] == [of_all] * bool(of_all)

    asyncio.run(story())
    assert mark not in subprocess.run(["ps", "axo", "args"], capture_output=True, text=True).stdout
    assert leftovers(state) == NOTHING


AS_ROOT = pytest.mark.skipif("A" not in LEVELS, reason="level A: run as root where namespaces are allowed")


@AS_ROOT
@pytest.mark.parametrize("level", ["A", "A-python"])
def test_a_hidden_folder_that_is_made_later_is_hidden_too(tmp_path, level):
    later = Path(f"/var/lib/aboard-test-{os.getpid()}")

    async def story():
        api = Api()
        async with running(api, config(tmp_path / "state", level=level, hidden=(str(later),))) as agent:
            await api.create(POD, pod("before", f"ls {later}"))
            await api.phase("before", "Failed")
            later.mkdir()
            (later / "secret").write_text("x")
            await api.create(POD, pod("after", f"cat {later}/secret; ls {later}; mkdir {later} && ls -a {later}"))
            return log_of(agent, await api.phase("after", "Succeeded", "Failed")).splitlines()

    try:
        said = asyncio.run(story())
    finally:
        shutil.rmtree(later, ignore_errors=True)
    assert said[-2:] == [".", ".."]  # the name is free, and nothing of the host is behind it


@AS_ROOT
def test_nobody_takes_a_piece_from_the_layer_that_covers(tmp_path):
    place = tmp_path / "cover"
    sandbox.sealed_layer(place, [["cover", f"{place}/home", "755"], ["nothing", f"{place}/secret"]])
    try:
        for wrong in ((place / "home").rmdir, (place / "secret").unlink, (place / "more").mkdir):
            with pytest.raises(OSError, match="Read-only"):
                wrong()
        sandbox.sealed_layer(place, [["unknown"]])  # it is there already
    finally:
        syscalls.unmount(str(place))


@AS_ROOT
def test_a_layer_that_was_never_finished_is_made_again(tmp_path):
    place = tmp_path / "cover"
    with pytest.raises(FileNotFoundError):
        sandbox.sealed_layer(place, [["mkdir", f"{place}/half", "755"], ["mkdir", f"{place}/no/such", "755"]])
    sandbox.sealed_layer(place, [["mkdir", f"{place}/whole", "755"]])
    try:
        assert os.listdir(place) == ["whole"]
    finally:
        syscalls.unmount(str(place))
