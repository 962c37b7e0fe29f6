"""Admission by webhook: who is asked, in which order, and what an answer or silence means."""

import asyncio
import base64
import json

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import ApiError, Internal
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.create import create
from allaboard.cluster.webhooks import Outside
from tests.cluster.plane import Plane, config_map, plain

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def hook(name, **rest):
    config = {"url": f"https://example.com/{name}"}
    facts = {"name": name, "clientConfig": config, "rules": [RULE], "sideEffects": "None"}
    return facts | {"admissionReviewVersions": ["v1"], "failurePolicy": "Fail"} | rest


class Outer:
    """The other end: answers by URL, and remembers who was asked."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    async def call(self, url, review, seconds, bundle):
        name = url.rpartition("/")[2]
        self.asked.append(name)
        answer = self.answers[name.split(".")[0]]
        if isinstance(answer, Exception):
            raise answer
        response = answer(review["request"]["object"]) if callable(answer) else answer
        return {"response": {"uid": review["request"]["uid"], **response}}


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
        strict = await planned(Outer(one=OSError("no route")), validating=[hook("one.example.com")])
        with pytest.raises(Internal, match="failed to call webhook: no route"):
            await made(strict)
        lax = await planned(Outer(one=OSError("no")), validating=[hook("one.example.com", failurePolicy="Ignore")])
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
        with pytest.raises(Internal, match="match condition c"):
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
