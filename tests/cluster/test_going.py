"""How objects are asked to go, and what lies beside them: preconditions, evictions, bindings, scale."""

import asyncio

import pytest

from tests.cluster.plane import Plane, config_map, plain, pod

CMS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"


def run(story):
    async def furnished():
        return await story(await Plane().furnish())

    return asyncio.run(furnished())


PRECONDITIONS = {
    #                                 query                 body                                      code
    "the revision that is": ("resourceVersion={revision}", None, 200),
    "another revision": ("resourceVersion=1", None, 409),
    "the uid that is": ("uid={uid}", None, 200),
    "another uid": ("uid=x", None, 409),
    "a body without anything": ("", b"null", 200),
    "a revision beside a body": ("resourceVersion=1", {}, 200),
}


@pytest.mark.parametrize(("query", "body", "code"), PRECONDITIONS.values(), ids=PRECONDITIONS)
def test_a_deletion_may_say_in_its_query_which_object_it_means(query, body, code):
    async def story(plane):
        metadata = (await plane.ask("POST", CMS, config_map("a"))).body["metadata"]
        query_ = query.format(uid=metadata["uid"], revision=metadata["resourceVersion"])
        assert (await plane.ask("DELETE", f"{CMS}/a?{query_}", body)).code == code
        assert (await plane.ask("GET", f"{CMS}/a")).code == (404 if code == 200 else 200)

    run(story)


EVICTIONS = {
    #                              eviction                                                query          code  goes
    "a plain one": ({"metadata": {"name": "p"}}, "", 201, True),
    "a rehearsal in the query": ({"metadata": {"name": "p"}}, "?dryRun=All", 201, False),
    "a rehearsal in its options": ({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}}, "", 201, False),
    "of another namespace": ({"metadata": {"name": "p", "namespace": "x"}}, "", 400, False),
    "of another name": ({"metadata": {"name": "q"}}, "", 400, False),
    "another kind": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "", 400, False),
    "a field nobody knows": ({"metadata": {"name": "p"}, "x": 1}, "?fieldValidation=Strict", 400, False),
    "of another uid": ({"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "x"}}}, "", 409, False),
}


@pytest.mark.parametrize(("eviction", "query", "code", "goes"), EVICTIONS.values(), ids=EVICTIONS)
def test_an_eviction_says_why_a_pod_goes(eviction, query, code, goes):
    async def story(plane):
        await plane.ask("POST", PODS, pod("p", nodeName="n"))
        assert (await plane.ask("POST", f"{PODS}/p/eviction{query}", eviction)).code == code
        found = (await plane.ask("GET", f"{PODS}/p")).body
        reasons = [condition["reason"] for condition in found["status"].get("conditions", ())]
        assert reasons == (["EvictionByEvictionAPI"] if goes else [])
        assert ("deletionTimestamp" in found["metadata"]) is goes

    run(story)


def test_an_eviction_of_one_revision_is_not_stopped_by_its_own_words():
    async def story(plane):
        made = (await plane.ask("POST", PODS, pod("p", nodeName="n"))).body["metadata"]
        preconditions = {"resourceVersion": made["resourceVersion"]}
        body = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": preconditions}}
        assert (await plane.ask("POST", f"{PODS}/p/eviction", body)).code == 201

    run(story)


def test_a_pod_that_is_forced_away_is_last_seen_without_a_grace_period():
    async def story(plane):
        await plane.ask("POST", PODS, pod("p", nodeName="n"))
        await plane.ask("DELETE", f"{PODS}/p")
        forced = await plane.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
        assert forced.body["metadata"]["deletionGracePeriodSeconds"] == 0
        assert (await plane.ask("GET", f"{PODS}/p")).code == 404

    run(story)


BINDINGS = {
    "of the pod in the path": ({"metadata": {"name": "p"}}, 201, None),
    "without a name": ({}, 400, "name in URL does not match name in Binding object"),
    "another kind": (
        {"apiVersion": "v1", "kind": "Pod"}, 400,
        'Pod in version "v1" cannot be handled as a Binding: converting (v1.Pod) to (core.Binding): unknown conversion',
    ),
    "a kind nobody has": (
        {"apiVersion": "v1", "kind": "Foo"}, 400,
        'Foo in version "v1" cannot be handled as a Binding: no kind "Foo" is registered for version "v1" in scheme '
        '"pkg/api/legacyscheme/scheme.go:30"',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("binding", "code", "said"), BINDINGS.values(), ids=BINDINGS)
def test_a_binding_names_its_pod(binding, code, said):
    async def story(plane):
        await plane.ask("POST", PODS, pod("p"))
        answer = await plane.ask("POST", f"{PODS}/p/binding", {**binding, "target": {"name": "n"}})
        assert (answer.code, answer.body.get("message")) == (code, said)

    run(story)


def scaled_definition():
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    v1 |= {"subresources": {"scale": scale}}
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [v1]}
    return plain("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com", spec=spec)


SCALES = {
    #                            scale                                                        code  replicas
    "more": ({"metadata": {"name": "w"}, "spec": {"replicas": 5}}, 200, 5),
    "none": ({"metadata": {"name": "w"}, "spec": {}}, 200, None),
    "without a name": ({"spec": {"replicas": 5}}, 400, None),
    "of another uid": ({"metadata": {"name": "w", "uid": "x"}, "spec": {"replicas": 5}}, 409, None),
    "another kind": ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w"}}, 400, None),
}


@pytest.mark.parametrize(("scale", "code", "replicas"), SCALES.values(), ids=SCALES)
def test_a_scale_is_written_whole(scale, code, replicas):
    async def story(plane):
        await plane.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", scaled_definition())
        widgets = "/apis/example.com/v1/namespaces/default/widgets"
        await plane.ask("POST", widgets, plain("example.com/v1", "Widget", "w", "default", spec={"replicas": 3}))
        answer = await plane.ask("PUT", f"{widgets}/w/scale", scale)
        assert (answer.code, answer.body.get("spec", {}).get("replicas")) == (code, replicas)
        form = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        table = (await plane.ask("GET", f"{widgets}/w/scale", **form)).body
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
        assert table["rows"][0]["cells"][:2] == ["w", 3 if code != 200 else replicas or 0]
        refused = await plane.ask("DELETE", f"{widgets}/w/scale")
        assert refused.message == 'delete is not supported on resources of kind "widgets.example.com"'

    run(story)
