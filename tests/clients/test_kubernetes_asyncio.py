"""kubernetes-asyncio, unmodified: objects, patches, pages, watches, logs, exec over a socket, dynamic."""

import asyncio
import json

import pytest

from tests.clients.objects import COUNTS, GROUP, VERSION, config_map, job_set, package, pod, train_job
from tests.patience import PATIENCE

package("kubernetes_asyncio")

from kubernetes_asyncio import client, config, dynamic, watch  # noqa: E402
from kubernetes_asyncio.client import ApiException  # noqa: E402
from kubernetes_asyncio.stream import WsApiClient  # noqa: E402
from kubernetes_asyncio.stream.ws_client import ERROR_CHANNEL, STDERR_CHANNEL, STDOUT_CHANNEL  # noqa: E402

SPACE = "default"
CUSTOM = (GROUP, VERSION, SPACE, "trainjobs")


@pytest.fixture(scope="module")
def told(kubeconfig):
    """Run a story of a connected client to its end."""

    def run(story):
        async def connected():
            settings = type.__call__(client.Configuration)
            await config.load_kube_config(kubeconfig, client_configuration=settings)
            async with client.ApiClient(settings) as api:
                return await asyncio.wait_for(story(api), PATIENCE)

        return asyncio.run(connected())

    return run


async def refused(code, asked):
    """The Status that the client raises."""
    with pytest.raises(ApiException) as caught:
        await asked
    assert caught.value.status == code
    return json.loads(caught.value.body)


async def until(core, name, *phases):
    async with watch.Watch() as follow:
        selector = f"metadata.name={name}"
        async for event in follow.stream(
            core.list_namespaced_pod, SPACE, field_selector=selector, timeout_seconds=PATIENCE
        ):
            if event["object"].status.phase in phases:
                return
    raise AssertionError(f"{name} never was {phases}")


def test_an_object_is_made_read_replaced_and_deleted(told):
    async def story(api):
        core = client.CoreV1Api(api)
        made = await core.create_namespaced_config_map(SPACE, config_map("plain", a="1"))
        made.data["b"] = "2"
        replaced = await core.replace_namespaced_config_map("plain", SPACE, made)
        assert replaced.data == {"a": "1", "b": "2"}
        assert (await refused(409, core.create_namespaced_config_map(SPACE, config_map("plain"))))["reason"] == (
            "AlreadyExists"
        )
        assert (await refused(409, core.replace_namespaced_config_map("plain", SPACE, made)))["reason"] == "Conflict"
        invalid = await refused(422, core.create_namespaced_config_map(SPACE, config_map("Not A Name")))
        assert invalid["details"]["causes"][0]["field"] == "metadata.name"
        await core.delete_namespaced_config_map("plain", SPACE)
        assert (await refused(404, core.read_namespaced_config_map("plain", SPACE)))["reason"] == "NotFound"

    told(story)


PATCHES = {
    "merge": ("application/merge-patch+json", {"data": {"a": None, "b": "2"}}, {"b": "2"}),
    "json": ("application/json-patch+json", [{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
    "strategic": ("application/strategic-merge-patch+json", {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
    "apply": ("application/apply-patch+yaml", config_map("patched-apply", d="4"), {"a": "1", "d": "4"}),
}


@pytest.mark.parametrize("name", PATCHES)
def test_patches(told, name):
    type_, patch, want = PATCHES[name]
    extra = {"field_manager": "tests"} if name == "apply" else {}

    async def story(api):
        core = client.CoreV1Api(api)
        await core.create_namespaced_config_map(SPACE, config_map(f"patched-{name}", a="1"))
        found = await core.patch_namespaced_config_map(f"patched-{name}", SPACE, patch, _content_type=type_, **extra)
        assert found.data == want

    told(story)


def test_lists_are_selected_and_paged(told):
    async def story(api):
        core = client.CoreV1Api(api)
        bodies = [config_map(f"page-{number}", {"even": str(number % 2 == 0)}) for number in range(7)]
        await asyncio.gather(*(core.create_namespaced_config_map(SPACE, body) for body in bodies))
        names, after = [], ""
        while True:
            page = await core.list_namespaced_config_map(SPACE, label_selector="even", limit=3, _continue=after)
            names += [item.metadata.name for item in page.items]
            after = page.metadata._continue
            if not after:
                break
        assert names == [f"page-{number}" for number in range(7)]
        await core.delete_collection_namespaced_config_map(SPACE, label_selector="even=True")
        left = await core.list_namespaced_config_map(SPACE, label_selector="even")
        assert [item.metadata.name for item in left.items] == ["page-1", "page-3", "page-5"]

    told(story)


def test_a_watch_misses_nothing_while_others_write(told):
    async def story(api):
        core = client.CoreV1Api(api)
        revision = (await core.list_namespaced_config_map(SPACE)).metadata.resource_version

        async def write():
            for number in range(20):
                await core.create_namespaced_config_map(SPACE, config_map(f"seen-{number}", {"seen": "yes"}))
                if number % 2:
                    await core.delete_namespaced_config_map(f"seen-{number}", SPACE)

        async def follow():
            seen = []
            async with watch.Watch() as events:
                async for event in events.stream(
                    core.list_namespaced_config_map, SPACE, label_selector="seen", resource_version=revision
                ):
                    seen.append((event["type"], event["object"].metadata.name))
                    if len(seen) == 30:
                        break
            return seen

        _, seen = await asyncio.gather(write(), follow())
        want = []
        for number in range(20):
            want.append(("ADDED", f"seen-{number}"))
            if number % 2:
                want.append(("DELETED", f"seen-{number}"))
        assert seen == want

    told(story)


def test_logs_are_followed_to_their_end(told):
    async def story(api):
        core = client.CoreV1Api(api)
        await core.create_namespaced_pod(SPACE, pod("counts", COUNTS))
        await until(core, "counts", "Running", "Succeeded")
        answer = await core.read_namespaced_pod_log("counts", SPACE, follow=True, _preload_content=False)
        assert [line.decode().strip() async for line in answer.content] == [f"line {number}" for number in range(5)]
        assert await core.read_namespaced_pod_log("counts", SPACE, tail_lines=1) == "line 4\n"

    told(story)


def test_exec_talks_both_ways(told):
    async def story(api):
        core = client.CoreV1Api(api)
        await core.create_namespaced_pod(SPACE, pod("served"))
        await until(core, "served", "Running")
        command = ["sh", "-c", "read line; echo got $line; echo err >&2; exit 3"]
        options = {"command": command, "stdin": True, "stdout": True, "stderr": True}
        async with WsApiClient(api.configuration) as sockets:
            inside = client.CoreV1Api(sockets)
            socket = await inside.connect_get_namespaced_pod_exec("served", SPACE, **options, _preload_content=False)
            said = {STDOUT_CHANNEL: "", STDERR_CHANNEL: "", ERROR_CHANNEL: ""}
            async with socket as door:
                await door.send_bytes(b"\0a word\n")
                async for message in door:
                    said[message.data[0]] += message.data[1:].decode()
            whole = await inside.connect_get_namespaced_pod_exec("served", SPACE, command=["hostname"], stdout=True)
        assert (said[STDOUT_CHANNEL], said[STDERR_CHANNEL]) == ("got a word\n", "err\n")
        assert sockets.parse_error_data(said[ERROR_CHANNEL]) == 3
        assert whole == "served\n"

    told(story)


def test_custom_objects_run_and_the_dynamic_client_finds_them(told):
    async def story(api):
        custom = client.CustomObjectsApi(api)
        await custom.create_namespaced_custom_object(*CUSTOM, train_job("trained"))
        async with watch.Watch() as follow:
            async for event in follow.stream(custom.list_namespaced_custom_object, *CUSTOM, timeout_seconds=PATIENCE):
                conditions = event["object"].get("status", {}).get("conditions", ())
                if any(each["type"] == "Complete" for each in conditions):
                    break
        found = await dynamic.DynamicClient(api)
        sets = await found.resources.get(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet")
        child = await sets.get(name="trained", namespace=SPACE)
        assert child.metadata.ownerReferences[0].kind == "TrainJob"
        made = await sets.create(body=job_set("dynamic"), namespace=SPACE)
        assert made.spec.replicatedJobs[0].replicas == 2

    told(story)
