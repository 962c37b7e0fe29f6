"""Requests with odd metadata: every field with values of every type and with values that nearly are right."""

from dataclasses import dataclass

NAMESPACE = "odd"
EVERY = (None, True, 0, -1, 1.5, "", "text", [], ["a"], [1], [None], [{}], {}, {"a": "b"}, {"a": 1}, {"a": None})
MOMENTS = (
    "2020-01-01T00:00:00Z", "2020-01-01T00:00:00+02:00", "2020-01-01T00:00:00.5Z", "2020-01-01", "soon",
    "0001-01-01T00:00:00Z", "2020-13-01T00:00:00Z", "2020-01-01T00:00:00", "2020-01-01t00:00:00z",
)  # fmt: skip
KEYS = (
    "A b", "", "a/b/c", "/a", "a/", "UPPER.example/x", "example.com/UPPER", "a" * 64, "a." * 126 + "a/x",
    "a." * 127 + "a/x", "é", "-a", "a-", "a..b/x", "kubernetes.io/arch", "a\nb",
)  # fmt: skip
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
MANAGER = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2020-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:k": {}}},
}
OWNERS = (
    OWNER, *({**OWNER, key: ""} for key in OWNER), *({k: v for k, v in OWNER.items() if k != key} for key in OWNER),
    {**OWNER, "apiVersion": "a/b/c"}, {**OWNER, "apiVersion": "/v1"}, {**OWNER, "apiVersion": "apps/"},
    {**OWNER, "kind": "Event"}, {**OWNER, "apiVersion": "events.k8s.io/v1", "kind": "Event"},
    {**OWNER, "controller": True}, {**OWNER, "controller": "yes"}, {**OWNER, "blockOwnerDeletion": True},
    {**OWNER, "controller": None}, {**OWNER, "uid": 1}, {**OWNER, "unknown": 1}, {**OWNER, "name": "A B"},
)  # fmt: skip
MANAGERS = (
    MANAGER, *({**MANAGER, key: ""} for key in MANAGER), *({**MANAGER, key: None} for key in MANAGER),
    *({k: v for k, v in MANAGER.items() if k != key} for key in MANAGER),
    {**MANAGER, "operation": "Delete"}, {**MANAGER, "fieldsType": "FieldsV2"}, {**MANAGER, "manager": "m" * 129},
    {**MANAGER, "manager": "m\n"}, {**MANAGER, "subresource": "status"}, {**MANAGER, "subresource": "x" * 300},
    {**MANAGER, "fieldsV1": {"bad": {}}}, {**MANAGER, "fieldsV1": {"f:data": 1}}, {**MANAGER, "fieldsV1": {"f:x": {}}},
    {**MANAGER, "fieldsV1": {"k:{": {}}}, {**MANAGER, "fieldsV1": {"f:data": {"i:x": {}}}}, {**MANAGER, "fieldsV1": {}},
    {**MANAGER, "apiVersion": "v9"}, {**MANAGER, "apiVersion": "a/b/c"}, {**MANAGER, "operation": "Apply"},
    {**MANAGER, "time": "soon"}, {**MANAGER, "unknown": 1},
)  # fmt: skip
NAMES = ("UPPER", "a_b", "a/b", "a%b", ".", "..", "-a", "a-", "a.", "a" * 64, "a" * 253, "a" * 254, "é", "a b", "a\n")
PARTICULAR = {
    "name": NAMES,
    "generateName": (*NAMES, "a--", "-", "--", "a" * 250, "a" * 57 + "-", "A-"),
    "namespace": ("default", "nowhere", "UPPER", NAMESPACE, "a b"),
    "uid": ("5", "00000000-0000-0000-0000-000000000000"),
    "resourceVersion": ("0", "1", "999999999", "-1", "1.5", "01", "99999999999999999999"),
    "generation": (1, 5, -5, 2**63 - 1, 2**63, 10**30, "1"),
    "creationTimestamp": MOMENTS,
    "deletionTimestamp": MOMENTS,
    "deletionGracePeriodSeconds": (5, -5, 2**63, "5"),
    "selfLink": ("/x", "/api/v1"),
    "labels": (*({key: "x"} for key in KEYS), *({"a": key} for key in KEYS), {"a": ["b"]}, {"a": {}}, {"a": True}),
    "annotations": (
        *({key: "x"} for key in KEYS),
        {"a": "x" * 262143},
        {"a": "x" * 262144},
        {"a": "é" * 131072},
        {"a": "x" * 131072, "b": "x" * 131072},
        {"a": ["b"]},
        {"a": {}},
        {"a": True},
    ),
    "ownerReferences": (
        *([owner] for owner in OWNERS),
        [OWNER, OWNER],
        [OWNER, {**OWNER, "uid": "v"}],
        [OWNER, {**OWNER, "name": "p"}],
        [{**OWNER, "controller": True}, {**OWNER, "controller": True, "uid": "v"}],
        [OWNER, 1],
        [OWNER, None],
    ),
    "finalizers": (
        *([key] for key in KEYS),
        ["x"],
        ["example.com/x"],
        ["example.com/x", "example.com/x"],
        ["kubernetes"],
        ["orphan"],
        ["foregroundDeletion"],
        ["orphan", "foregroundDeletion"],
        ["example.com/x", 1],
        ["x" * 70],
    ),
    "managedFields": (*([entry] for entry in MANAGERS), [MANAGER, MANAGER], [MANAGER, {}]),
    "clusterName": (),
    "Labels": (),
}


@dataclass(frozen=True)
class Thing:
    """A kind to try things on: where it lives, and the least there is of it."""

    path: str
    body: dict[str, object]
    strategic: bool = True
    namespaced: bool = True


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
                    }
                },
            }
        ],
    },
}
HERE = f"namespaces/{NAMESPACE}"
THINGS = {
    "configmap": Thing(f"/api/v1/{HERE}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}),
    "widget": Thing(
        f"/apis/example.com/v1/{HERE}/widgets",
        {"apiVersion": "example.com/v1", "kind": "Widget", "data": {"k": "v"}},
        strategic=False,
    ),
    "clusterrole": Thing(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []},
        namespaced=False,
    ),
}
FIELDS = tuple(PARTICULAR)
CHANGING = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
VERBS = ("create", "make", "update", *CHANGING)


def values(field):
    return (*EVERY, *PARTICULAR[field])


def prepare(side):
    """What the requests need to be there: the namespace and the custom kind."""
    side.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    side.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)


def is_served(side):
    return side.ask("GET", THINGS["widget"].path).code == 200


def ask(side, verb, thing, name, field, value):
    """One odd request; what changes an object has one of its own, plain until then."""
    odd = {"name": name, field: value}
    if verb == "create":
        return side.ask("POST", thing.path, {**thing.body, "metadata": odd})
    where = f"{thing.path}/{name}"
    if verb == "make":
        return side.ask("PATCH", f"{where}?fieldManager=m", {**thing.body, "metadata": odd}, CHANGING["apply"])
    made = side.ask("POST", thing.path, {**thing.body, "metadata": {"name": name}})
    if verb == "update":
        version = made.body["metadata"]["resourceVersion"]
        return side.ask("PUT", where, {**thing.body, "metadata": {"resourceVersion": version, **odd}})
    body = {**thing.body, "metadata": odd} if verb == "apply" else {"metadata": {field: value}}
    if verb == "json":
        body = [{"op": "add", "path": f"/metadata/{field}", "value": value}]
    return side.ask("PATCH", f"{where}?fieldManager=m", body, CHANGING[verb])


def questions(field, prefix=""):
    """Every request about one field, as (name of the case, verb, thing, name of the object, value)."""
    for kind, thing in THINGS.items():
        for verb in VERBS:
            if verb == "strategic" and not thing.strategic:
                continue
            for index, value in enumerate(values(field)):
                yield f"{verb} {kind}", verb, thing, f"{prefix}{verb}-{FIELDS.index(field)}-{index}", value
