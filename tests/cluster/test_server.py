"""The server, asked over its door: verbs and their refusals, in Kubernetes' words."""

import asyncio
import json

import pytest

from tests.cluster.fuzz import fuzz
from tests.cluster.plane import Plane, config_map, plain, pod

CMS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def run(story):
    async def furnished():
        return await story(await Plane().furnish())

    return asyncio.run(furnished())


def widget_definition(**version):
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    v1 |= {"subresources": {"status": {}}}
    versions = [v1, {**v1, "name": "v2", "storage": False}] if version.get("second") else [v1]
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return plain("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com", spec=spec)


REFUSALS = {
    "an unknown path": ("GET", "/nosuch", None, 404, "404 page not found"),
    "an unknown kind": ("GET", "/api/v1/nosuch", None, 404, "could not find the requested resource"),
    "an unknown object": ("GET", f"{CMS}/none", None, 404, 'configmaps "none" not found'),
    "a namespace that does not exist": (
        "POST", "/api/v1/namespaces/none/configmaps", {"metadata": {"name": "x"}}, 404, 'namespaces "none" not found'
    ),
    "another kind": ("POST", CMS, {"apiVersion": "v1", "kind": "Secret"}, 400, "Secret in version"),
    "another namespace": (
        "POST", CMS, {"metadata": {"name": "x", "namespace": "other"}}, 400, "namespace of the provided object"
    ),
    "no name": ("POST", CMS, {}, 422, "name or generateName is required"),
    "a body that is no JSON": ("POST", CMS, b"hello", 400, "invalid character 'h' looking for beginning of value"),
    "a body that ends early": ("POST", CMS, b"{", 400, "unexpected end of JSON input"),
    "an update of nothing": ("PUT", f"{CMS}/x", {"metadata": {"name": "x"}}, 404, 'configmaps "x" not found'),
    "a collection replaced": ("PUT", CMS, {}, 405, "does not allow this method"),
    "a limit that is no number": ("GET", f"{CMS}?limit=abc", None, 400, 'strconv.ParseInt: parsing "abc"'),
    "a dry run of another sort": ("POST", f"{CMS}?dryRun=Some", {}, 422, 'Unsupported value: ["Some"]'),
    "a selector nobody can read": ("GET", f"{CMS}?labelSelector=a%20in%20(", None, 400, "unable to parse"),
    "a field nobody selects by": ("GET", f"{CMS}?fieldSelector=data.k%3Dv", None, 400, "not a known field selector"),
    "a revision of the future": ("GET", f"{CMS}?resourceVersion=99999999", None, 504, "Too large resource version"),
}  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "code", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_request_that_cannot_be_granted_is_refused(method, path, body, code, words):
    async def story(plane):
        answer = await plane.ask(method, path, body)
        assert answer.code == code
        assert words in answer.data.decode().replace('\\"', '"')

    run(story)


def test_whoever_is_not_known_is_not_let_in():
    async def story(plane):
        assert [(await plane.ask("GET", CMS, token=token)).code for token in ("", "wrong", "admin")] == [401, 401, 200]

    run(story)


def test_an_object_lives_through_its_verbs():
    async def story(plane):
        created = await plane.ask("POST", CMS, config_map("a", k="1"))
        assert (created.code, created.body["metadata"]["managedFields"][0]["manager"]) == (201, "test")
        again = await plane.ask("POST", CMS, config_map("a"))
        assert (again.code, again.message) == (409, 'configmaps "a" already exists')
        same = await plane.ask("PUT", f"{CMS}/a", config_map("a", k="1"))
        assert same.body["metadata"]["resourceVersion"] == created.body["metadata"]["resourceVersion"]
        changed = await plane.ask("PUT", f"{CMS}/a", config_map("a", k="2"))
        stale = config_map("a", k="3")
        stale["metadata"]["resourceVersion"] = created.body["metadata"]["resourceVersion"]
        assert (await plane.ask("PUT", f"{CMS}/a", stale)).code == 409
        assert (await plane.ask("GET", f"{CMS}/a")).body == changed.body
        gone = await plane.ask("DELETE", f"{CMS}/a")
        assert gone.body["status"] == "Success" and gone.body["details"]["kind"] == "configmaps"
        assert (await plane.ask("GET", f"{CMS}/a")).code == 404

    run(story)


PATCHES = {
    "merge": ("application/merge-patch+json", {"data": {"b": "2"}}, {"a": "1", "b": "2"}),
    "merge takes away": ("application/merge-patch+json", {"data": {"a": None}}, None),
    "json": ("application/json-patch+json", [{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9"}),
    "strategic": ("application/strategic-merge-patch+json", {"data": {"c": "3"}}, {"a": "1", "c": "3"}),
}


@pytest.mark.parametrize(("media", "body", "want"), PATCHES.values(), ids=PATCHES)
def test_a_patch_changes_part_of_an_object(media, body, want):
    async def story(plane):
        await plane.ask("POST", CMS, config_map("a", a="1"))
        answer = await plane.ask("PATCH", f"{CMS}/a", body, content_type=media)
        assert (answer.code, answer.body.get("data")) == (200, want)

    run(story)


def test_apply_creates_owns_conflicts_and_forces():
    async def story(plane):
        def apply(manager, value, force="false"):
            query = f"?fieldManager={manager}&force={force}"
            body = config_map("a", k=value)
            return plane.ask("PATCH", f"{CMS}/a{query}", body, content_type="application/apply-patch+yaml")

        assert (await apply("one", "1")).code == 201
        conflict = await apply("two", "2")
        assert conflict.code == 409 and 'conflict with "one"' in conflict.message
        forced = await apply("two", "2", "true")
        assert [entry["manager"] for entry in forced.body["metadata"]["managedFields"]] == ["two"]
        twice = [await apply("two", "2"), await apply("two", "2"), await apply("two", "2")]
        revisions = {answer.body["metadata"]["resourceVersion"] for answer in (forced, *twice)}
        assert len(revisions) == 1, "an apply that changes nothing leaves the revision alone"

    run(story)


def test_a_field_nobody_knows_is_warned_about_or_refused():
    async def story(plane):
        body = {**config_map("a"), "extra": 1}
        warned = await plane.ask("POST", CMS, body)
        assert warned.warnings == ['299 - "unknown field \\"extra\\""'] and "extra" not in warned.body
        strict = await plane.ask("POST", f"{CMS}?fieldValidation=Strict", body)
        assert (strict.code, 'unknown field "extra"' in strict.message) == (400, True)
        twice = b'{"metadata":{"name":"b"},"data":{"k":"1","k":"2"}}'
        assert 'duplicate field "data.k"' in (await plane.ask("POST", f"{CMS}?fieldValidation=Strict", twice)).message

    run(story)


def test_lists_come_in_pages_that_agree_with_each_other():
    async def story(plane):
        for index in range(5):
            await plane.ask("POST", CMS, config_map(f"n{index}"))
        first = (await plane.ask("GET", f"{CMS}?limit=2")).body
        assert first["metadata"]["remainingItemCount"] == 3
        await plane.ask("DELETE", f"{CMS}/n4")
        await plane.ask("POST", CMS, config_map("n0a"))
        second = (await plane.ask("GET", f"{CMS}?limit=10&continue={first['metadata']['continue']}")).body
        names = [item["metadata"]["name"] for page in (first, second) for item in page["items"]]
        assert names == ["n0", "n1", "n2", "n3", "n4"]

    run(story)


def test_finalizers_hold_an_object_until_the_last_is_gone():
    async def story(plane):
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await plane.ask("POST", CMS, held)
        waiting = await plane.ask("DELETE", f"{CMS}/a")
        assert waiting.body["metadata"]["deletionTimestamp"]
        patch = {"metadata": {"finalizers": None}}
        released = await plane.ask("PATCH", f"{CMS}/a", patch, content_type="application/merge-patch+json")
        assert released.code == 200
        assert (await plane.ask("GET", f"{CMS}/a")).code == 404

    run(story)


def test_a_pod_is_given_time_to_end():
    async def story(plane):
        await plane.ask("POST", "/api/v1/namespaces/default/pods", pod("p", nodeName="n"))
        leaving = (await plane.ask("DELETE", "/api/v1/namespaces/default/pods/p")).body
        assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
        now = {"gracePeriodSeconds": 0}
        assert (await plane.ask("DELETE", "/api/v1/namespaces/default/pods/p", now)).code == 200
        assert (await plane.ask("GET", "/api/v1/namespaces/default/pods/p")).code == 404

    run(story)


def test_a_definition_is_served_at_once_and_takes_its_objects_with_it():
    async def story(plane):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await plane.ask("POST", definitions, widget_definition(second=True))).code == 201
        made = await plane.ask("POST", WIDGETS, plain("example.com/v1", "Widget", "w", spec={}, status={"x": 1}))
        assert made.body["spec"] == {"size": 1} and "status" not in made.body
        other = await plane.ask("GET", WIDGETS.replace("/v1/", "/v2/") + "/w")
        assert other.body["apiVersion"] == "example.com/v2"
        status = {"status": {"x": 2}, "spec": {"size": 9}}
        media = "application/merge-patch+json"
        told = await plane.ask("PATCH", f"{WIDGETS}/w/status", status, content_type=media)
        assert (told.body["spec"], told.body["status"], told.body["metadata"]["generation"]) == (
            {"size": 1},
            {"x": 2},
            1,
        )
        await plane.ask("DELETE", f"{definitions}/widgets.example.com")
        await plane.keeper.settle()
        await plane.keeper.settle()
        assert (await plane.ask("GET", f"{definitions}/widgets.example.com")).code == 404
        assert (await plane.ask("GET", WIDGETS)).data == b"404 page not found\n"

    run(story)


def test_a_body_has_a_limit():
    async def story(plane):
        large = json.dumps(config_map("a", k="x" * (3 * 1024 * 1024))).encode()
        assert (await plane.ask("POST", CMS, large)).code == 413

    run(story)


def test_deep_nesting_is_refused_not_fallen_over():
    async def story(plane):
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            body = (opening * 100_000 + "1" + closing * 100_000).encode()
            assert (await plane.ask("POST", CMS, body)).code == 400
            answer = await plane.ask("PATCH", f"{CMS}/a", body, content_type="application/merge-patch+json")
            assert answer.code in (400, 404)

    run(story)


@pytest.mark.parametrize("seed", range(3))
def test_malformed_requests_are_refused_and_nothing_breaks(seed):
    """A short version of `make fuzz`."""
    assert not asyncio.run(fuzz(800, seed)).failures
