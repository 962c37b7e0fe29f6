"""The official Python client, unmodified: objects, patches, pages, watches, logs, exec, port-forward, dynamic."""

import base64
import json
import threading

import pytest

from tests.clients.objects import COUNTS, GROUP, VERSION, config_map, job_set, package, pod, train_job, until
from tests.patience import PATIENCE

package("kubernetes")

from kubernetes import client, config, dynamic, stream, watch  # noqa: E402
from kubernetes.client import ApiException  # noqa: E402

SPACE = "default"
CUSTOM = (GROUP, VERSION, SPACE, "trainjobs")
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture(scope="module")
def api(kubeconfig):
    with config.new_client_from_config(kubeconfig) as connected:
        yield connected


@pytest.fixture(scope="module")
def core(api):
    return client.CoreV1Api(api)


@pytest.fixture(scope="module")
def custom(api):
    return client.CustomObjectsApi(api)


@pytest.fixture(scope="module")
def maps(api):
    """ConfigMaps of the dynamic client, which names a patch's type."""
    return dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")


@pytest.fixture(scope="module")
def served(core):
    """A pod that runs."""
    core.create_namespaced_pod(SPACE, pod("served", app="served"))
    running = until_running(core, "served")
    until(lambda: "serving" in core.read_namespaced_pod_log("served", SPACE))  # then its port is open
    return running


def until_running(core, name, phases=("Running", "Succeeded")):
    selector = f"metadata.name={name}"
    for event in watch.Watch().stream(
        core.list_namespaced_pod, SPACE, field_selector=selector, timeout_seconds=PATIENCE
    ):
        if event["object"].status.phase in phases:
            return event["object"]
    raise AssertionError(f"{name} never was {phases}")


def refused(code, call, *words, **named):
    """The Status that the client raises."""
    with pytest.raises(ApiException) as caught:
        call(*words, **named)
    assert caught.value.status == code
    return json.loads(caught.value.body)


def test_an_object_is_made_read_replaced_and_deleted(core):
    made = core.create_namespaced_config_map(SPACE, config_map("plain", a="1"))
    assert (made.metadata.name, made.data) == ("plain", {"a": "1"}) and made.metadata.uid
    made.data["b"] = "2"
    replaced = core.replace_namespaced_config_map("plain", SPACE, made)
    assert replaced.data == {"a": "1", "b": "2"}
    assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)
    assert core.read_namespaced_config_map("plain", SPACE).data == replaced.data
    assert core.delete_namespaced_config_map("plain", SPACE).status == "Success"
    assert refused(404, core.read_namespaced_config_map, "plain", SPACE)["details"] == {
        "name": "plain",
        "kind": "configmaps",
    }


def test_a_name_is_generated(core):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="some-"))
    assert core.create_namespaced_config_map(SPACE, body).metadata.name.startswith("some-")


def test_what_is_refused_is_an_exception_with_code_and_reason(core, custom):
    made = core.create_namespaced_config_map(SPACE, config_map("twice"))
    assert refused(409, core.create_namespaced_config_map, SPACE, config_map("twice"))["reason"] == "AlreadyExists"
    core.patch_namespaced_config_map("twice", SPACE, {"data": {"a": "1"}})
    assert refused(409, core.replace_namespaced_config_map, "twice", SPACE, made)["reason"] == "Conflict"
    unnamed = refused(422, core.create_namespaced_config_map, SPACE, config_map("Not A Name"))
    assert (unnamed["reason"], unnamed["details"]["causes"][0]["field"]) == ("Invalid", "metadata.name")
    wrong = train_job("wrong") | {"spec": {"trainer": {"numNodes": 1}}}
    assert refused(422, custom.create_namespaced_custom_object, *CUSTOM, wrong)["reason"] == "Invalid"
    assert refused(404, core.create_namespaced_config_map, "nowhere", config_map("lost"))["reason"] == "NotFound"


PATCHES = {
    "a merge patch": (MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2"}),
    "a JSON patch": (JSON_PATCH, [{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
    "a strategic merge patch": (STRATEGIC, {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
}


@pytest.mark.parametrize(("type_", "patch", "want"), PATCHES.values(), ids=PATCHES)
def test_patches(core, maps, type_, patch, want):
    name = type_.partition("/")[2].partition("+")[0]
    core.create_namespaced_config_map(SPACE, config_map(name, a="1"))
    assert maps.patch(body=patch, name=name, namespace=SPACE, content_type=type_).data.to_dict() == want


def test_server_side_apply_has_owners_and_conflicts(maps):
    def apply(manager, data, **named):
        return maps.server_side_apply(config_map("applied", **data), namespace=SPACE, field_manager=manager, **named)

    assert [owner.operation for owner in apply("one", {"a": "1", "b": "2"}).metadata.managedFields] == ["Apply"]
    conflict = refused(409, apply, "two", {"a": "other"})
    assert conflict["details"]["causes"][0]["field"] == ".data.a" and 'with "one"' in conflict["message"]
    assert apply("two", {"a": "other"}, force_conflicts=True).data.to_dict() == {"a": "other", "b": "2"}
    assert apply("one", {}).data.to_dict() == {"a": "other"}


def test_lists_are_selected_and_paged(core):
    for number in range(7):
        core.create_namespaced_config_map(SPACE, config_map(f"page-{number}", {"even": str(number % 2 == 0)}))
    even = core.list_namespaced_config_map(SPACE, label_selector="even in (True)").items
    assert [item.metadata.name for item in even] == [f"page-{n}" for n in (0, 2, 4, 6)]
    one = core.list_namespaced_config_map(SPACE, field_selector="metadata.name=page-3").items
    assert [item.metadata.name for item in one] == ["page-3"]
    names, after = [], None
    while after != "":
        page = core.list_namespaced_config_map(SPACE, label_selector="even", limit=3, _continue=after)
        assert len(page.items) <= 3
        names += [item.metadata.name for item in page.items]
        after = page.metadata._continue or ""
    assert names == [f"page-{number}" for number in range(7)]
    core.delete_collection_namespaced_config_map(SPACE, label_selector="even=True")
    left = core.list_namespaced_config_map(SPACE, label_selector="even").items
    assert [item.metadata.name for item in left] == ["page-1", "page-3", "page-5"]


def test_a_watch_goes_on_where_a_list_ended_and_misses_nothing(core):
    revision = core.list_namespaced_config_map(SPACE).metadata.resource_version
    selector = {"label_selector": "watched", "timeout_seconds": PATIENCE}
    core.create_namespaced_config_map(SPACE, config_map("watched", {"watched": "yes"}, a="1"))
    core.patch_namespaced_config_map("watched", SPACE, {"data": {"a": "2"}})
    seen, first = [], watch.Watch()
    for event in first.stream(core.list_namespaced_config_map, SPACE, resource_version=revision, **selector):
        seen.append((event["type"], event["object"].data["a"]))
        if len(seen) == 2:
            first.stop()
    last = first.resource_version
    core.delete_namespaced_config_map("watched", SPACE)
    second = watch.Watch()
    for event in second.stream(core.list_namespaced_config_map, SPACE, resource_version=last, **selector):
        seen.append((event["type"], event["object"].data["a"]))
        second.stop()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


def test_bookmarks_come_before_a_watch_ends(core):
    answer = core.list_namespaced_config_map(
        SPACE, watch=True, allow_watch_bookmarks=True, timeout_seconds=1, _preload_content=False, resource_version="0"
    )
    types = [json.loads(line)["type"] for line in answer.data.splitlines()]
    assert types[-2:] == ["BOOKMARK", "BOOKMARK"] and set(types[:-2]) <= {"ADDED"}


def test_logs_are_followed_to_their_end(core):
    core.create_namespaced_pod(SPACE, pod("counts", COUNTS))
    until_running(core, "counts")
    lines = watch.Watch().stream(core.read_namespaced_pod_log, "counts", SPACE, follow=True)
    assert list(lines) == [f"line {number}" for number in range(5)]
    until_running(core, "counts", ("Succeeded",))
    assert core.read_namespaced_pod_log("counts", SPACE, tail_lines=1) == "line 4\n"
    assert refused(400, core.read_namespaced_pod_log, "counts", SPACE, container="other")["reason"] == "BadRequest"
    with pytest.raises(ApiException, match="is not running"):
        stream.stream(core.connect_get_namespaced_pod_exec, "counts", SPACE, command=["true"], stdout=True)


def test_exec_streams_what_a_program_reads_and_says(core, served):
    said = stream.stream(
        core.connect_get_namespaced_pod_exec,
        "served",
        SPACE,
        command=["sh", "-c", "echo out; echo err >&2; read line; echo got $line; exit 3"],
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    said.write_stdin("a word\n")
    said.run_forever(timeout=PATIENCE)
    assert (said.read_stdout(), said.read_stderr()) == ("out\ngot a word\n", "err\n")
    assert said.returncode == 3
    whole = stream.stream(
        core.connect_get_namespaced_pod_exec, "served", SPACE, command=["hostname"], stdout=True, stderr=True
    )
    assert whole.strip() == "served"


def test_exec_gives_a_terminal(core, served):
    asked = ["sh", "-c", "test -t 0 && test -t 1 && stty size"]
    said = stream.stream(
        core.connect_get_namespaced_pod_exec, "served", SPACE, command=asked, stdin=True, stdout=True, tty=True
    )
    assert said.endswith("\r\n") and len(said.split()) == 2


def test_exec_in_a_pod_that_is_not_there_is_not_found(core):
    with pytest.raises(ApiException) as caught:
        stream.stream(core.connect_get_namespaced_pod_exec, "nobody", SPACE, command=["true"], stdout=True)
    assert "Handshake status 404 Not Found" in caught.value.reason  # this client has no status for sockets


def test_a_port_is_forwarded(core, served):
    forward = stream.portforward(core.connect_get_namespaced_pod_portforward, "served", SPACE, ports="8000")
    door = forward.socket(8000)
    door.settimeout(PATIENCE)
    door.sendall(b"GET /word HTTP/1.0\r\n\r\n")
    said = b""
    while chunk := door.recv(4096):
        said += chunk
    assert said.endswith(b"you asked for /word") and forward.error(8000) is None


def test_tokens_and_reviews(api, core):
    account = core.create_namespaced_service_account(SPACE, {"metadata": {"name": "worker"}})
    ask = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600))
    token = core.create_namespaced_service_account_token("worker", SPACE, ask).status.token
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == "system:serviceaccount:default:worker"
    review = client.AuthenticationV1Api(api).create_token_review({"spec": {"token": token}})
    assert review.status.authenticated and review.status.user.uid == account.metadata.uid
    attributes = {"namespace": SPACE, "verb": "create", "group": GROUP, "resource": "trainjobs"}
    may = client.AuthorizationV1Api(api).create_self_subject_access_review({"spec": {"resourceAttributes": attributes}})
    assert may.status.allowed is True
    mine = client.Configuration(host=api.configuration.host)
    mine.ssl_ca_cert, mine.api_key = api.configuration.ssl_ca_cert, {"authorization": f"Bearer {token}"}
    with client.ApiClient(mine) as as_worker:
        myself = client.AuthenticationV1Api(as_worker).create_self_subject_review({})
    assert myself.status.user_info.username == "system:serviceaccount:default:worker"


def test_without_a_token_nothing_is_told(api):
    bare = client.Configuration(host=api.configuration.host)
    bare.ssl_ca_cert = api.configuration.ssl_ca_cert
    with client.ApiClient(bare) as nobody:
        assert refused(401, client.CoreV1Api(nobody).list_namespaced_pod, SPACE)["reason"] == "Unauthorized"


def test_custom_objects_are_made_patched_and_run(core, custom):
    custom.create_namespaced_custom_object(*CUSTOM, train_job("trained"))
    patched = custom.patch_namespaced_custom_object(*CUSTOM, "trained", {"metadata": {"labels": {"who": "me"}}})
    assert patched["metadata"]["labels"] == {"who": "me"}
    assert [job["metadata"]["name"] for job in custom.list_namespaced_custom_object(*CUSTOM)["items"]] == ["trained"]
    finished = watch.Watch()
    for event in finished.stream(custom.list_namespaced_custom_object, *CUSTOM, timeout_seconds=PATIENCE):
        held = {c["type"] for c in event["object"].get("status", {}).get("conditions", ()) if c["status"] == "True"}
        if held & {"Complete", "Failed"}:
            finished.stop()
            assert held == {"Complete"}
    assert custom.get_namespaced_custom_object_status(*CUSTOM, "trained")["status"]["jobsStatus"][0]["succeeded"] == 1
    assert custom.delete_namespaced_custom_object(*CUSTOM, "trained")["status"] == "Success"


def test_the_dynamic_client_finds_every_kind(api):
    found = dynamic.DynamicClient(api)
    jobs = found.resources.get(api_version=f"{GROUP}/{VERSION}", kind="TrainJob")
    assert (jobs.name, jobs.namespaced, "watch" in jobs.verbs) == ("trainjobs", True, True)
    sets = found.resources.get(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet")
    made = sets.create(body=job_set("dynamic"), namespace=SPACE)
    assert made.spec.replicatedJobs[0].replicas == 2
    applied = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "dynamic"}}
    applied["metadata"]["annotations"] = {"note": "mine"}
    assert found.server_side_apply(sets, applied, name="dynamic", namespace=SPACE, field_manager="tests")
    assert sets.get(name="dynamic", namespace=SPACE).metadata.annotations.note == "mine"
    sets.delete(name="dynamic", namespace=SPACE, body={})
    with pytest.raises(dynamic.exceptions.NotFoundError):
        sets.get(name="dynamic", namespace=SPACE)
    with pytest.raises(dynamic.exceptions.ResourceNotFoundError):
        found.resources.get(api_version="v1", kind="Nothing")


def test_a_cache_that_lists_and_watches_holds_what_the_server_holds(core):
    """What an informer does, with three writers at the same time."""

    def write(who):
        for number in range(10):
            core.create_namespaced_config_map(SPACE, config_map(f"cached-{who}-{number}", {"cached": "yes"}))
            if number % 2:
                core.delete_namespaced_config_map(f"cached-{who}-{number}", SPACE)
        core.create_namespaced_config_map(SPACE, config_map(f"cached-{who}-end", {"cached": "yes"}))

    listed = core.list_namespaced_config_map(SPACE, label_selector="cached")
    held = {item.metadata.name for item in listed.items}
    writers = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for writer in writers:
        writer.start()
    ends, follow = 0, watch.Watch()
    revision = listed.metadata.resource_version
    words = {"label_selector": "cached", "resource_version": revision, "timeout_seconds": PATIENCE}
    for event in follow.stream(core.list_namespaced_config_map, SPACE, **words):
        name = event["object"].metadata.name
        held = held - {name} if event["type"] == "DELETED" else held | {name}
        ends += name.endswith("end")
        if ends == 3:
            follow.stop()
    for writer in writers:
        writer.join()
    assert held == {i.metadata.name for i in core.list_namespaced_config_map(SPACE, label_selector="cached").items}


def test_discovery_and_version(api):
    assert client.VersionApi(api).get_code().major == "1"
    groups = {group.name for group in client.ApisApi(api).get_api_versions().groups}
    assert {"batch", GROUP, "jobset.x-k8s.io", "scheduling.run.ai"} <= groups
