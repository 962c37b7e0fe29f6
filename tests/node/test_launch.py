"""Launch documents, profiles, devices, limits, probes and node objects: the small decisions of the node."""

from datetime import UTC, datetime

import pytest

from allaboard.api.errors import AboardError
from allaboard.node import devices, nodes
from allaboard.node.cgroups import Groups, unleash
from allaboard.node.environment import Sources
from allaboard.node.hosts import Person
from allaboard.node.launch import NoCommand, Refused, Setting, launch, twins, user_of
from allaboard.node.levels import Findings
from allaboard.node.limits import Limits, limits_of
from allaboard.node.mounts import Mount
from allaboard.node.probes import Score, after, grpc_request, grpc_verdict, h2_frame, port_of, probe_of
from allaboard.node.profiles import Profile, choose, read_profile
from allaboard.node.steps import Tree

MPI = Profile("mpi", user=Person("mpiuser", 1000, 1000, "/home/mpiuser"), files={"/etc/x": "PATH={PATH}"})


def pod(**spec):
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [], **spec}}


def start(container, setting, **spec):
    return launch({"name": "c", "command": ["run"], **container}, Sources(pod(**spec)), [], setting)


def test_an_isolated_container_gets_its_files_its_user_and_its_path():
    setting = Setting("A", MPI, path=("/env/bin",), hosts="/state/hosts", stage="/s", tree=Tree((("etc", ""),)))
    found = start({}, setting)
    written = {step[1]: step[5] for step in found["steps"] if step[0] == "write"}
    assert written["/s/up/etc/x"].startswith("PATH=/env/bin:/usr/local/sbin")
    assert "mpiuser:x:1000" in written["/s/up/etc/passwd"]
    assert ["volume", "/.old/state/hosts", "/etc/hosts", "", "", ""] in found["steps"]
    assert [step for step in found["become"] if step[0] in ("uid", "gid", "?groups")] == [
        ["?groups", "1000"],
        ["gid", "1000"],
        ["uid", "1000"],
    ]


def test_a_plain_process_gets_addresses_host_paths_and_a_port_of_its_job():
    env = [{"name": "PET_MASTER_ADDR", "value": "j-0.j"}, {"name": "PET_MASTER_PORT", "value": "29500"}]
    env += [{"name": "JAX_COORDINATOR_ADDRESS", "value": "j-0.j:29500"}, {"name": "DATA", "value": "/data/x"}]
    setting = Setting("D", Profile("p"), names={"j-0.j": "127.88.0.2"}, port=29507, scratch="/work", hooks="/hooks")
    container = {"name": "c", "command": ["run", "--in=/data/x"], "env": env}
    found = launch(container, Sources(pod()), [Mount("/host/data", "/data")], setting)
    assert found["env"]["PET_MASTER_ADDR"] == "127.88.0.2"
    assert (found["env"]["PET_MASTER_PORT"], found["env"]["JAX_COORDINATOR_ADDRESS"]) == ("29507", "127.88.0.2:29507")
    assert (found["argv"], found["cwd"]) == (["run", "--in=/host/data/x"], "/work")
    assert found["env"]["DATA"] == "/host/data/x"


USERS = {
    "root where nobody says anything": ({}, {}, Profile("p"), 0),
    "the image's": ({}, {}, MPI, 1000),
    "the pod's": ({}, {"securityContext": {"runAsUser": 7}}, MPI, 7),
    "the container's": ({"securityContext": {"runAsUser": 8}}, {"securityContext": {"runAsUser": 7}}, MPI, 8),
}


@pytest.mark.parametrize(("container", "spec", "profile", "want"), USERS.values(), ids=USERS)
def test_who_a_container_runs_as(container, spec, profile, want):
    assert user_of(pod(**spec), {"name": "c", **container}, Setting("A", profile)).uid == want
    assert user_of(pod(**spec), {"name": "c", **container}, Setting("B", profile, many_users=False)).uid == 0


def test_where_there_is_one_user_he_has_the_images_name_and_home_and_groups_are_no_matter():
    setting = Setting("B", MPI, many_users=False, preload="/c/groups", stage="/s", tree=Tree((("etc", ""),)))
    found = start({}, setting)
    written = {step[1].removeprefix("/s/up/etc/"): step[5] for step in found["steps"] if step[0] == "write"}
    assert written["passwd"].startswith("mpiuser:x:0:0:mpiuser:/home/mpiuser:")
    assert "sshd:x:0:0:" in written["passwd"]
    assert written["ld.so.preload"] == "/run/aboard/groups.so\n"
    assert ["volume", "/.old/c/groups", "/run/aboard/groups.so", "ro", "", ""] in found["steps"]
    assert found["env"]["HOME"] == "/home/mpiuser"
    assert ["uid", "0"] in found["become"]


def test_what_is_not_supported_is_refused_by_name():
    with pytest.raises(Refused, match="privileged is not supported"):
        start({"securityContext": {"privileged": True}}, Setting("A", MPI))
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        with pytest.raises(Refused, match=f"spec.{name} is not supported"):
            start({}, Setting("A", MPI), **{name: True})
    with pytest.raises(Refused, match=r'seccompProfile "mine.json" of this machine is not supported'):
        profile = {"type": "Localhost", "localhostProfile": "mine.json"}
        start({"securityContext": {"seccompProfile": profile}}, Setting("A", MPI))
    for told in ({"command": ["/usr/sbin/sshd", "-D"]}, {"env": [{"name": "HYDRA_HOST_FILE", "value": "/etc/mpi"}]}):
        with pytest.raises(Refused, match="ranks over ssh need a network for every pod"):
            start(told, Setting("D", MPI))
    with pytest.raises(NoCommand):
        start({"command": []}, Setting("A", MPI))
    assert start({"command": []}, Setting("A", Profile("p", command=("sleep", "1"))))["argv"] == ["sleep", "1"]


def test_open_mpi_five_is_told_what_four_was_told():
    assert twins({"OMPI_MCA_orte_default_hostfile": "/h"}) == {"PRTE_MCA_prte_default_hostfile": "/h"}
    assert twins({"OMPI_MCA_orte_default_hostfile": "/h", "PRTE_MCA_prte_default_hostfile": "/mine"}) == {}


TORCH, ANY = Profile("torch", ("pytorch/pytorch*",)), Profile("any", ("*/python*", "python*"))
IMAGES = {
    "by name": ("pytorch/pytorch", "torch", True),
    "with a tag": ("pytorch/pytorch:2.1-cuda", "torch", True),
    "with a digest": ("pytorch/pytorch@sha256:abc", "torch", True),
    "on a registry with a port": ("localhost:5000/python:3", "any", True),
    "unknown": ("strange:1", "default", False),
}


@pytest.mark.parametrize(("image", "want", "known"), IMAGES.values(), ids=IMAGES)
def test_which_profile_stands_for_an_image(image, want, known):
    found = choose(image, (TORCH, ANY), Profile("default"))
    assert (found.profile.name, found.known) == (want, known)


def test_a_profile_is_read_as_it_is_written_and_strange_fields_are_named():
    whole = Profile(
        "x", ("a*",), "/p", ("numpy",), ("/bin",), {"A": "1"}, Person("u", 5, 6, "/h", "/bin/bash"), {"/f": "t"}, ("c",)
    )
    assert read_profile(whole.document()) == whole
    with pytest.raises(AboardError, match='unknown field "imges"'):
        read_profile({"name": "x", "imges": []})


def test_gpus_are_never_given_twice():
    here = devices.fake_devices(["a", "b"], 2)
    first = devices.allot(here, "a", set(), 1)
    second = devices.allot(here, "a", {first[0].id}, 1)
    assert {first[0].id, second[0].id} == {"GPU-fake-a-0", "GPU-fake-a-1"}
    with pytest.raises(devices.NoDevice, match=r"requested 2 nvidia.com/gpu, 1 free on node a"):
        devices.allot(here, "a", {first[0].id}, 2)
    assert devices.capacity(here, "b") == {"nvidia.com/gpu": "2"}


def test_real_gpus_are_shown_by_their_own_nodes_and_ids():
    real = devices.shared_out([("GPU-1", 0), ("GPU-2", 3)], ["a"])
    assert devices.variables(real, any_here=True)["CUDA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert devices.device_nodes(real)[:2] == ("nvidia0", "nvidia3")
    assert devices.variables([], any_here=True)["CUDA_VISIBLE_DEVICES"] == ""
    assert devices.variables([], any_here=False) == {}


def test_limits_are_spoken_in_the_kernels_units():
    found = limits_of(
        {"resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "1"}}}, plain=False
    )
    assert found == Limits(1.5, 2**30, 1.0)
    assert (found.quota(), found.variables()) == ("150000 100000", {"OMP_NUM_THREADS": "2"})
    assert Limits().quota() == "max 100000"
    assert Groups("v2", {})._settings("memory", found) == {"memory.max": str(2**30), "memory.oom.group": "1"}
    assert Groups("v1", {})._settings("cpu", found)["cpu.cfs_quota_us"] == "150000"


@pytest.mark.parametrize(("name", "want"), [("cpu.max", "max"), ("cpu.cfs_quota_us", "-1")])
def test_who_is_killed_gets_processor_time_to_die(tmp_path, name, want):
    (tmp_path / name).write_text("1000 100000")
    unleash([f"{tmp_path}/cgroup.procs", f"{tmp_path}/gone/tasks"])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, want)]


def test_a_probe_concludes_only_at_its_thresholds():
    probe = probe_of({"livenessProbe": {"failureThreshold": 2, "exec": {}}}, "liveness")
    score = Score()
    seen = []
    for answer in (True, False, True, False, False):
        score = after(score, probe, answer)
        seen.append(score.holds)
    assert seen == [True, True, True, True, False]
    assert probe_of({}, "liveness") is None


def test_ports_have_names():
    container = {"name": "c", "ports": [{"name": "web", "containerPort": 80}]}
    assert (port_of(container, "web"), port_of(container, 81), port_of(container, "82")) == (80, 81, 82)
    with pytest.raises(ValueError, match='no port named "x"'):
        port_of(container, "x")


def test_a_grpc_health_check_is_asked_and_its_answer_read():
    assert grpc_request("s").startswith(b"PRI * HTTP/2.0")
    serving = h2_frame(4, 0, 0, b"") + h2_frame(1, 4, 1, b"x") + h2_frame(0, 0, 1, b"\0\0\0\0\x02\x08\x01")
    assert grpc_verdict(serving) == ""
    assert grpc_verdict(serving.replace(b"\x08\x01", b"\x08\x02")) == "service unhealthy"
    assert grpc_verdict(serving[:-3]) is None
    assert grpc_verdict(h2_frame(7, 0, 0, b"")) == "the server closed the call"


LEVELS = {
    "everything, as root": (True, {}, "A"),
    "everything, as somebody": (False, {}, "B"),
    "no veth": (False, {"veth": "no"}, "C"),
    "no network": (True, {"net": "no"}, "C"),
    "no mounts": (True, {"mount": "no"}, "D"),
    "no overlay": (False, {"overlay": "no"}, "D"),
}


@pytest.mark.parametrize(("root", "missing", "want"), LEVELS.values(), ids=LEVELS)
def test_the_level_is_the_best_whose_needs_are_met(root, missing, want):
    items = dict.fromkeys(("mount", "pid", "net", "veth", "overlay"), "") | missing
    found = Findings(root, items)
    assert found.level == want
    assert set(found.misses()) == set(missing)


def test_a_node_says_what_it_has_and_its_heartbeat_moves_no_transition():
    claim = nodes.Claim("n", {"cpu": "2"}, {"zone": "a"}, "127.0.0.1", 10250, nodes.HEALTHY)
    first = nodes.node_status(claim, nodes.Machine(), {}, datetime(2026, 1, 1, tzinfo=UTC))
    second = nodes.node_status(claim, nodes.Machine(), first, datetime(2026, 1, 2, tzinfo=UTC))
    ready = next(c for c in second["conditions"] if c["type"] == "Ready")
    assert (ready["lastTransitionTime"], ready["lastHeartbeatTime"]) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    assert second["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
    assert nodes.node_document(claim, nodes.Machine())["metadata"]["labels"]["zone"] == "a"


FEW = " and this machine's root user, stripped of most rights"
SHARED = {
    "root with sub-users": ((), True, {"users": "", "shift": ""}, "pods share the kernel"),
    "root without": (
        (),
        True,
        {"users": "none"},
        "pods share the kernel and this machine's root user, stripped of most rights",
    ),
    "an account": ((), False, {}, "pods share the kernel and your account"),
    "no network": (("net",), False, {}, "pods share the kernel, your account and this machine's network"),
    "nothing": (("mount",), False, {}, "nothing is isolated: pods share files, network and processes with you"),
}


@pytest.mark.parametrize(("missing", "root", "more", "want"), SHARED.values(), ids=SHARED)
def test_what_pods_share_is_said_in_one_sentence(missing, root, more, want):
    items = {name: "no" if name in missing else "" for name in ("mount", "pid", "net", "veth", "overlay")}
    assert Findings(root, {**items, **more}).not_isolated() == want
