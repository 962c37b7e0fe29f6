"""kr8s, unmodified: objects, lookups by name, patches, selectors, waits, watches, logs, exec, port-forward."""

import asyncio
import contextlib
import socket
import urllib.request

import pytest

from tests.clients.objects import COUNTS, config_map, job_set, package, pod, train_job
from tests.patience import PATIENCE

package("kr8s")

import kr8s  # noqa: E402
import kr8s.asyncio  # noqa: E402
from kr8s.objects import ConfigMap, Node, Pod, new_class  # noqa: E402

TrainJob = new_class("TrainJob", "trainer.kubeflow.org/v1alpha1")
JobSet = new_class("JobSet", "jobset.x-k8s.io/v1alpha2")


@pytest.fixture(scope="module")
def api(kubeconfig):
    return kr8s.api(kubeconfig=kubeconfig)


@pytest.fixture(scope="module")
def served(api):
    """A pod that runs."""
    running = Pod(pod("served", app="served"), api=api)
    running.create()
    running.wait("condition=Ready", timeout=PATIENCE)
    assert next(running.logs(follow=True)) == "serving"
    return running


def refused(code, reason, call, *words):
    with pytest.raises(kr8s.ServerError) as caught:
        call(*words)
    assert caught.value.response.status_code == code and caught.value.response.json()["reason"] == reason
    return caught.value


def made(api, name, labels=None, **data):
    created = ConfigMap(config_map(name, labels, **data), api=api)
    created.create()
    return created


def test_an_object_is_made_read_patched_and_deleted(api):
    plain = made(api, "plain", a="1")
    assert plain.exists() and plain.metadata.uid
    plain.patch({"data": {"b": "2"}})
    plain.patch([{"op": "remove", "path": "/data/a"}], type="json")
    assert dict(ConfigMap.get("plain", api=api).data) == {"b": "2"}
    plain.label(who="me")
    plain.annotate({"note": "mine"})
    assert (dict(plain.labels), dict(plain.annotations)) == ({"who": "me"}, {"note": "mine"})
    plain.remove_label("who")
    plain.delete()
    assert not plain.exists()
    with pytest.raises(kr8s.NotFoundError):
        plain.refresh()


def test_what_is_refused_is_an_exception_with_code_and_reason(api):
    made(api, "twice")
    refused(409, "AlreadyExists", made, api, "twice")
    refused(422, "Invalid", made, api, "Not A Name")
    wrong = TrainJob(train_job("wrong") | {"spec": {"trainer": {"numNodes": 1}}}, api=api)
    refused(422, "Invalid", wrong.create)


def test_lists_are_selected_and_kinds_are_found_by_any_name(api):
    for number in range(4):
        made(api, f"page-{number}", {"even": str(number % 2 == 0)})
    for word in ("configmaps", "configmap", "cm", "ConfigMap", "configmaps.v1"):
        even = api.get(word, label_selector={"even": "True"})
        assert [item.name for item in even] == ["page-0", "page-2"], word
    assert [item.name for item in api.get("cm", field_selector="metadata.name=page-3")] == ["page-3"]
    assert {"trainjobs", "jobsets", "pods"} <= {resource["name"] for resource in api.api_resources()}
    assert api.lookup_kind("trainjob") == ("trainjob.trainer.kubeflow.org/v1alpha1", "trainjobs", True)


def test_an_object_is_watched_until_it_is_gone(kubeconfig):
    async def story():
        remote = await kr8s.asyncio.api(kubeconfig=kubeconfig)
        watched = await kr8s.asyncio.objects.ConfigMap(config_map("watched", a="1"), api=remote)
        await watched.create()
        again = await kr8s.asyncio.objects.ConfigMap.get("watched", api=remote)
        await again.patch({"data": {"a": "2"}})
        seen = []

        async def follow():
            async for kind, item in watched.watch():
                seen.append((kind, item.data["a"]))
                if kind == "MODIFIED":
                    await watched.delete()
                if kind == "DELETED":
                    return

        await asyncio.wait_for(follow(), PATIENCE)
        return seen

    seen = asyncio.run(story())
    assert seen == [("MODIFIED", "2"), ("DELETED", "2")]  # it begins at the revision it knows


def test_logs_are_followed_to_their_end(api):
    counts = Pod(pod("counts", COUNTS), api=api)
    counts.create()
    counts.wait(
        ["jsonpath='{.status.phase}'=Running", "jsonpath='{.status.phase}'=Succeeded"], mode="any", timeout=PATIENCE
    )
    assert list(counts.logs(follow=True)) == [f"line {number}" for number in range(5)]
    assert list(counts.logs(tail_lines=1)) == ["line 4"]


def test_exec_says_what_a_program_said_and_how_it_ended(served):
    done = served.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 3)
    assert served.exec(["hostname"]).stdout == b"served\n"


def free_port() -> int:
    """A port that nobody has, outside the range from which the machine gives ports to clients: what this client draws
    itself may be one on which somebody's last connection is still fading."""
    for port in range(20000, 32000):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def test_a_port_is_forwarded(served):
    with served.portforward(8000, local_port=free_port()) as port:
        for word in ("one", "two"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{word}", timeout=PATIENCE) as answer:
                assert answer.read().decode() == f"you asked for /{word}"


def test_custom_objects_are_made_and_run(api):
    job = TrainJob(train_job("trained"), api=api)
    job.create()
    next(kind for kind, item in job.watch() if "status" in item.raw)  # this client cannot wait for what has no status
    job.wait("condition=Complete", timeout=PATIENCE)
    assert job.status.jobsStatus[0].succeeded == 1
    [child] = [found for found in api.get("jobsets") if found.name == "trained"]
    assert child.metadata.ownerReferences[0].uid == job.metadata.uid
    job.delete()
    sets = JobSet(job_set("sets"), api=api)
    sets.create()
    assert sets.spec.replicatedJobs[0].replicas == 2


def test_who_we_are_and_what_runs(api):
    assert api.version()["major"] == "1"
    assert isinstance(api.whoami(), str) and api.whoami()
    [node] = api.get("nodes")
    assert isinstance(node, Node)
    node.cordon()
    assert node.unschedulable
    node.uncordon()
    assert not node.unschedulable
