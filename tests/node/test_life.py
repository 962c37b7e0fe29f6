"""Whole pods with real processes: order, restarts, probes, hooks, volumes, limits, devices, and bad input."""

import asyncio
import base64
import zipfile
from datetime import timedelta

import pytest
from world import (
    LEVELS,
    NOTHING,
    WAYS,
    Api,
    Gate,
    config,
    free_port,
    leftovers,
    log_of,
    opened,
    pod,
    running,
    state_of,
)

from allaboard.api.documents import Key, dig
from allaboard.api.kinds import CONFIG_MAP, NODE, POD, SECRET, VOLUME
from allaboard.node.hosts import Person
from allaboard.node.profiles import Profile

A = Key("default", "a")
WAIT = "while :; do sleep 0.02; done"


@pytest.fixture(params=[*LEVELS, *(pytest.param(way, marks=pytest.mark.slow) for way in WAYS if way not in LEVELS)])
def level(request):
    return request.param


@pytest.fixture
def best():
    return LEVELS[0]


def live(tmp_path, level, story, **more):
    async def go():
        api = Api()
        async with running(api, config(tmp_path / "state", level=level, **more)) as agent:
            return await story(api, agent)

    return asyncio.run(go())


def extra(name, line, **more):
    return {"name": name, "image": "python", "command": ["sh", "-c", line], **more}


def test_inits_then_a_sidecar_then_the_main_and_the_sidecar_goes_last(tmp_path, level):
    async def story(api, agent):
        shared = [{"name": "shared", "mountPath": "/shared"}]
        one = extra("one", "echo one >> /shared/story", volumeMounts=shared)
        side = extra(
            "side",
            "trap 'exit 0' TERM; echo side >> /shared/story; " + WAIT,
            restartPolicy="Always",
            volumeMounts=shared,
        )
        two = extra(
            "two",
            "while ! grep -q side /shared/story; do sleep 0.02; done; echo two >> /shared/story",
            volumeMounts=shared,
        )
        main = "cat /shared/story"
        wanted = pod(
            "a",
            main,
            container={"volumeMounts": shared},
            initContainers=[one, side, two],
            volumes=[{"name": "shared", "emptyDir": {}}],
        )
        if level == "D":  # a plain process sees the volume where it is
            for container in (one, side, two, wanted["spec"]["containers"][0]):
                container["command"][2] = f"D=$SHARED; {container['command'][2].replace('/shared', '$D')}"
                container["env"] = [{"name": "SHARED", "value": "/shared"}]
        await api.create(POD, wanted)
        done = await api.phase("a", "Succeeded", "Failed")
        assert done["status"]["phase"] == "Succeeded"
        assert log_of(agent, done) == "one\nside\ntwo\n"
        assert state_of(done, "side", "initContainerStatuses")["state"]["terminated"]["exitCode"] == 0

    live(tmp_path, level, story)


def test_a_failing_container_comes_back_later_each_time_and_keeps_its_past(tmp_path, level):
    async def story(api, agent):
        await api.create(POD, pod("a", "echo try; exit 9", restartPolicy="OnFailure"))
        count = lambda doc: state_of(doc)["restartCount"] if doc.get("status", {}).get("containerStatuses") else 0
        found = await api.until(POD, A, lambda doc: doc is not None and count(doc) >= 3)
        assert found["status"]["phase"] == "Running"
        assert state_of(found)["lastState"]["terminated"]["exitCode"] == 9
        await api.until(POD, A, lambda doc: "CrashLoopBackOff" in str(doc.get("status")))
        await api.until(POD, A, lambda _: api.events("BackOff"))

    live(tmp_path, level, story)


def is_ready(document):
    return "containerStatuses" in (document or {}).get("status", {}) and state_of(document)["ready"]


def test_probes_decide_readiness_and_life(tmp_path, level):
    gate, quick = Gate(tmp_path), {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 60}
    # A shell, because plain processes find the gate by its variable.
    ask = lambda name: {"exec": {"command": ["sh", "-c", f"test -e $GATE/{name}"]}, **quick}

    async def story(api, agent):
        probes = {"readinessProbe": ask("ready"), "livenessProbe": ask("alive")}
        gate.open("alive")
        await api.create(POD, gate.to(pod("a", WAIT, container=probes, restartPolicy="Always")))
        await api.until(POD, A, lambda _: any("Readiness probe failed" in words for words in api.events("Unhealthy")))
        assert (api.documents[POD, A]["status"]["phase"], is_ready(api.documents[POD, A])) == ("Running", False)
        gate.open("ready")
        await api.until(POD, A, is_ready)
        assert state_of(api.documents[POD, A])["restartCount"] == 0
        gate.close("alive")
        await api.until(POD, A, lambda doc: state_of(doc)["restartCount"] >= 1)
        assert any("Liveness probe failed" in words for words in api.events("Unhealthy"))

    live(tmp_path, level, story)


def test_a_port_is_probed_by_http_and_tcp(tmp_path, level):
    async def story(api, agent):
        port = free_port()
        serve = ["python", "-m", "http.server", str(port)]
        probe = {"periodSeconds": 1, "failureThreshold": 999, "timeoutSeconds": 60}
        both = {
            "startupProbe": {"tcpSocket": {"port": "web"}, **probe},
            "readinessProbe": {"httpGet": {"path": "/", "port": port}, **probe},
        }
        await api.create(POD, pod("a", *serve, container={"ports": [{"name": "web", "containerPort": port}], **both}))
        await api.until(POD, A, is_ready)

    live(tmp_path, level, story)


def test_hooks_run_after_the_start_and_before_the_end(tmp_path, level):
    async def story(api, agent):
        hooks = {
            "postStart": {"exec": {"command": ["sh", "-c", "touch /tmp/hooked-$POD"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "touch /tmp/stopping-$POD"]}},
        }
        line = "trap 'ls /tmp/*-$POD; rm /tmp/*-$POD; exit 0' TERM; echo up; " + WAIT
        env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]
        await api.create(POD, pod("a", line, container={"lifecycle": hooks, "env": env}))
        born = await api.phase("a", "Running")
        path = next((agent.config.state / "pods").glob("*/main.0/log"))
        await api.until(POD, A, lambda _: path.read_text() == "up\n")
        with open(path) as file:
            await api.delete(POD, A)
            await api.until(POD, A, lambda doc: doc is None)
            uid = born["metadata"]["uid"]
            assert file.read() == f"up\n/tmp/hooked-{uid}\n/tmp/stopping-{uid}\n"

    live(tmp_path, level, story)


def test_a_hook_that_fails_ends_the_container(tmp_path, best):
    async def story(api, agent):
        hook = {"postStart": {"exec": {"command": ["false"]}}}
        await api.create(POD, pod("a", WAIT, container={"lifecycle": hook}))
        done = await api.phase("a", "Failed")
        assert state_of(done)["state"]["terminated"]["exitCode"] == 137
        assert api.events("FailedPostStartHook") == ["PostStartHook failed: command exited with 1"]

    live(tmp_path, best, story)


VOLUMES = [
    {"name": "cm", "configMap": {"name": "c", "items": [{"key": "k", "path": "sub/file", "mode": 0o400}]}},
    {"name": "sec", "secret": {"secretName": "s", "defaultMode": 0o400}},
    {"name": "down", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"name": "mem", "emptyDir": {"medium": "Memory"}},
]


def test_volumes_show_objects_and_follow_their_changes(tmp_path, best):
    async def story(api, agent):
        await api.create(CONFIG_MAP, {"metadata": {"name": "c", "namespace": "default"}, "data": {"k": "one"}})
        secret = {"token": base64.b64encode(b"hush").decode()}
        await api.create(SECRET, {"metadata": {"name": "s", "namespace": "default"}, "data": secret})
        places = {"cm": "/data/cm", "sec": "/var/run/secrets/x", "down": "/opt/deep/er", "mem": "/dev/shm"}
        mounts = [{"name": name, "mountPath": path} for name, path in places.items()]
        line = (
            "cat /data/cm/sub/file /var/run/secrets/x/token /opt/deep/er/name; "
            "stat -Lc %a /data/cm/sub/file; touch /dev/shm/x; "
            "while grep -q one /data/cm/sub/file; do sleep 0.02; done; cat /data/cm/sub/file"
        )
        await api.create(POD, pod("a", line, container={"volumeMounts": mounts}, volumes=VOLUMES))
        born = await api.phase("a", "Running")
        await api.until(POD, A, lambda _: log_of(agent, born) == "onehusha400\n")
        await api.update(CONFIG_MAP, {**api.documents[CONFIG_MAP, Key("default", "c")], "data": {"k": "two"}})
        done = await api.phase("a", "Succeeded", "Failed")
        assert log_of(agent, done) == "onehusha400\ntwo"

    live(tmp_path, best, story, refresh=timedelta(milliseconds=100))


def test_an_environment_from_everywhere(tmp_path, level):
    async def story(api, agent):
        await api.create(CONFIG_MAP, {"metadata": {"name": "c", "namespace": "default"}, "data": {"K": "cm"}})
        env = [
            {"name": "A", "value": "$(X_K)-$(NOPE)-$$(X_K)"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        ]
        source = {"envFrom": [{"prefix": "X_", "configMapRef": {"name": "c"}}], "env": env}
        source["resources"] = {"limits": {"cpu": "1500m"}}
        await api.create(POD, pod("a", "echo $A $NODE $CPU $HOSTNAME $OMP_NUM_THREADS; test -n $IP", container=source))
        done = await api.phase("a", "Succeeded")
        assert log_of(agent, done) == "cm-$(NOPE)-$(X_K) n1 1500 a 2\n"

    live(tmp_path, level, story)


BAD = {
    "no such secret": (
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, {},
        "CreateContainerConfigError", 'secret "s" not found',
    ),
    "a secret without that key": (
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "there", "key": "gone"}}}]}, {},
        "CreateContainerConfigError", 'couldn\'t find key gone in Secret default/there',
    ),
    "no command": ({"command": []}, {}, "CreateContainerError", "no command specified"),
    "two mounts in one place": (
        {"volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x/"}]},
        {"volumes": [{"name": "v", "emptyDir": {}}]}, "CreateContainerConfigError", 'mountPath "/x" is used twice',
    ),
    "privileged": ({"securityContext": {"privileged": True}}, {}, "CreateContainerConfigError", "is not supported"),
    "a root that must not be": (
        {"securityContext": {"runAsNonRoot": True}}, {}, "CreateContainerConfigError", "image will run as root",
    ),
    "more devices than there are": (
        {"resources": {"limits": {"nvidia.com/gpu": "9"}}}, {}, "CreateContainerError", "requested 9 nvidia.com/gpu",
    ),
}  # fmt: skip


def test_what_cannot_be_started_says_why_and_the_node_stays_well(tmp_path, best):
    async def story(api, agent):
        await api.create(SECRET, {"metadata": {"name": "there", "namespace": "default"}, "data": {"k": "eA=="}})
        for index, (container, spec, _, _) in enumerate(BAD.values()):
            await api.create(POD, pod(f"p{index}", "true", container=container, **spec))
        for index, (_, _, reason, words) in enumerate(BAD.values()):
            state = lambda doc: dig(doc, "status", "containerStatuses", 0, "state", "waiting", default={})
            found = await api.until(POD, Key("default", f"p{index}"), lambda doc, s=state: s(doc).get("message"))
            assert state(found)["reason"] == reason
            assert words in state(found)["message"]
        await api.create(POD, pod("a", "true"))
        await api.phase("a", "Succeeded")

    live(tmp_path, best, story)


ABSURD = {
    "memory for nothing": ({"limits": {"memory": "1"}}, "Failed", ("OOMKilled", "StartError", "Error")),
    "memory for everything": ({"limits": {"memory": "8Ei"}}, "Succeeded", ("Completed",)),
    "a processor's thousandth": ({"limits": {"cpu": "1m"}}, "Succeeded", ("Completed",)),
    "a million processors": (
        {"limits": {"cpu": "1000000"}, "requests": {"cpu": "1000000"}},
        "Succeeded",
        ("Completed",),
    ),
}


@pytest.mark.parametrize(("resources", "phase", "reasons"), ABSURD.values(), ids=ABSURD)
def test_absurd_limits_end_a_pod_or_do_not_matter_to_it(tmp_path, best, resources, phase, reasons):
    async def story(api, agent):
        await api.create(POD, pod("a", "/bin/true", "x", container={"resources": resources}))
        done = await api.phase("a", "Succeeded", "Failed")
        if agent.provision.groups.keeps("memory"):  # a watchdog does not see what ends at once
            assert done["status"]["phase"] == phase
            assert state_of(done)["state"]["terminated"]["reason"] in reasons
        await api.create(POD, pod("b", "true"))
        await api.phase("b", "Succeeded")

    live(tmp_path, best, story)


def test_a_volume_that_may_not_be_written_says_so_to_who_tries(tmp_path, level):
    async def story(api, agent):
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}]}
        await api.create(POD, pod("a", "touch /v/x", container=mount, volumes=[{"name": "v", "emptyDir": {}}]))
        done = await api.phase("a", "Failed")
        assert "Read-only file system" in log_of(agent, done)

    if level[0] == "D":
        pytest.skip("plain processes see the directory itself: level D isolates nothing")
    live(tmp_path, level, story)


def test_output_that_is_no_text_is_kept_as_it_is(tmp_path, level):
    async def story(api, agent):
        line = r"import sys; sys.stdout.buffer.write(bytes(range(256)) * 40); sys.exit(3)"
        await api.create(POD, pod("a", "python", "-c", line, container={"terminationMessagePolicy": FALLBACK}))
        done = await api.phase("a", "Failed")
        log = agent.config.state / "pods" / done["metadata"]["uid"] / "main.0" / "log"
        assert log.read_bytes() == bytes(range(256)) * 40
        assert len(state_of(done)["state"]["terminated"]["message"]) > 100

    live(tmp_path, level, story)


FALLBACK = "FallbackToLogsOnError"


def test_a_missing_volume_source_is_waited_for(tmp_path, best):
    async def story(api, agent):
        volume = {"name": "v", "configMap": {"name": "late"}}
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        await api.create(POD, pod("a", "cat /v/k", container=mount, volumes=[volume]))
        await api.until(NODE, Key("", "n1"), lambda _: api.events("FailedMount"))
        assert api.events("FailedMount") == ['MountVolume.SetUp failed: configmap "late" not found']
        await api.create(CONFIG_MAP, {"metadata": {"name": "late", "namespace": "default"}, "data": {"k": "v"}})
        assert log_of(agent, await api.phase("a", "Succeeded")) == "v"

    live(tmp_path, best, story)


HOG = "x = bytearray(300 * 2**20)\nimport time\ntime.sleep(3000)"


def test_too_much_memory_is_oomkilled(tmp_path, level):
    async def story(api, agent):
        limit = {"resources": {"limits": {"memory": "100Mi"}}}
        await api.create(POD, pod("a", "python", "-c", HOG, container=limit))
        done = await api.phase("a", "Failed")
        ended = state_of(done)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")

    live(tmp_path, level, story)


def test_a_script_that_forks_for_ever_does_not_hurt_the_node(tmp_path, best):
    async def story(api, agent):
        agent.provision.groups.processes = 60
        await api.create(POD, pod("bomb", "while :; do sleep 60 & done", container={"image": "python"}))
        await api.phase("bomb", "Running", "Failed")
        await api.create(POD, pod("a", "true"))
        await api.phase("a", "Succeeded")
        await api.delete(POD, Key("default", "bomb"), grace=1)
        await api.until(POD, Key("default", "bomb"), lambda doc: doc is None)

    live(tmp_path, best, story)


def test_an_empty_directory_that_grows_too_large_costs_the_pod_its_life(tmp_path, best):
    async def story(api, agent):
        volume = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        line = "head -c 3000000 /dev/zero > /v/x; sleep 6000"
        await api.create(POD, pod("a", line, container=mount, volumes=volume, terminationGracePeriodSeconds=0))
        done = await api.phase("a", "Failed")
        assert (done["status"]["reason"], "exceeds the limit" in done["status"]["message"]) == ("Evicted", True)

    live(tmp_path, best, story)


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "D"])
def test_a_memory_volume_is_as_large_as_it_says_and_all_containers_of_the_pod_see_it(tmp_path, level):
    async def story(api, agent):
        volume = [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        line = "echo kept > /v/first; head -c 3000000 /dev/zero > /v/x; wc -c < /v/x"
        document = pod("a", "cat /v/first; test $(wc -c < /v/x) -lt 1048577", container=mount, volumes=volume)
        first = {"name": "first", "image": "python", "command": ["sh", "-c", line], **mount}
        document["spec"]["initContainers"] = [first]
        await api.create(POD, document)
        done = await api.phase("a", "Succeeded")
        assert log_of(agent, done) == "kept\n"
        assert 0 < int(log_of(agent, done, "first").split()[-1]) <= 2**20
        await api.delete(POD, Key("default", "a"), grace=0)
        await api.until(POD, Key("default", "a"), lambda doc: doc is None and not agent.tenants)
        assert not agent.provision.in_memory(done["metadata"]["uid"])

    live(tmp_path, level, story)
    assert leftovers(tmp_path / "state") == NOTHING


def test_the_directory_of_a_claim_goes_with_its_volume(tmp_path, best):
    async def story(api, agent):
        for name, policy in (("gone", "Delete"), ("kept", "Retain")):
            (tmp_path / "volumes" / name).mkdir(parents=True)
            (tmp_path / "volumes" / name / "data").write_text("x")
            spec = {"hostPath": {"path": str(tmp_path / "volumes" / name)}, "persistentVolumeReclaimPolicy": policy}
            by = {"pv.kubernetes.io/provisioned-by": "aboard.dev/local-directory"}
            await api.create(VOLUME, {"metadata": {"name": name, "namespace": "", "annotations": by}, "spec": spec})
        await api.until(VOLUME, Key("", "kept"), lambda _: len(agent.directories.documents) == 2)
        for name in ("gone", "kept"):
            await api.delete(VOLUME, Key("", name))
        await api.until(VOLUME, Key("", "kept"), lambda _: not (tmp_path / "volumes" / "gone").exists())
        assert (tmp_path / "volumes" / "kept" / "data").exists()

    live(tmp_path, best, story, volumes=tmp_path / "volumes")


def test_fake_gpus_are_given_to_one_at_a_time_and_come_back(tmp_path, best):
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "3"}}}

    gate = Gate(tmp_path)

    async def story(api, agent):
        node = await api.until(NODE, Key("", "n1"), lambda node: node is not None and "status" in node)
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        await api.create(POD, gate.to(pod("first", f"echo $CUDA_VISIBLE_DEVICES; {opened()}", container=gpus)))
        first = await api.phase("first", "Running")
        await api.create(POD, pod("none", "echo [$CUDA_VISIBLE_DEVICES]"))
        assert log_of(agent, await api.phase("none", "Succeeded")) == "[]\n"
        await api.create(POD, pod("second", "echo $NVIDIA_VISIBLE_DEVICES", container=gpus))
        waits = lambda doc: "requested 3 nvidia.com/gpu" in str(doc.get("status"))
        await api.until(POD, Key("default", "second"), waits)
        gate.open()
        second = await api.phase("second", "Succeeded")
        assert log_of(agent, first) == "0,1,2\n"
        assert log_of(agent, second) == "GPU-fake-n1-0,GPU-fake-n1-1,GPU-fake-n1-2\n"

    live(tmp_path, best, story, gpus=4)


def test_virtual_nodes_share_the_machine(tmp_path, best):
    async def story(api, agent):
        for number in (1, 2, 3):
            await api.create(
                POD,
                pod(
                    f"p{number}",
                    "echo $N",
                    container={"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
                    nodeName=f"n{number}",
                ),
            )
            done = await api.phase(f"p{number}", "Succeeded")
            assert log_of(agent, done) == f"n{number}\n"
        assert [key.name for kind, key in api.documents if kind is NODE] == ["n1", "n2", "n3"]

    live(tmp_path, best, story, nodes=("n1", "n2", "n3"))


def test_an_unknown_image_gets_the_default_and_a_word_about_it(tmp_path, best):
    async def story(api, agent):
        await api.create(POD, pod("a", "true", container={"image": "docker.io/strange:1"}))
        await api.phase("a", "Succeeded")
        await api.until(NODE, Key("", "n1"), lambda _: api.events("UnknownImage"))
        assert 'no profile for image "docker.io/strange:1"' in api.events("UnknownImage")[0]

    live(tmp_path, best, story, profiles=())


def test_last_words_go_into_the_status(tmp_path, level):
    async def story(api, agent):
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await api.create(POD, pod("log", "echo about to fail; exit 1", container=policy))
        done = await api.phase("log", "Failed")
        assert state_of(done)["state"]["terminated"]["message"] == "about to fail\n"
        assert done["metadata"]["annotations"]["aboard.dev/last-lines"] == "about to fail\n"
        if level != "D":
            await api.create(POD, pod("file", "printf done > /dev/termination-log"))
            done = await api.phase("file", "Succeeded")
            assert state_of(done)["state"]["terminated"]["message"] == "done"

    live(tmp_path, level, story)


def test_a_profile_brings_its_user_and_files(tmp_path, best):
    if best not in "AB":
        pytest.skip("users need level A or B")
    me = Profile(
        "mpi", images=("mpi",), user=Person("mpiuser", 1000, 1000, "/home/mpiuser", "/bin/bash"), env={"MOOD": "fine"},
        files={"/etc/mood.conf": "fine\n"},
    )  # fmt: skip

    async def story(api, agent):
        if not agent.provision.many_users:
            pytest.skip("only one user here")
        await api.create(POD, pod("a", "id -un; echo $HOME $MOOD; cat /etc/mood.conf", container={"image": "mpi:1"}))
        assert log_of(agent, await api.phase("a", "Succeeded", "Failed")) == "mpiuser\n/home/mpiuser fine\nfine\n"

    live(tmp_path, best, story, profiles=(me,))


@pytest.mark.slow
def test_an_environment_is_built_once_for_all_who_need_it_and_a_failure_says_why(tmp_path, best):
    wheel = tmp_path / "little-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("little.py", "mood = 'fine'\n")
        archive.writestr("little-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: little\nVersion: 1.0\n")
        archive.writestr("little-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("little-1.0.dist-info/RECORD", "")
    good = Profile("good", images=("team/*",), requirements=(str(wheel),))
    bad = Profile("bad", images=("bad/*",), requirements=(str(tmp_path / "none.whl"),))

    async def story(api, agent):
        for name in ("a", "b"):
            line = "python -c 'import little; print(little.mood)'"
            await api.create(POD, pod(name, line, container={"image": "team/x:1"}))
        await api.create(POD, pod("c", "true", container={"image": "bad/x"}))
        for name in ("a", "b"):
            assert log_of(agent, await api.phase(name, "Succeeded", "Failed")) == "fine\n"
        found = await api.until(POD, Key("default", "c"), lambda doc: "ErrImagePull" in str(doc))
        assert "none.whl" in state_of(found, "main")["state"]["waiting"]["message"]
        assert sum("good" in words for words in api.events("Pulling")) == 1

    live(tmp_path, best, story, profiles=(good, bad))
