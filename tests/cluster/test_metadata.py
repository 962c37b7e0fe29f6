"""Metadata: the rules that every kind shares, in the server's words."""

import asyncio

import pytest

from allaboard.api import names
from allaboard.cluster import metadata
from tests.cluster.plane import Plane, config_map, plain

OWNER = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}
REFUSED = {
    "no name": ({"namespace": "n"}, ["metadata.name: Required value: name or generateName is required"]),
    "no namespace": ({"name": "a"}, ["metadata.namespace: Required value"]),
    "an owner without a name": (
        {"name": "a", "namespace": "n", "ownerReferences": [{**OWNER, "name": ""}]},
        ["metadata.ownerReferences[0].name: Required value: must not be empty"],
    ),
    "two controllers": (
        {
            "name": "a",
            "namespace": "n",
            "ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "name": "b", "controller": True}],
        },
        [
            'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"A","name":"a","uid":"1",'
            '"controller":true},{"apiVersion":"v1","kind":"A","name":"b","uid":"1","controller":true}]: Only one '
            'reference can have Controller set to true. Found "true" in references for A/a and A/b',
        ],
    ),
    "an event owns nothing": (
        {"name": "a", "namespace": "n", "ownerReferences": [{**OWNER, "kind": "Event"}]},
        [
            'metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"a","uid":"1"}: '
            "/v1, Kind=Event is disallowed from being an owner",
        ],
    ),
    "both ways of going": (
        {"name": "a", "namespace": "n", "finalizers": ["orphan", "foregroundDeletion"]},
        [
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
            "foregroundDeletion cannot be both set",
        ],
    ),
    "too many annotations": (
        {"name": "a", "namespace": "n", "annotations": {"a": "x" * 262144}},
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
}


@pytest.mark.parametrize(("given", "want"), REFUSED.values(), ids=REFUSED)
def test_metadata_is_refused(given, want):
    found = metadata.on_create({"metadata": given}, names.dns_subdomain, namespaced=True)
    assert [f"{cause.field}: {cause.message}" for cause in found] == want


def test_a_prefix_may_end_in_a_dash():
    given = {"metadata": {"generateName": "web-", "name": "web-x", "namespace": "n"}}
    assert metadata.on_create(given, names.dns_subdomain, namespaced=True) == []


def test_nobody_may_hold_on_to_what_is_leaving():
    old = {"metadata": {"name": "a", "deletionTimestamp": "2024-01-01T00:00:00Z"}}
    new = {"metadata": {**old["metadata"], "finalizers": ["a.example/b"]}}
    found = metadata.on_update(new, old)
    assert found[0].message.endswith('found new finalizers []string{"a.example/b"}')


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "creationTimestamp"])
def test_an_identity_is_for_life(field):
    old = {"metadata": {"name": "a", "namespace": "n", "uid": "1", "creationTimestamp": "2024-01-01T00:00:00Z"}}
    found = metadata.on_update({"metadata": {**old["metadata"], field: "other"}}, old)
    assert [cause.message for cause in found] == ['Invalid value: "other": field is immutable']


MAPS, ROLES = "/api/v1/namespaces/default/configmaps", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
ROLE = plain("rbac.authorization.k8s.io/v1", "ClusterRole", "a", rules=[])


def stating(document, **said):
    return {**document, "metadata": {**document["metadata"], **said}}


OWNED = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
SENT = {
    "what lies in no namespace may name one": ("POST", ROLES, stating(ROLE, name="b", namespace="x"), "", 201),
    "and keeps none": ("PATCH", f"{ROLES}/a", {"metadata": {"namespace": "x"}}, MERGE, 200),
    "an empty namespace is the request's": ("PATCH", f"{MAPS}/a", {"metadata": {"namespace": ""}}, MERGE, 200),
    "a prefix is judged when it changes": ("PATCH", f"{MAPS}/a", {"metadata": {"generateName": "A_"}}, MERGE, 422),
    "a revision that is none is overlooked": ("POST", MAPS, stating(config_map("b"), resourceVersion="x"), "", 201),
    "one that is some is not": ("POST", MAPS, stating(config_map("b"), resourceVersion="7"), "", 500),
    "a revision beyond all": ("PATCH", f"{MAPS}/a", {"metadata": {"resourceVersion": "9" * 20}}, MERGE, 500),
    "an apply that makes something knows no uid": (
        "PATCH", f"{MAPS}/b?fieldManager=m", stating(config_map("b"), uid="u"), APPLY, 409,
    ),
    "an apply without a name": ("PATCH", f"{MAPS}/a?fieldManager=m", stating(config_map("a"), name=""), APPLY, 400),
    "an apply that says something unreadable": (
        "PATCH", f"{MAPS}/a?fieldManager=m", stating(config_map("a"), creationTimestamp="soon"), APPLY, 500,
    ),
    "an owner of no version": (
        "PATCH", f"{MAPS}/a", {"metadata": {"ownerReferences": [{**OWNED, "apiVersion": "apps/"}]}}, MERGE, 422,
    ),
    "a grace that is none": ("PATCH", f"{MAPS}/a", {"metadata": {"deletionGracePeriodSeconds": 0}}, MERGE, 422),
}  # fmt: skip


async def sent(method, path, body, media):
    plane = await Plane().furnish()
    await plane.ask("POST", MAPS, config_map("a", k="v"))
    await plane.ask("POST", ROLES, ROLE)
    return await plane.ask(method, path, body, **({"content_type": media} if media else {}))


@pytest.mark.parametrize(("method", "path", "body", "media", "code"), SENT.values(), ids=SENT)
def test_odd_metadata_is_judged_as_upstream_judges_it(method, path, body, media, code):
    answer = asyncio.run(sent(method, path, body, media))
    assert answer.code == code, answer.body
    assert "namespace" not in answer.body["metadata"] or answer.body["metadata"]["namespace"] == "default"


def test_an_owner_is_named_once_by_whatever_verb():
    body = stating(config_map("a"), ownerReferences=[OWNED, OWNED])
    for method, media in (("PUT", ""), ("PATCH", MERGE)):
        answer = asyncio.run(sent(method, f"{MAPS}/a", body, media))
        assert answer.body["metadata"]["ownerReferences"] == [OWNED]
        assert "duplicate UID(s) observed: u" in answer.warnings[0]


ENTRY = {
    "manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2020-01-01T00:00:00Z",
    "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}},
}  # fmt: skip
ENTRIES = {
    "one that can be read is believed": (ENTRY, ["m"]),
    "one of a version nobody serves is forgotten": ({**ENTRY, "apiVersion": "v9"}, []),
    "a set that is none is not believed": ({**ENTRY, "fieldsV1": {"k:{": {}}}, ["test"]),
    "nor is text": ({**ENTRY, "fieldsV1": "x"}, ["test"]),
    "a manager without a name has none": ({**ENTRY, "manager": ""}, [None]),
}


@pytest.mark.parametrize(("entry", "want"), ENTRIES.values(), ids=ENTRIES)
def test_owners_that_a_client_sends(entry, want):
    body = {"metadata": {"managedFields": [entry]}}
    answer = asyncio.run(sent("PATCH", f"{MAPS}/a", body, MERGE))
    assert [found.get("manager") for found in answer.body["metadata"].get("managedFields", ())] == want


def test_a_manager_can_be_printed():
    body = {"metadata": {"managedFields": [{**ENTRY, "manager": "m\n"}]}}
    answer = asyncio.run(sent("PATCH", f"{MAPS}/a", body, MERGE))
    assert "invalid character U+000A (at position 1)" in answer.message
