"""AdmissionReviews, answered: what is let in, what is refused and in which words, what is fetched on the way."""

import asyncio
import base64

import msgspec
import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import Forbidden, NotFound
from allaboard.api.kinds import Kind
from allaboard.kube.admission import ALLOWED, Verdict
from allaboard.kube.registration import Door, configurations
from allaboard.kube.webhook import BadReview, Webhook, asked

JOB = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a", "namespace": "n"}}
KIND = {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"}


class Cluster:
    """A reader of the outside world: documents by kind and key, and what was asked for."""

    def __init__(self, *documents):
        self.documents, self.reads = documents, []

    async def get(self, kind, key):
        self.reads.append(str(key))
        return next((d for d in self.documents if d["metadata"]["name"] == key.name), None)

    async def list(self, kind, select):
        self.reads.append(f"all of {kind.plural}")
        if not self.documents:
            raise NotFound("the server could not find the requested resource")
        return list(self.documents)


class Rule:
    """Lets in whose runtime exists; says which runtimes there are."""

    name = "runtime.test.dev"
    kinds = (kinds.TRAIN_JOB,)
    operations = ("CREATE", "UPDATE")
    subresources = ("",)

    def mutate(self, request, view):
        return None if request.old else {**request.new, "spec": {"seen": True}}

    def validate(self, request, view):
        if view.get(kinds.CLUSTER_TRAINING_RUNTIME, Key("", "rt")):
            return Verdict(warnings=("old",))
        names = [d["metadata"]["name"] for d in view.list(kinds.CLUSTER_TRAINING_RUNTIME)]
        return Verdict(Forbidden(f"no rt; there are: {names}"))


def review(**request):
    body = {"uid": "7", "kind": KIND, "operation": "CREATE", "namespace": "n", "object": JOB, **request}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body})


def ask(path, body, *documents):
    """What the app answers to a call: its code and its document."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    app = Webhook([Rule()], Cluster(*documents))
    asyncio.run(app({"type": "http", "path": path}, receive, send))
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


RUNTIME = {"metadata": {"name": "rt"}}


def test_who_is_let_in_is_told_so_with_warnings():
    code, answer = ask("/validate/runtime.test.dev", review(), RUNTIME)
    assert (code, answer["kind"], answer["apiVersion"]) == (200, "AdmissionReview", "admission.k8s.io/v1")
    assert answer["response"] == {"uid": "7", "allowed": True, "warnings": ["old"]}


@pytest.mark.parametrize(
    ("documents", "names"), [((), "[]"), (({"metadata": {"name": "other"}},), "['other']")], ids=["none", "one"]
)
def test_a_refusal_carries_code_reason_and_words(documents, names):
    response = ask("/validate/runtime.test.dev", review(), *documents)[1]["response"]
    status = {"message": f"no rt; there are: {names}", "reason": "Forbidden", "code": 403}
    assert response == {"uid": "7", "allowed": False, "status": status}


def test_a_change_is_a_json_patch_of_what_changed():
    response = ask("/mutate/runtime.test.dev", review())[1]["response"]
    assert response["patchType"] == "JSONPatch"
    patch = msgspec.json.decode(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec", "value": {"seen": True}}]


def test_no_change_is_no_patch():
    response = ask("/mutate/runtime.test.dev", review(operation="UPDATE", oldObject=JOB))[1]["response"]
    assert response == {"uid": "7", "allowed": True}


def test_what_a_hook_asks_for_is_fetched_once_and_the_hook_asked_again():
    cluster = Cluster({"metadata": {"name": "other"}})
    asyncio.run(Webhook([Rule()], cluster).review(Rule(), "validate", review()))
    assert cluster.reads == ["rt", "all of clustertrainingruntimes"]


BAD = {
    "no json": (b"{", "the body is no JSON"),
    "no request": (b"{}", "it has no request"),
    "a kind nobody knows": (review(kind={**KIND, "kind": "Gadget"}), 'kind "Gadget"'),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_review_is_the_callers_mistake(name):
    body, words = BAD[name]
    code, answer = ask("/validate/runtime.test.dev", body)
    assert code == 400 and words in answer["message"]


@pytest.mark.parametrize("path", ["/validate/other.test.dev", "/connect/runtime.test.dev", "/"])
def test_unknown_paths_name_the_hooks_there_are(path):
    code, answer = ask(path, review())
    assert code == 404 and "hooks are: runtime.test.dev" in answer["message"]


def test_a_cluster_that_cannot_be_read_is_an_error_not_a_verdict():
    class Broken(Cluster):
        async def get(self, kind, key):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        asyncio.run(Webhook([Rule()], Broken()).review(Rule(), "validate", review()))


def test_a_created_object_may_have_no_name_yet():
    request = {"kind": KIND, "operation": "CREATE", "object": {"metadata": {"generateName": "x-"}}}
    assert asked(request).key == Key("", "")
    with pytest.raises(BadReview):
        asked({"kind": {}, "operation": "CREATE"})


# --- registration ---


class Courtesy:
    name = "courtesy.test.dev"
    kinds = (kinds.POD, Kind("batch", "v1", "Job", "jobs"))
    operations = ("CREATE",)
    subresources = ("", "status")
    is_courtesy = True
    selector = {"matchLabels": {"a": "b"}}  # noqa: RUF012
    condition = "object.spec.x == 1"

    def validate(self, request, view):
        return ALLOWED


def test_hooks_are_registered_with_rules_and_where_to_ask():
    mutating, validating = configurations([Rule(), Courtesy()], Door(b"ca", "https://h:1/"))
    assert [mutating["kind"], validating["kind"]] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert [hook["name"] for hook in mutating["webhooks"]] == ["runtime.test.dev"]
    rule, courtesy = validating["webhooks"]
    assert rule["clientConfig"] == {"url": "https://h:1/validate/runtime.test.dev", "caBundle": "Y2E="}
    assert (rule["failurePolicy"], courtesy["failurePolicy"]) == ("Fail", "Ignore")
    assert "objectSelector" not in rule
    assert courtesy["objectSelector"] == {"matchLabels": {"a": "b"}}
    assert courtesy["matchConditions"] == [{"name": "meant", "expression": "object.spec.x == 1"}]
    assert courtesy["rules"][1] == {
        "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs", "jobs/status"], "operations": ["CREATE"]
    }  # fmt: skip


def test_a_service_may_stand_before_the_hooks():
    door = Door(b"ca", namespace="system", service="hooks", port=8443)
    service = configurations([Courtesy()], door)[0]["webhooks"][0]["clientConfig"]["service"]
    assert service == {"namespace": "system", "name": "hooks", "port": 8443, "path": "/validate/courtesy.test.dev"}
