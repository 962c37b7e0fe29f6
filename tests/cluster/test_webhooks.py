"""Admission by webhook: who is asked, in which order, and what an answer or silence means."""

import asyncio
import base64
import json

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import ApiError, Forbidden, Internal
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.create import create
from allaboard.cluster.outside import Outside, Reply, Unreachable
from tests.cluster.plane import Plane, config_map, plain

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def hook(name, **rest):
    config = {"url": f"https://example.com/{name}"}
    facts = {"name": name, "clientConfig": config, "rules": [RULE], "sideEffects": "None"}
    return facts | {"admissionReviewVersions": ["v1"], "failurePolicy": "Fail"} | rest


class Outer:
    """The other end: answers by URL, and remembers who was asked."""

    def __init__(self, **answers):
        self.answers, self.asked, self.reviews = answers, [], []

    async def call(self, target, body, seconds, bundle):
        review, name = json.loads(body), target.url.partition("?")[0].rpartition("/")[2]
        self.asked.append(name)
        self.reviews.append(review["request"])
        answer = self.answers[name.split(".")[0]]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        response = answer(review["request"]["object"]) if callable(answer) else answer
        said = {"kind": "AdmissionReview", "apiVersion": review["apiVersion"]}
        return Reply(200, json.dumps(said | {"response": {"uid": review["request"]["uid"], **response}}).encode())


def adding(key, value="1"):
    def answer(document):
        operations = [{"op": "add", "path": f"/data/{key}", "value": value}]
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch}

    return answer


async def planned(outer, mutating=(), validating=()):
    plane = await Plane().furnish()
    for kind, version, hooks in (
        (kinds.MUTATING_WEBHOOK, "MutatingWebhookConfiguration", mutating),
        (kinds.VALIDATING_WEBHOOK, "ValidatingWebhookConfiguration", validating),
    ):
        body = plain("admissionregistration.k8s.io/v1", version, "w", webhooks=list(hooks))
        await plane.client.create(kind, body, manager="t")
    plane.cluster.ask_outside(Outside(outer.call))
    return plane


async def made(plane, ask=None):
    place = Place(plane.cluster.registry.of(kinds.CONFIG_MAP), Key("default", ""))
    item = await create(plane.cluster, place, config_map("a", k="v"), ask or Ask())
    return plane.cluster.store.document(item)


def test_mutating_webhooks_change_one_after_the_other():
    async def story():
        outer = Outer(one=adding("one"), two=adding("two"))
        plane = await planned(outer, mutating=[hook("one.example.com"), hook("two.example.com")])
        assert (await made(plane))["data"] == {"k": "v", "one": "1", "two": "1"}
        assert outer.asked == ["one.example.com", "two.example.com"]

    asyncio.run(story())


def test_one_that_wants_to_see_later_changes_is_asked_again():
    async def story():
        outer = Outer(one=adding("one"), two=adding("two"))
        first = hook("one.example.com", reinvocationPolicy="IfNeeded")
        plane = await planned(outer, mutating=[first, hook("two.example.com")])
        await made(plane)
        assert outer.asked == ["one.example.com", "two.example.com", "one.example.com"]

    asyncio.run(story())


DENIALS = {
    "with its own words": ({"allowed": False, "status": {"message": "no", "code": 403}}, 403, "denied the request: no"),
    "without a word": ({"allowed": False}, 400, "denied the request without explanation"),
    "never with a code of success": ({"allowed": False, "status": {"message": "no", "code": 200}}, 400, "no"),
}


@pytest.mark.parametrize(("answer", "code", "words"), DENIALS.values(), ids=DENIALS)
def test_a_validating_webhook_refuses(answer, code, words):
    async def story():
        plane = await planned(Outer(one=answer), validating=[hook("one.example.com")])
        with pytest.raises(ApiError, match=words) as caught:
            await made(plane)
        assert caught.value.code == code
        assert 'admission webhook "one.example.com"' in str(caught.value)

    asyncio.run(story())


def test_silence_is_a_failure_unless_it_may_be_ignored():
    async def story():
        strict = await planned(Outer(one=Unreachable("no route")), validating=[hook("one.example.com")])
        with pytest.raises(Internal, match="failed to call webhook: no route"):
            await made(strict)
        lax = await planned(Outer(one=Unreachable("no")), validating=[hook("one.example.com", failurePolicy="Ignore")])
        assert (await made(lax))["data"] == {"k": "v"}

    asyncio.run(story())


CONDITIONS = {
    "one that holds": ("object.data.k == 'v'", True),
    "one that does not": ("object.data.k == 'w'", False),
    "one about the request": ("request.operation == 'CREATE' && request.namespace == 'default'", True),
}


@pytest.mark.parametrize(("expression", "asked"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions_narrow_who_is_asked(expression, asked):
    async def story():
        outer = Outer(one={"allowed": True})
        conditions = [{"name": "c", "expression": expression}]
        plane = await planned(outer, validating=[hook("one.example.com", matchConditions=conditions)])
        await made(plane)
        assert bool(outer.asked) is asked

    asyncio.run(story())


def test_a_condition_that_cannot_be_judged_refuses_unless_it_may_be_ignored():
    async def story():
        conditions = [{"name": "c", "expression": "object.nosuch.field == 1"}]
        strict = await planned(Outer(one={"allowed": True}), validating=[hook("one.x.com", matchConditions=conditions)])
        words = "is forbidden: expression 'object.nosuch.field == 1' resulted in error: no such key: nosuch"
        with pytest.raises(Forbidden, match=words):
            await made(strict)
        lax = hook("one.x.com", matchConditions=conditions, failurePolicy="Ignore")
        plane = await planned(Outer(one={"allowed": False}), validating=[lax])
        assert (await made(plane))["data"] == {"k": "v"}

    asyncio.run(story())


CONCERNS = {
    "everything by a star": ({"rules": [{**RULE, "resources": ["*"], "operations": ["*"]}]}, True),
    "another operation": ({"rules": [{**RULE, "operations": ["DELETE"]}]}, False),
    "another resource": ({"rules": [{**RULE, "resources": ["secrets"]}]}, False),
    "its subresource only": ({"rules": [{**RULE, "resources": ["configmaps/status"]}]}, False),
    "cluster scope only": ({"rules": [{**RULE, "scope": "Cluster"}]}, False),
    "labels of the object": ({"objectSelector": {"matchLabels": {"a": "b"}}}, False),
    "labels of the namespace": (
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True
    ),
    "labels of another namespace": ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, False),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "asked"), CONCERNS.values(), ids=CONCERNS)
def test_who_is_asked(facts, asked):
    async def story():
        outer = Outer(one={"allowed": True})
        plane = await planned(outer, validating=[hook("one.example.com", **facts)])
        await made(plane)
        assert bool(outer.asked) is asked

    asyncio.run(story())


def test_warnings_reach_the_client():
    async def story():
        outer = Outer(one={"allowed": True, "warnings": ["careful"]})
        plane = await planned(outer, validating=[hook("one.example.com")])
        ask = Ask()
        await made(plane, ask)
        assert ask.warnings == ["careful"]

    asyncio.run(story())


def counting(key):
    """A webhook that changes the document each time it is asked."""

    def answer(document):
        return adding(key, str(int(document["data"].get(key, "0")) + 1))(document)

    return answer


ROUNDS = {
    "the first, because the second changed something": (("a", "b-"), {"a": "2", "b": "1"}),
    "the last is not, for nothing came after it": (("a-", "b"), {"a": "1", "b": "1"}),
    "both, for the first changes it once more": (("a", "b"), {"a": "2", "b": "2"}),
    "every one that wants to after the last change": (("a", "b-", "c"), {"a": "2", "b": "1", "c": "2"}),
}


@pytest.mark.parametrize(("names", "want"), ROUNDS.values(), ids=ROUNDS)
def test_who_is_asked_a_second_time(names, want):
    async def story():
        policies = {name.rstrip("-"): "Never" if name.endswith("-") else "IfNeeded" for name in names}
        hooks = [hook(f"{name}.x.com", reinvocationPolicy=policy) for name, policy in policies.items()]
        plane = await planned(Outer(**{name: counting(name) for name in policies}), mutating=hooks)
        assert (await made(plane))["data"] == {"k": "v"} | want

    asyncio.run(story())


def replied(code, body):
    return Reply(code, body if isinstance(body, bytes) else json.dumps(body).encode())


REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
PATCH = base64.b64encode(b'[{"op":"add","path":"/data/z","value":"1"}]').decode()
CALLED, RECEIVED = "failed to call webhook: ", "received invalid webhook response: "
# Recorded from a real API server.
UNUSABLE = {
    "a page of noise": (replied(200, b"hello"), f"{CALLED}couldn't get version/kind; json parse error: json: cannot"),
    "a broken server": (replied(500, b"boom"), f'{CALLED}an error on the server ("unknown") has prevented the request'),
    "nothing there": (replied(404, b"no"), f"{CALLED}the server could not find the requested resource"),
    "a refusal": (replied(403, {"kind": "Status", "message": "go away"}), f"{CALLED}go away"),
    "another kind": (replied(200, {**REVIEW, "kind": "Foo"}), f'{CALLED}no kind "Foo" is registered for version'),
    "another version": (
        replied(200, {**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}),
        f"{CALLED}converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    "no response": (replied(200, REVIEW), f"{RECEIVED}webhook response was absent"),
    "another's response": ({"uid": "x", "allowed": True}, f'{RECEIVED}expected response.uid="'),
    "a patch of no kind": ({"allowed": True, "patch": PATCH}, f"{RECEIVED}webhook returned response.patch but not"),
    "a patch that is none": (
        {"allowed": True, "patchType": "JSONPatch"},
        f"{RECEIVED}webhook returned response.patchT",
    ),
    "a patch of another kind": ({"allowed": True, "patch": PATCH, "patchType": "X"}, 'unsupported patch type "X"'),
    "half a patch": ({"allowed": True, "patch": "W3s=", "patchType": "JSONPatch"}, "received undecodable patch in"),
}


@pytest.mark.parametrize(("answer", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_answer_must_be_usable(answer, words):
    async def story():
        plane = await planned(Outer(one=answer), mutating=[hook("one.x.com")])
        with pytest.raises(Internal) as caught:
            await made(plane)
        assert str(caught.value).startswith(f'Internal error occurred: failed calling webhook "one.x.com": {words}')
        assert caught.value.status()["details"]["causes"][0].keys() == {"message"}
        lax = await planned(Outer(one=answer), mutating=[hook("one.x.com", failurePolicy="Ignore")])
        assert (await made(lax))["data"] == {"k": "v"}

    asyncio.run(story())


def patching(*operations):
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


FAILING = {
    "removes what is not there": (
        {"op": "remove", "path": "/data/no"},
        "error in remove for path: '/data/no': Unable to remove nonexistent key: no: missing value",
    ),
    "adds where nothing is": (
        {"op": "add", "path": "/a/b", "value": 1},
        'add operation does not apply: doc is missing path: "/a/b": missing value',
    ),
    "tests in vain": ({"op": "test", "path": "/data/k", "value": "x"}, "testing value /data/k failed: test failed"),
    "makes nonsense of it": (
        {"op": "add", "path": "/data", "value": 3},
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
    ),
}


@pytest.mark.parametrize(("operation", "words"), FAILING.values(), ids=FAILING)
def test_a_patch_that_cannot_be_carried_out_fails_whoever_may_be_ignored(operation, words):
    async def story():
        lax = hook("one.x.com", failurePolicy="Ignore")
        plane = await planned(Outer(one=patching(operation)), mutating=[lax])
        with pytest.raises(Internal) as caught:
            await made(plane)
        assert str(caught.value) == f"Internal error occurred: {words}"

    asyncio.run(story())


def test_what_a_patch_adds_that_the_kind_does_not_know_is_dropped():
    async def story():
        answer = patching({"op": "add", "path": "/nope", "value": 1})
        assert "nope" not in await made(await planned(Outer(one=answer), mutating=[hook("one.x.com")]))

    asyncio.run(story())


def test_a_validating_webhook_may_not_patch():
    async def story():
        plane = await planned(Outer(one=adding("z")), validating=[hook("one.x.com")])
        with pytest.raises(Internal, match="validating webhook may not return"):
            await made(plane)

    asyncio.run(story())


def test_deletions_are_asked_about_too_but_not_changed():
    async def story():
        rules = [{**RULE, "operations": ["DELETE"]}]
        outer = Outer(one={"allowed": True}, two={"allowed": True})
        hooks = {"mutating": [hook("one.x.com", rules=rules)], "validating": [hook("two.x.com", rules=rules)]}
        plane = await planned(outer, **hooks)
        await made(plane)
        await plane.client.delete(kinds.CONFIG_MAP, Key("default", "a"))
        assert outer.asked == ["one.x.com", "two.x.com"]
        assert outer.reviews[0]["object"] is None and outer.reviews[0]["oldObject"]["data"] == {"k": "v"}
        assert outer.reviews[0]["options"]["kind"] == "DeleteOptions"
        plane = await planned(Outer(one=adding("z")), mutating=[hook("one.x.com", rules=rules)])
        outer.answers["one"] = adding("z")
        await made(plane)
        with pytest.raises(Internal, match="attempted to modify the object, which is not supported for this operation"):
            await plane.client.delete(kinds.CONFIG_MAP, Key("default", "a"))

    asyncio.run(story())


def test_a_new_object_is_shown_before_it_has_a_name_and_an_identity():
    async def story():
        outer = Outer(one={"allowed": True}, two={"allowed": True})
        plane = await planned(outer, mutating=[hook("one.x.com")], validating=[hook("two.x.com")])
        body = plain("v1", "ConfigMap", "", "default", metadata={"generateName": "g-"}, data={"k": "v"})
        del body["metadata"]["name"]
        await plane.ask("POST", "/api/v1/namespaces/default/configmaps?fieldManager=me", body)
        before, after = outer.reviews
        assert "name" not in before and not {"uid", "name", "creationTimestamp"} & before["object"]["metadata"].keys()
        assert after["name"] == after["object"]["metadata"]["name"] == "g-00001"
        assert before["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}

    asyncio.run(story())


SLICE = {"addressType": "IPv4", "ports": [{"name": "https", "port": 9443}]}
LABELS = {"labels": {"kubernetes.io/service-name": "hooks"}}
SERVICES = {
    "a service nobody made": (None, (), 'service "hooks" not found'),
    "a port it does not have": (
        {"ports": [{"name": "https", "port": 80}]},
        (),
        "no service port 443 found for service",
    ),
    "nobody behind it": ({"ports": [{"name": "https", "port": 443}]}, (), "no endpoints available for service"),
    "nobody ready": (
        {"ports": [{"name": "https", "port": 443}]},
        [{"addresses": ["127.0.0.9"], "conditions": {"ready": False}}],
        "no endpoints available for service",
    ),
}


async def serviced(outer, spec, endpoints):
    service = {"namespace": "default", "name": "hooks", "path": "/one"}
    plane = await planned(outer, validating=[hook("one.x.com", clientConfig={"service": service})])
    if spec is not None:
        await plane.client.create(kinds.SERVICE, plain("v1", "Service", "hooks", "default", spec=spec), manager="t")
    if endpoints:
        body = plain("discovery.k8s.io/v1", "EndpointSlice", "s", "default", metadata=LABELS, **SLICE)
        await plane.client.create(kinds.ENDPOINT_SLICE, {**body, "endpoints": endpoints}, manager="t")
    return plane


@pytest.mark.parametrize(("spec", "endpoints", "words"), SERVICES.values(), ids=SERVICES)
def test_a_service_must_lead_somewhere(spec, endpoints, words):
    async def story():
        with pytest.raises(Internal) as caught:
            await made(await serviced(Outer(), spec, endpoints))
        assert f'Post "https://hooks.default.svc:443/one?timeout=10s": {words}' in str(caught.value)

    asyncio.run(story())


def test_a_service_is_called_where_its_pods_are():
    async def story():
        seen = []

        class Listening(Outer):
            async def call(self, target, body, seconds, bundle):
                seen.append((target.host, target.port, target.url))
                return await super().call(target, body, seconds, bundle)

        ready = [{"addresses": ["127.0.0.9"], "conditions": {"ready": True}}]
        ports = {"ports": [{"name": "https", "port": 443}]}
        await made(await serviced(Listening(one={"allowed": True}), ports, ready))
        assert seen == [("127.0.0.9", 9443, "https://hooks.default.svc:443/one?timeout=10s")]

    asyncio.run(story())
