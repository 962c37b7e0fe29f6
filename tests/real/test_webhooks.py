"""Our hooks behind a real kube-apiserver say, word for word, what they say inside of our own."""

import asyncio
import base64
import json
import ssl
import urllib.error
import urllib.request
from contextlib import asynccontextmanager

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import kind_of
from allaboard.api.meta import key_of
from allaboard.sdk.connection import open_connection
from allaboard.testing.plane import node, plane, until
from tests.real.conftest import controlling, eventually

pytestmark = pytest.mark.real

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
TRAINER = "trainer.kubeflow.org/v1alpha1"
PROGRESS = "trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/{}/status"
OURS = "--controllers=trainjob,jobset,grouper,scheduler,podgroups,queues,binder"


def job(name="run", runtime="torch-distributed", **spec):
    metadata, body = {"name": name, "namespace": "default"}, {"runtimeRef": {"name": runtime}, **spec}
    return {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": metadata, "spec": body}


def runtime(name="small", *, container="node", replicas=1, **spec):
    pod = {"spec": {"containers": [{"name": container, "image": "busybox"}]}}
    template = {"metadata": {"labels": {ANCESTOR: "trainer"}}, "spec": {"template": pod}}
    jobs = [{"name": "node", "replicas": replicas, "template": template}]
    body = {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": jobs}}, **spec}
    return {"apiVersion": TRAINER, "kind": "ClusterTrainingRuntime", "metadata": {"name": name}, "spec": body}


def patch(job="node", manager="acme.io/x", **pod):
    jobs = [{"name": job, "template": {"spec": {"template": {"spec": pod}}}}]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def job_set(name="js", **spec):
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    template = {"spec": {"template": pod, "backoffLimit": 0}}
    metadata = {"name": name, "namespace": "default"}
    body = {"replicatedJobs": [{"name": "work", "replicas": 1, "template": template}], **spec}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": body}


def queue(name, **spec):
    share = {"quota": 1, "limit": 1, "overQuotaWeight": 1}
    body = {"resources": {"cpu": share, "gpu": share, "memory": share}, **spec}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": body}


def pod_group(name, **spec):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def sharing_pod(scheduler):
    metadata = {"name": "share", "namespace": "default", "annotations": {"gpu-fraction": "3.5"}}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


REFUSED = {
    "a runtime nobody made": job(runtime="ghost"),
    "a reserved variable": job(trainer={"env": [{"name": "PET_NNODES", "value": "9"}]}),
    "a reserved variable of MPI": job(
        runtime="deepspeed-distributed", trainer={"env": [{"name": "OMPI_MCA_plm_rsh_args", "value": "x"}]}
    ),
    "a patch of an unknown job": job(runtimePatches=[patch("ghost", nodeSelector={"a": "b"})]),
    "a patch of an unknown container": job(runtimePatches=[patch(containers=[{"name": "noed"}])]),
    "a manager without a domain": job(runtimePatches=[patch(manager="me")]),
    "a patch of the trainer's variables": job(
        runtimePatches=[patch(containers=[{"name": "node", "env": [{"name": "A", "value": "b"}]}])]
    ),
    "several things at once": job(
        trainer={"env": [{"name": "PET_NNODES", "value": "9"}]}, runtimePatches=[patch("ghost", manager="me")]
    ),
    "an initializer the runtime lacks": job(initializer={"dataset": {"storageUri": "hf://a/b"}}),
    "a data cache": job(runtime="torchtune-llama3.2-1b", initializer={"dataset": {"storageUri": "cache://a/b"}}),
    "a name too long for its pods": job("a" * 60),
    "a name of 300 characters": job("a" * 300),
    "no nodes below zero": job(trainer={"numNodes": -1}),
    "more nodes than a Job can hold": job(trainer={"numNodes": 2**31 - 1}),
    "2^31 nodes": job(trainer={"numNodes": 2**31}),
    "a quantity no machine has": job(trainer={"resourcesPerNode": {"requests": {"cpu": "1e400"}}}),
    "no processes": job(trainer={"numProcPerNode": 0}),
    "a kind of runtime nobody has": job(runtimeRef={"name": "x", "kind": "Gadget"}),
    "torchtune of an unknown model": job(trainer={"command": ["tune", "run"]}),
    "a runtime without the trainer's container": runtime(container="main"),
    "a runtime with two trainers": runtime(replicas=2),
    "a runtime with two gangs": runtime(podGroupPolicy={"coscheduling": {}, "volcano": {}}),
    "a runtime with two frameworks": runtime(mlPolicy={"torch": {}, "jax": {}}),
    "a JobSet whose pods would not fit a name": job_set("j" * 60),
    "a JobSet that waits for nobody": job_set(successPolicy={"operator": "All", "targetReplicatedJobs": ["ghost"]}),
    "a queue below itself": queue("lost", parentQueue="lost"),
    "a pod group with a lost parent": pod_group(
        "pg", minMember=1, queue="default-queue", subGroups=[{"name": "a", "minMember": 1, "parent": "ghost"}]
    ),
    "a share of a GPU that cannot be": sharing_pod("aboard"),
}


async def answered(client, document):
    """The refusal, as the client reads it."""
    try:
        await client.create(kind_of(document), document, manager="test")
    except ApiError as error:
        status = error.status()
        return {part: status.get(part) or None for part in ("code", "reason", "message", "details")}
    return "let in"


async def all_answers(client):
    return {name: await answered(client, document) for name, document in REFUSED.items()}


@asynccontextmanager
async def connected(cluster):
    connection = open_connection(str(cluster.kubeconfig))
    try:
        yield connection.client
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def control(cluster):
    with controlling(cluster, OURS) as process:
        yield process


@pytest.fixture(scope="module")
def theirs(cluster, control):
    async def ask():
        async with connected(cluster) as client:
            return await all_answers(client)

    return asyncio.run(ask())


@pytest.fixture(scope="module")
def ours():
    async def ask():
        async with plane(controllers=("accounts",)) as heart:
            await until(heart, kinds.SERVICE_ACCOUNT, Key("default", "default"), lambda account: True)
            return await all_answers(heart.client)

    return asyncio.run(ask())


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_server_refuses_in_the_words_of_ours(name, theirs, ours):
    assert theirs[name] != "let in"
    assert theirs[name] == ours[name]


def test_what_others_schedule_is_not_asked_about(cluster, control):
    said = cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", document=json.dumps(sharing_pod("default-scheduler"))
    )
    assert (said.returncode, said.stdout) == (0, "pod/share created (server dry run)\n")


def test_a_runtime_and_its_job_in_one_file_are_let_in_together(cluster, control):
    both = {"apiVersion": "v1", "kind": "List", "items": [runtime("fresh"), job("early", "fresh", suspend=True)]}
    said = cluster.kubectl("create", "-f", "-", document=json.dumps(both))
    assert said.returncode == 0, said.stderr


def test_patches_are_stamped_and_warnings_reach_whoever_asks(cluster, control):
    wish = job("stamped", suspend=True, runtimePatches=[patch(nodeSelector={"a": "b"})])
    wish["metadata"]["labels"] = {"kai.scheduler/queue": "ghost"}
    said = cluster.kubectl("create", "-f", "-", "-ojson", document=json.dumps(wish))
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["spec"]["runtimePatches"][0]["time"].endswith("Z")
    assert 'Warning: metadata.labels[kai.scheduler/queue]: queue "ghost" does not exist' in said.stderr


def test_a_pod_reports_its_own_jobs_progress_and_no_others(cluster, control):
    assert cluster.kubectl("create", "-f", "-", document=json.dumps(job("told", suspend=True))).returncode == 0
    labels = {"jobset.sigs.k8s.io/jobset-name": "told"}
    spec = {"containers": [{"name": "c", "image": "busybox"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "told-pod", "labels": labels}, "spec": spec}
    assert cluster.kubectl("create", "-f", "-", document=json.dumps(pod)).returncode == 0

    def report(name, audience):
        bound = ("--bound-object-kind=Pod", "--bound-object-name=told-pod", f"--audience={audience}")
        token = cluster.kubectl("create", "token", "default", *bound).stdout.strip()
        body = {"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": "2026-01-02T03:04:05Z"}}
        return _post(cluster, control, f"/apis/{PROGRESS.format(name)}", token, body)

    assert report("told", PROGRESS.format("told"))["trainerStatus"]["progressPercentage"] == 42
    said = cluster.kubectl("get", "trainjob", "told", "-ojsonpath={.status.trainerStatus.progressPercentage}")
    assert said.stdout == "42"
    assert report("told", "somebody-else")["code"] == 403
    assert report("stamped", PROGRESS.format("stamped"))["code"] == 403


def test_the_certificate_lives_in_a_secret_and_survives_a_restart(cluster, control):
    def bundle():
        said = cluster.kubectl("get", "secret", "-nkubeflow-system", "aboard-webhook-cert", "-ojson")
        return json.loads(said.stdout)["data"]

    before = bundle()
    configuration = json.loads(cluster.kubectl("get", "validatingwebhookconfiguration", "aboard.dev", "-ojson").stdout)
    trusted = {webhook["clientConfig"]["caBundle"] for webhook in configuration["webhooks"]}
    assert trusted == {before["ca.crt"]}
    assert base64.b64decode(before["tls.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    with controlling(cluster, OURS, "--no-leader-elect"):
        assert bundle() == before
        assert cluster.kubectl("get", "trainjob", "stamped").returncode == 0
        said = cluster.kubectl("create", "-f", "-", document=json.dumps(job(runtime="ghost")))
        assert 'clustertrainingruntimes.trainer.kubeflow.org "ghost" not found' in said.stderr


def test_a_good_job_becomes_a_job_set_jobs_and_pods_with_places(cluster):
    with controlling(cluster, OURS):
        asyncio.run(_add_nodes(cluster, 2))
        pods = {"schedulerName": "aboard", "containers": [{"name": "node", "image": "busybox"}]}
        ready = runtime("bound")
        ready["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] = pods
        both = {"apiVersion": "v1", "kind": "List", "items": [ready, job("whole", "bound", trainer={"numNodes": 2})]}
        assert cluster.kubectl("create", "-f", "-", document=json.dumps(both)).returncode == 0
        places = eventually(lambda: _places(cluster, "whole"))
    assert len(places) == 2
    owners = cluster.kubectl("get", "jobset,job", "-ojsonpath={.items[*].kind} {.items[*].metadata.name}").stdout
    assert "whole" in owners and "whole-node-0" in owners


def _post(cluster, control, path, token, body):
    """What the door of `aboard control` answers; its certificate must be the one in the Secret."""
    said = cluster.kubectl("get", "secret", "-nkubeflow-system", "aboard-webhook-cert", "-ojson")
    authority = base64.b64decode(json.loads(said.stdout)["data"]["ca.crt"]).decode()
    context = ssl.create_default_context(cadata=authority)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    address = f"https://127.0.0.1:{control.webhooks}{path}"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def _places(cluster, name):
    """Where every pod of the job was put; nothing while one waits."""
    said = cluster.kubectl("get", "pods", f"-ljobset.sigs.k8s.io/jobset-name={name}", "-ojson")
    nodes = [pod["spec"].get("nodeName") for pod in json.loads(said.stdout)["items"]]
    return nodes if len(nodes) == 2 and all(nodes) else []


async def _add_nodes(cluster, count):
    async with connected(cluster) as client:
        for number in range(count):
            document = node(f"node-{number:03}")
            created = await client.create(kinds.NODE, document, manager="test")
            created = await client.update(kinds.NODE, {**created, "spec": {}}, manager="test")
            await client.update(
                kinds.NODE, {**created, "status": document["status"]}, manager="test", subresource="status"
            )
            assert await client.get(kinds.NODE, key_of(document))
