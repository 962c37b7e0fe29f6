"""Metadata: the rules that every kind shares, in the server's words."""

import pytest

from allaboard.api import names
from allaboard.cluster import metadata

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
