"""Versions that a conversion webhook translates: what is stored, what is shown, and what an answer must be."""

import asyncio
import json

import pytest

from allaboard.api.documents import Key
from allaboard.cluster.answers import Shaper, negotiate
from allaboard.cluster.ask import Place
from allaboard.cluster.options import read_list
from allaboard.cluster.outside import Outside, Reply, Unreachable
from allaboard.cluster.streams import Stream
from tests.cluster.plane import Plane, plain

GROUP = "c.example.com"
V1 = {"hostPort": {"type": "string"}, "size": {"type": "integer"}, "old": {"type": "string", "default": "one"}}
V2 = {"host": {"type": "string"}, "port": {"type": "string"}, "size": {"type": "integer"}}
V2 |= {"new": {"type": "string", "default": "two"}}
MERGE = "application/merge-patch+json"


def version(name, properties, **rest):
    spec = {"type": "object", "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": name == "v2", "schema": schema, **rest}


def definition():
    client = {"url": "https://hooks.example.com/convert"}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    selectable = [{"jsonPath": ".spec.host"}]
    spec = {"group": GROUP, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}}
    spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    spec["versions"] = [version("v1", V1), version("v2", V2, selectableFields=selectable)]
    return plain("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"things.{GROUP}", spec=spec)


def translated(document, desired):
    spec = dict(document["spec"])
    if desired.endswith("v2") and "hostPort" in spec:
        spec["host"], _, spec["port"] = spec.pop("hostPort").partition(":")
    elif desired.endswith("v1") and "host" in spec:
        spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port', '')}"
    return {**document, "apiVersion": desired, "spec": {**spec, "foreign": "x"}}


class Translator:
    """The other end; `spoil` changes an answer before it is sent."""

    def __init__(self):
        self.spoil, self.asked = (lambda answer: answer), []

    async def call(self, target, body, seconds, bundle):
        review = json.loads(body)
        request = review["request"]
        self.asked.append((request["desiredAPIVersion"], len(request["objects"])))
        objects = [translated(document, request["desiredAPIVersion"]) for document in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        answer = {"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response}
        spoilt = self.spoil(answer)
        return spoilt if isinstance(spoilt, Reply) else Reply(200, json.dumps(spoilt).encode())


def where(version, name=""):
    return f"/apis/{GROUP}/{version}/namespaces/default/things" + (f"/{name}" if name else "")


def thing(version, name, **spec):
    return plain(f"{GROUP}/{version}", "Thing", name, metadata={"labels": {"a": "b"}}, spec=spec)


async def served():
    plane, translator = await Plane().furnish(), Translator()
    plane.cluster.ask_outside(Outside(translator.call))
    await plane.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    return plane, translator


async def spec_of(plane, version, name):
    return (await plane.ask("GET", where(version, name))).body["spec"]


def test_each_version_is_shown_in_its_own_words():
    async def story():
        plane, _ = await served()
        made = await plane.ask("POST", where("v1"), thing("v1", "a", hostPort="h:80"))
        # Upstream: the stored version has its defaults; what is converted from it gets none.
        assert made.code == 201 and made.body["spec"] == {"hostPort": "h:80"}
        assert await spec_of(plane, "v2", "a") == {"host": "h", "port": "80", "new": "two"}
        await plane.ask("PATCH", where("v1", "a"), {"spec": {"hostPort": "q:9"}}, content_type=MERGE)
        assert await spec_of(plane, "v2", "a") == {"host": "q", "port": "9", "new": "two"}
        changed = await plane.ask("PATCH", where("v2", "a"), {"spec": {"size": 3}}, content_type=MERGE)
        assert changed.body["metadata"]["generation"] == 3
        assert await spec_of(plane, "v1", "a") == {"hostPort": "q:9", "size": 3}

    asyncio.run(story())


def test_a_list_is_translated_with_one_question_and_remembered():
    async def story():
        plane, translator = await served()
        for name in ("a", "b", "c"):
            await plane.ask("POST", where("v2"), thing("v2", name, host=name, port="1"))
        translator.asked.clear()
        listed = await plane.ask("GET", where("v1"))
        assert [item["spec"]["hostPort"] for item in listed.body["items"]] == ["a:1", "b:1", "c:1"]
        await plane.ask("GET", where("v1"))
        assert translator.asked == [(f"{GROUP}/v1", 3)]
        found = await plane.ask("GET", f"{where('v2')}?fieldSelector=spec.host%3Db")
        assert [item["metadata"]["name"] for item in found.body["items"]] == ["b"]

    asyncio.run(story())


def test_a_watch_shows_the_version_it_asks_for():
    async def story():
        plane, _ = await served()
        await plane.ask("POST", where("v2"), thing("v2", "a", host="h", port="1"))
        rules = plane.cluster.registry.find(GROUP, "v1", "things")
        wanted = read_list(rules, {"watch": ["true"]})
        shaper = Shaper(plane.cluster.store, rules, negotiate(""), plane.cluster.world.now, "")
        stream = Stream(plane.cluster.store, Place(rules, Key("default", "")), wanted, shaper).lines()
        opening = json.loads(await anext(stream))
        await plane.ask("PATCH", where("v2", "a"), {"spec": {"port": "2"}}, content_type=MERGE)
        change = json.loads(await anext(stream))
        await stream.aclose()
        assert [opening["type"], change["type"]] == ["ADDED", "MODIFIED"]
        assert [event["object"]["spec"] for event in (opening, change)] == [{"hostPort": "h:1"}, {"hostPort": "h:2"}]

    asyncio.run(story())


def test_a_deletion_needs_the_translation_too():
    async def story():
        plane, translator = await served()
        await plane.ask("POST", where("v2"), thing("v2", "a", host="h", port="1"))
        translator.spoil = lambda answer: Reply(500, b"")
        assert (await plane.ask("DELETE", where("v1", "a"))).code == 500
        assert (await plane.ask("DELETE", where("v2", "a"))).code == 200

    asyncio.run(story())


def respond(**changes):
    return lambda answer: {**answer, "response": {**answer["response"], **changes}}


def each(**changes):
    def spoil(answer):
        objects = [{**document, **changes} for document in answer["response"]["convertedObjects"]]
        return respond(convertedObjects=objects)(answer)

    return spoil


def metadata(**changes):
    def spoil(answer):
        objects = answer["response"]["convertedObjects"]
        changed = [{**document, "metadata": {**document["metadata"], **changes}} for document in objects]
        return respond(convertedObjects=changed)(answer)

    return spoil


FAILED = {"status": "Failed"}
# Recorded from a real API server; each begins with "conversion webhook for c.example.com/v2, Kind=Thing".
SPOILT = {
    "it fails, with a reason": (respond(result={**FAILED, "message": "no way"}), "failed: no way"),
    "it fails": (respond(result=FAILED), "failed: response.result.status was 'Failed', not 'Success'"),
    "another's answer": (respond(uid="x"), 'failed: expected response.uid="'),
    "no response": (lambda answer: {**answer, "response": None}, "failed: no response provided"),
    "no kind": (
        lambda answer: {"response": answer["response"]},
        "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
    ),
    "too few": (respond(convertedObjects=[]), "returned 0 objects, expected 1"),
    "another version": (
        each(apiVersion="c.example.com/v9"),
        "returned invalid object at index 0: invalid groupVersion (expected c.example.com/v1, received c.example.com/v",
    ),
    "another kind": (
        each(kind="Other"), "returned invalid object at index 0: invalid kind (expected Thing, received Other)",
    ),
    "another name": (metadata(name="b"), "returned invalid object: must have the same name: a != b"),
    "another uid": (metadata(uid="x"), "returned invalid object: must have the same UID: "),
    "a label that is none": (
        metadata(labels={"l l": "1"}), 'returned invalid metadata: metadata.labels: Invalid value: "l l": name part',
    ),
    "a label that is a number": (
        metadata(labels={"l": 1}),
        "returned invalid metadata: metadata.labels[l] must be a string, but is int64 in converted object",
    ),
    "a broken server": (lambda _: Reply(500, b""), 'failed: an error on the server ("unknown") has prevented'),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "words"), SPOILT.values(), ids=SPOILT)
def test_an_answer_must_be_about_the_same_object(spoil, words):
    async def story():
        plane, translator = await served()
        await plane.ask("POST", where("v2"), thing("v2", "a", host="h", port="1"))
        translator.spoil = spoil
        for path in (where("v1", "a"), where("v1")):
            answer = await plane.ask("GET", path)
            assert answer.code == 500 and "reason" not in answer.body
            assert answer.message.startswith(f"conversion webhook for c.example.com/v2, Kind=Thing {words}")
        assert (await plane.ask("GET", where("v2", "a"))).code == 200

    asyncio.run(story())


def test_labels_are_the_webhooks_to_change_and_nothing_else():
    async def story():
        plane, translator = await served()
        await plane.ask("POST", where("v2"), thing("v2", "a", host="h", port="1"))
        translator.spoil = metadata(labels={"l": "1"}, annotations={"n": "2"}, generation=99)
        shown = (await plane.ask("GET", where("v1", "a"))).body["metadata"]
        assert (shown["labels"], shown["annotations"], shown["generation"]) == ({"l": "1"}, {"n": "2"}, 1)

    asyncio.run(story())


def test_nobody_to_ask_is_said():
    async def story():
        plane, _ = await served()
        await plane.ask("POST", where("v2"), thing("v2", "a", host="h", port="1"))

        async def silent(*_):
            raise Unreachable("no route")

        plane.cluster.ask_outside(Outside(silent))
        answer = await plane.ask("GET", where("v1", "a"))
        assert answer.message == "conversion webhook for c.example.com/v2, Kind=Thing failed: no route"

    asyncio.run(story())
