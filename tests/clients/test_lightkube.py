"""lightkube, unmodified: typed and generic resources, apply, patches, pages, watches, logs, exec, async."""

import asyncio
import threading

import pytest

from tests.clients.objects import COUNTS, GROUP, VERSION, config_map, job_set, package, pod, train_job
from tests.patience import PATIENCE

package("lightkube")

from lightkube import ApiError, AsyncClient, Client, KubeConfig, codecs, operators  # noqa: E402
from lightkube.generic_resource import create_namespaced_resource, load_in_cluster_generic_resources  # noqa: E402
from lightkube.models.authentication_v1 import TokenRequestSpec, TokenReviewSpec  # noqa: E402
from lightkube.models.meta_v1 import ObjectMeta  # noqa: E402
from lightkube.resources.authentication_v1 import TokenReview  # noqa: E402
from lightkube.resources.core_v1 import ConfigMap, Namespace, Node, Pod, ServiceAccount, ServiceAccountToken  # noqa: E402
from lightkube.types import CascadeType, PatchType  # noqa: E402

TrainJob = create_namespaced_resource(GROUP, VERSION, "TrainJob", "trainjobs")
JobSet = create_namespaced_resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")


@pytest.fixture(scope="module")
def settings(kubeconfig):
    return KubeConfig.from_file(kubeconfig)


@pytest.fixture(scope="module")
def client(settings):
    with Client(config=settings, field_manager="tests") as connected:
        yield connected


@pytest.fixture(scope="module")
def served(client):
    """A pod that runs."""
    client.create(codecs.from_dict(pod("served", app="served")))
    return client.wait(Pod, "served", for_conditions=["Ready"], raise_for_conditions=["Failed"])


def named(name, labels=None, **data):
    return codecs.from_dict(config_map(name, labels, **data))


def refused(code, reason, call, *words, **options):
    with pytest.raises(ApiError) as caught:
        call(*words, **options)
    assert (caught.value.status.code, caught.value.status.reason) == (code, reason)
    return caught.value.status


def test_an_object_is_made_read_replaced_and_deleted(client):
    made = client.create(named("plain", a="1"))
    assert made.metadata.uid and made.data == {"a": "1"}
    made.data["b"] = "2"
    assert client.replace(made).data == {"a": "1", "b": "2"}
    assert client.get(ConfigMap, "plain").data == {"a": "1", "b": "2"}
    client.delete(ConfigMap, "plain", cascade=CascadeType.BACKGROUND)
    assert refused(404, "NotFound", client.get, ConfigMap, "plain").details.name == "plain"


def test_what_is_refused_is_an_exception_with_code_and_reason(client):
    made = client.create(named("twice"))
    refused(409, "AlreadyExists", client.create, named("twice"))
    client.patch(ConfigMap, "twice", {"data": {"a": "1"}})
    refused(409, "Conflict", client.replace, made)
    causes = refused(422, "Invalid", client.create, named("Not A Name")).details.causes
    assert causes[0].field == "metadata.name"


PATCHES = {
    "a merge patch": (PatchType.MERGE, {"data": {"a": None, "b": "2"}}, {"b": "2"}),
    "a JSON patch": (PatchType.JSON, [{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
    "a strategic merge patch": (PatchType.STRATEGIC, {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
}


@pytest.mark.parametrize(("type_", "patch", "want"), PATCHES.values(), ids=PATCHES)
def test_patches(client, type_, patch, want):
    name = f"patched-{type_.name.lower()}"
    client.create(named(name, a="1"))
    assert client.patch(ConfigMap, name, patch, patch_type=type_).data == want


def test_server_side_apply_has_owners_and_conflicts(client):
    assert client.apply(named("applied", a="1", b="2"), field_manager="one").data == {"a": "1", "b": "2"}
    status = refused(409, "Conflict", client.apply, named("applied", a="other"), field_manager="two")
    assert status.details.causes[0].field == ".data.a"
    assert client.apply(named("applied", a="other"), field_manager="two", force=True).data["a"] == "other"
    assert client.apply(named("applied"), field_manager="one").data == {"a": "other"}


def test_a_dry_run_leaves_nothing(client):
    assert client.create(named("dry", a="1"), dry_run=True).data == {"a": "1"}
    refused(404, "NotFound", client.get, ConfigMap, "dry")


def test_lists_are_selected_and_paged(client):
    for number in range(7):
        client.create(named(f"page-{number}", {"even": str(number % 2 == 0)}))
    even = client.list(ConfigMap, labels={"even": operators.in_(["True"])})
    assert [item.metadata.name for item in even] == [f"page-{n}" for n in (0, 2, 4, 6)]
    one = client.list(ConfigMap, fields={"metadata.name": "page-3"})
    assert [item.metadata.name for item in one] == ["page-3"]
    paged = [item.metadata.name for item in client.list(ConfigMap, chunk_size=2, labels={"even": operators.exists()})]
    assert paged == [f"page-{number}" for number in range(7)]
    client.create(Namespace(metadata=ObjectMeta(name="emptied")))
    client.create(named("one"), namespace="emptied")
    client.deletecollection(ConfigMap, namespace="emptied")
    assert [item.metadata.name for item in client.list(ConfigMap, namespace="emptied")] in ([], ["kube-root-ca.crt"])


def test_a_watch_goes_on_where_a_list_ended_and_misses_nothing(client):
    listed = client.list(ConfigMap)
    list(listed)  # its revision comes with the first page
    client.create(named("watched", {"watched": "yes"}, a="1"))
    client.patch(ConfigMap, "watched", {"data": {"a": "2"}})
    client.delete(ConfigMap, "watched")
    events = client.watch(ConfigMap, labels={"watched": "yes"}, resource_version=listed.resourceVersion)
    seen = [(kind, item.data["a"]) for _, (kind, item) in zip(range(3), events)]
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


def test_a_watch_goes_on_when_the_server_ends_it(client):
    client.create(named("again", {"again": "yes"}, a="1"))
    events = client.watch(ConfigMap, labels={"again": "yes"}, server_timeout=1)
    assert next(events)[0] == "ADDED"
    later = threading.Timer(
        1.3, client.patch, (ConfigMap, "again", {"data": {"a": "2"}})
    )  # past the first request's end
    later.start()
    kind, item = next(events)
    assert (kind, item.data) == ("MODIFIED", {"a": "2"})
    later.join()
    events.close()


def test_logs_are_followed_to_their_end(client):
    client.create(codecs.from_dict(pod("counts", COUNTS)))
    for _, item in client.watch(Pod, fields={"metadata.name": "counts"}):
        if item.status and item.status.phase in ("Running", "Succeeded"):
            break
    assert list(client.log("counts", follow=True, newlines=False)) == [f"line {number}" for number in range(5)]
    assert list(client.log("counts", tail_lines=1)) == ["line 4\n"]
    refused(400, "BadRequest", client.log, "counts", container="other")


@pytest.fixture
def alone():
    """Whoever began in a test ends with it.

    Of an exec this client leaves a thread behind that reads TLS from the number of a socket it has closed: a connection
    that gets the number meanwhile loses its first bytes, and with them the handshake (WRONG_VERSION_NUMBER).
    """
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)


def test_exec_says_what_a_program_said_and_how_it_ended(client, served, alone):
    done = client.exec(
        "served", command=["sh", "-c", "cat; echo err >&2; exit 3"], stdin="a word", stdout=True, stderr=True
    )
    assert (done.stdout, done.stderr, done.exit_code) == ("a word", "err\n", 3)


def test_custom_objects_are_applied_and_run(client):
    client.apply(TrainJob(train_job("trained")))
    finished = client.wait(TrainJob, "trained", for_conditions=["Complete"], raise_for_conditions=["Failed"])
    assert finished["status"]["jobsStatus"][0]["succeeded"] == 1
    assert client.get(TrainJob.Status, "trained")["status"]["conditions"][0]["type"] == "Complete"
    client.delete(TrainJob, "trained")
    made = client.create(JobSet(job_set("sets")))
    assert made["spec"]["replicatedJobs"][0]["replicas"] == 2
    patched = client.patch(JobSet, "sets", {"metadata": {"annotations": {"note": "mine"}}}, patch_type=PatchType.MERGE)
    assert patched.metadata.annotations == {"note": "mine"}


def test_definitions_in_the_cluster_become_resources(client):
    load_in_cluster_generic_resources(client)
    resources = {name: {"quota": 1, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "memory", "gpu")}
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "mine"}}
    made = client.create(codecs.from_dict(queue | {"spec": {"resources": resources}}))
    assert made["spec"]["resources"]["cpu"]["quota"] == 1
    assert client.get(type(made), "mine").metadata.uid == made.metadata.uid


def test_an_account_gets_a_token(client):
    client.create(ServiceAccount(metadata=ObjectMeta(name="worker")))
    ask = ServiceAccountToken(metadata=ObjectMeta(), spec=TokenRequestSpec(audiences=[]))
    token = client.create(ask, "worker").status.token
    review = client.create(TokenReview(spec=TokenReviewSpec(token=token)))
    assert review.status.authenticated and review.status.user.username == "system:serviceaccount:default:worker"


def test_what_belongs_to_no_namespace(client):
    assert {"default", "kube-system"} <= {item.metadata.name for item in client.list(Namespace)}
    node = next(iter(client.list(Node)))
    assert any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def test_the_async_client_does_the_same(settings):
    async def story():
        client = AsyncClient(config=settings)
        made = await client.create(named("async", {"async": "yes"}, a="1"))
        await client.patch(ConfigMap, "async", {"data": {"a": "2"}})
        seen = []
        async for kind, item in client.watch(
            ConfigMap, labels={"async": "yes"}, resource_version=made.metadata.resourceVersion
        ):
            seen.append((kind, item.data["a"]))
            break
        names = [item.metadata.name async for item in client.list(ConfigMap, labels={"async": "yes"})]
        await client.close()
        return seen, names

    assert asyncio.run(story()) == ([("MODIFIED", "2")], ["async"])
