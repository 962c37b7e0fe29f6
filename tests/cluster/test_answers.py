"""Requests and what a real API server answers to them: pages, lists, watches, deletion, subresources."""

import asyncio
import base64
import json

import pytest

from allaboard.api import crds
from tests.cluster.plane import Plane, config_map, plain, pod

CMS = "/api/v1/namespaces/default/configmaps"
REVIEWS, ROLES = "/apis/authorization.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
APPLY, MERGE = {"content_type": "application/apply-patch+yaml"}, {"content_type": "application/merge-patch+json"}

HEALTH = {
    #                            path                                    code  said
    "the whole": ("/readyz", 200, "ok"),
    "check by check": ("/readyz?verbose", 200, "[+]ping ok\nreadyz check passed\n"),
    "one check": ("/livez/ping", 200, "ok"),
    "a check left out": ("/healthz?verbose&exclude=ping", 200, "[+]ping excluded: ok\nhealthz check passed\n"),
    "a check nobody has": ("/livez/etcd", 404, "404 page not found\n"),
    "a check nobody has, left out": (
        "/livez?verbose&exclude=etcd", 200,
        '[+]ping ok\nwarn: some health checks cannot be excluded: no matches for "etcd"\nlivez check passed\n',
    ),
    "a page that only begins so": ("/healthzz", 404, "404 page not found\n"),
}  # fmt: skip


def ask(*requests):
    """The answers to some requests, in turn; the last part of one may be its headers."""

    async def story():
        plane = await Plane().furnish()
        return [await _one(plane, *request) for request in requests]

    return asyncio.run(story())


async def _one(plane, method, path, body=None, headers=None):
    return await plane.ask(method, path, body, **(headers or {}))


@pytest.mark.parametrize(("path", "code", "said"), HEALTH.values(), ids=HEALTH)
def test_health_is_told_as_a_whole_or_check_by_check(path, code, said):
    (answer,) = ask(("GET", path))
    assert (answer.code, answer.data.decode()) == (code, said)


def token(**parts):
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


INVALID = "invalid continue token: continue key is not valid: "
LISTS = {
    #                                         query                                code  said
    "a limit without a number": ("limit=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
    "a token of another version": (
        f"continue={token(v='v9', rv=1, start='a')}", 400,
        f"{INVALID}server does not recognize this encoded version v9",
    ),
    "a token without a revision": (
        f"continue={token(v='meta.k8s.io/v1', rv=0, start='a')}", 400,
        f"{INVALID}incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
    ),
    "a token without a start": (
        f"continue={token(v='meta.k8s.io/v1', rv=1, start='')}", 400,
        f"{INVALID}encoded start key empty (version meta.k8s.io/v1)",
    ),
    "a token that climbs": (f"continue={token(v='meta.k8s.io/v1', rv=1, start='../a')}", 400, f"{INVALID}../a"),
    "a revision beyond all numbers": (
        "resourceVersion=99999999999999999999", 400,
        'invalid resource version: resourceVersion: Invalid value: "99999999999999999999": '
        'strconv.ParseUint: parsing "99999999999999999999": value out of range',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("query", "code", "said"), LISTS.values(), ids=LISTS)
def test_a_list_that_cannot_be_read_is_refused(query, code, said):
    (answer,) = ask(("GET", f"{CMS}?{query}"))
    assert (answer.code, answer.message) == (code, said)


def test_a_kind_of_the_whole_cluster_is_not_asked_for_its_namespace():
    (answer,) = ask(("GET", "/api/v1/nodes?fieldSelector=metadata.namespace%3Dx"))
    assert (answer.code, answer.message) == (400, "field label not supported: metadata.namespace")


META = "application/json;v=v1;g=meta.k8s.io;as="
FORMS = {
    "metadata of a list": (CMS, "PartialObjectMetadata", "a list (*core.ConfigMapList)"),
    "a list of one object": (f"{CMS}/a", "PartialObjectMetadataList", "not a list (*core.ConfigMap)"),
    "metadata of a list of jobs": (
        "/apis/batch/v1/namespaces/default/jobs", "PartialObjectMetadata", "a list (*batch.JobList)"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "form", "what"), FORMS.values(), ids=FORMS)
def test_one_is_no_list_and_a_list_is_not_one(path, form, what):
    _, answer = ask(("POST", CMS, config_map("a")), ("GET", path, None, {"accept": f"{META}{form}"}))
    assert (answer.code, answer.message) == (406, f"you requested {form}, but the requested object is {what}")


def test_a_watch_has_no_yaml():
    (answer,) = ask(("GET", f"{CMS}?watch=1", None, {"accept": "application/yaml"}))
    assert (answer.code, "application/json;stream=watch" in answer.message) == (406, True)


def test_a_watch_list_from_the_future_says_so():
    (answer,) = ask(
        ("GET", f"{CMS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999999")
    )
    event = answer.body
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 504, "Timeout")


def test_rows_of_an_old_table_hold_old_metadata():
    form = {"accept": "application/json;as=Table;v=v1beta1;g=meta.k8s.io"}
    _, answer = ask(("POST", CMS, config_map("a")), ("GET", f"{CMS}/a", None, form))
    assert answer.body["rows"][0]["object"]["apiVersion"] == answer.body["apiVersion"] == "meta.k8s.io/v1beta1"


def test_discovery_is_sent_once():
    both = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    (first,) = ask(("GET", "/apis", None, both))
    tag = dict(first.headers)["etag"]
    (again,) = ask(("GET", "/apis", None, {**both, "if_none_match": tag}))
    assert (again.code, again.data) == (304, b"")


def test_an_openapi_document_may_be_kept_under_its_hash_and_has_moved_under_another():
    (index,) = ask(("GET", "/openapi/v3"))
    address = index.body["paths"]["apis/batch/v1"]["serverRelativeURL"]
    kept, moved = ask(("GET", address), ("GET", "/openapi/v3/apis/batch/v1?hash=0"))
    assert dict(kept.headers)["cache-control"] == "public, immutable" and "2027" in dict(kept.headers)["expires"]
    assert (moved.code, dict(moved.headers)["location"]) == (301, address)


def test_groups_come_in_the_order_in_which_clients_prefer_them():
    (answer,) = ask(("GET", "/apis"))
    names = [group["name"] for group in answer.body["groups"]]
    assert names[:3] == ["apps", "events.k8s.io", "authentication.k8s.io"] and names.index("batch") < 10


TYPED = "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata: expected map, got "
NAME = "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata.name: "
OWNERS = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .metadata.managedFields: "
NAMELESS = "the name of the object (a based on URL) was undeterminable: name must be provided"
APPLIES = {
    #                               name   metadata             code  said
    "metadata that is text": ("a", "foo", 500, f"{TYPED}&{{foo}}"),
    "metadata that is a list": ("a", [1], 500, f"{TYPED}&{{[1]}}"),
    "a name that is a number": (
        "a",
        {"name": 5},
        500,
        f"{NAME}expected string, got &value.valueUnstructured{{Value:5}}",
    ),
    "owners that are text": ("a", {"name": "a", "managedFields": "x"}, 500, f"{OWNERS}expected list, got &{{x}}"),
    "owners that are owners": ("a", {"name": "a", "managedFields": [{}]}, 400, "metadata.managedFields must be nil"),
    "a name that is null": ("a", {"name": None}, 400, NAMELESS),
    "no metadata, of what is there": ("a", None, 200, None),
    "no name, of what is there": ("a", {}, 200, None),
    "a namespace that is null": ("a", {"name": "a", "namespace": None}, 200, None),
    "no name, of what is new": ("new", {}, 400, NAMELESS.replace("(a ", "(new ")),
}


@pytest.mark.parametrize(("name", "metadata", "code", "said"), APPLIES.values(), ids=APPLIES)
def test_an_apply_names_what_it_states(name, metadata, code, said):
    stated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    _, answer = ask(("POST", CMS, config_map("a")), ("PATCH", f"{CMS}/{name}?fieldManager=m&force=true", stated, APPLY))
    assert (answer.code, answer.body.get("message")) == (code, said)


def test_a_patch_that_takes_the_namespace_away_leaves_it():
    _, answer = ask(("POST", CMS, config_map("a")), ("PATCH", f"{CMS}/a", {"metadata": {"namespace": None}}, MERGE))
    assert (answer.code, answer.body["metadata"]["namespace"]) == (200, "default")


UNFIT = {
    #                     media       metadata  why
    "a merge": ("merge", "foo", "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type "),
    "a list": ("merge", [1], "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type "),
    "a strategic merge": ("strategic-merge", 5, "cannot restore struct from: int64"),
}


@pytest.mark.parametrize(("media", "metadata", "why"), UNFIT.values(), ids=UNFIT)
def test_a_patch_that_leaves_no_metadata_is_refused(media, metadata, why):
    form = {"content_type": f"application/{media}-patch+json"}
    _, answer = ask(("POST", CMS, config_map("a")), ("PATCH", f"{CMS}/a", {"metadata": metadata}, form))
    assert (answer.code, why in answer.message) == (422, True)


@pytest.mark.parametrize("namespace", [[], {}, 5], ids=str)
def test_a_namespace_is_text(namespace):
    (answer,) = ask(("POST", CMS, {"metadata": {"name": "a", "namespace": namespace}}))
    assert (answer.code, "ObjectMeta.metadata.namespace of type string" in answer.message) == (400, True)


READ = "couldn't get version/kind; json parse error: json: cannot unmarshal"
BODIES = {
    "a kind that is a number": (b'{"kind":5}', f"{READ} number into Go struct field .kind of type string"),
    "a version that is a list": (b'{"apiVersion":[]}', f"{READ} array into Go struct field .apiVersion of type string"),
    "a version of three parts": (b'{"apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
}


@pytest.mark.parametrize(("body", "why"), BODIES.values(), ids=BODIES)
def test_a_body_whose_kind_cannot_be_read_is_refused(body, why):
    (answer,) = ask(("POST", CMS, body))
    shown = f"the object provided is unrecognized (must be of type ConfigMap): {why} ({body.decode()})"
    assert (answer.code, answer.message) == (400, shown)


MISSING = {
    "as it was sent": (b' {"a" : 1}', "application/json", ' {"a" : 1}\' (207b226122203a20317d)'),
    "YAML as JSON": (b"b: 1\na: x", "application/yaml", '{"a":"x","b":1}\' (623a20310a613a2078)'),
}


@pytest.mark.parametrize(("body", "media", "shown"), MISSING.values(), ids=MISSING)
def test_a_custom_body_without_a_kind_is_quoted(body, media, shown):
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"

    async def story():
        plane = await Plane().furnish()
        for definition in crds.documents():
            await plane.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        return await plane.ask("POST", path, body, content_type=media)

    answer = asyncio.run(story())
    what = "the object provided is unrecognized (must be of type JobSet): Object 'Kind' is missing in '"
    assert (answer.code, answer.message) == (400, what + shown)


def _role(verbs, resources, name="r"):
    rules = [{"apiGroups": [""], "resources": resources, "verbs": verbs}]
    return plain("rbac.authorization.k8s.io/v1", "Role", name, "default", rules=rules)


def _binding(name="r"):
    subjects = [{"kind": "User", "name": "alice"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    document = plain("rbac.authorization.k8s.io/v1", "RoleBinding", "b", "default", subjects=subjects)
    return {**document, "roleRef": reference}


GIVEN = (
    ("POST", f"{ROLES}/namespaces/default/roles", _role(["get"], ["namespaces", "pods"])),
    ("POST", f"{ROLES}/namespaces/default/rolebindings", _binding()),
)


def test_a_role_inside_of_a_namespace_may_speak_of_it():
    *_, inside, other, listed = ask(
        *GIVEN,
        ("GET", "/api/v1/namespaces/default", None, {"token": "alice"}),
        ("GET", "/api/v1/namespaces/kube-system", None, {"token": "alice"}),
        ("GET", "/api/v1/namespaces", None, {"token": "alice"}),
    )
    assert (inside.code, other.code, listed.code) == (200, 403, 403)
    assert other.message.endswith('in API group "" in the namespace "kube-system"')
    assert listed.message.endswith("at the cluster scope")


def test_a_path_is_asked_for_by_its_method():
    (answer,) = ask(("POST", "/xyz", {}, {"token": "alice"}))
    assert answer.message == 'forbidden: User "alice" cannot post path "/xyz"'


PODS_IN = {"verb": "get", "resource": "pods", "namespace": "default"}
ASKED = {
    #                              kind                         spec                                    code  said
    "who may, and by what": (
        "subjectaccessreviews", {"user": "alice", "resourceAttributes": PODS_IN}, 201,
        'RBAC: allowed by RoleBinding "b/default" of Role "r" to User "alice"',
    ),
    "somebody who may not": ("subjectaccessreviews", {"user": "bob", "resourceAttributes": PODS_IN}, 201, None),
    "nobody at all": (
        "subjectaccessreviews", {"resourceAttributes": PODS_IN}, 422,
        'spec.user: Invalid value: "": at least one of user or group must be specified',
    ),
    "nothing": (
        "subjectaccessreviews", {"user": "bob"}, 422,
        "spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
    ),
    "two things": (
        "selfsubjectaccessreviews", {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/"}}, 422,
        "spec: Invalid value: {}: exactly one of nonResourceAttributes or resourceAttributes must be specified",
    ),
    "a selector said twice": (
        "selfsubjectaccessreviews",
        {"resourceAttributes": {"labelSelector": {"rawSelector": "a", "requirements": [{"key": "a"}]}}}, 422,
        'spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as '
        "requirements",
    ),
    "another namespace": (
        "namespaces/default/localsubjectaccessreviews",
        {"user": "alice", "resourceAttributes": {**PODS_IN, "namespace": "x"}}, 422,
        'spec.resourceAttributes.namespace: Invalid value: "x": must match metadata.namespace',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "code", "said"), ASKED.values(), ids=ASKED)
def test_who_may_do_what_can_be_asked(kind, spec, code, said):
    *_, answer = ask(*GIVEN, ("POST", f"{REVIEWS}/{kind}", {"spec": spec}))
    told = answer.body["status"].get("reason") if code == 201 else answer.message.partition("is invalid: ")[2]
    assert (answer.code, told) == (code, said)


AUDIENCES = {
    "ours by default": ([], True),
    "ours by name": (["https://kubernetes.default.svc", "x"], True),
    "somebody else's": (["x"], False),
}


@pytest.mark.parametrize(("audiences", "good"), AUDIENCES.values(), ids=AUDIENCES)
def test_a_token_is_good_for_its_audiences(audiences, good):
    spec = {"token": "alice", "audiences": audiences}
    (answer,) = ask(("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": spec}))
    assert answer.body["status"].get("authenticated", False) is good


ENDS = {
    "Succeeded": [("Completed", "Succeeded", "The pod has completed successfully.")],
    "Failed": [("Completed", "Failed", "The pod failed.")],
    "Running": [],
}


@pytest.mark.parametrize(("phase", "want"), ENDS.items(), ids=ENDS)
def test_the_row_of_a_pod_says_that_it_ended(phase, want):
    pods = "/api/v1/namespaces/default/pods"
    form = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    *_, answer = ask(
        ("POST", pods, pod("p")),
        ("PATCH", f"{pods}/p/status", {"status": {"phase": phase}}, MERGE),
        ("GET", f"{pods}/p", None, form),
    )
    said = answer.body["rows"][0].get("conditions", ())
    assert [(each["type"], each["reason"], each["message"]) for each in said] == want


def test_what_is_never_stored_cannot_be_named():
    (answer,) = ask(("GET", f"{REVIEWS}/selfsubjectaccessreviews/x"))
    assert (answer.code, answer.message) == (404, "the server could not find the requested resource")
