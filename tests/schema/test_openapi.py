"""OpenAPI documents: what kubectl looks for in them."""

import pytest

from allaboard.api import crds, kinds
from allaboard.schema import openapi
from allaboard.schema.openapi import Entry

VERBS = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})
POD = Entry(kinds.POD, {"$ref": "core.v1.Pod"}, frozenset({"status"}), VERBS)
JOB = Entry(kinds.JOB, {"$ref": "batch.v1.Job"}, frozenset({"status"}), VERBS)
REVIEW = {"$ref": "authentication.v1.TokenReview"}
JOB_SET_SCHEMA = crds.crd("jobsets.jobset.x-k8s.io")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
JOB_SET = Entry(kinds.JOB_SET, JOB_SET_SCHEMA, frozenset({"status"}), VERBS, custom=True)


def dangling(document):
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    return [reference for reference in references(document) if reference not in known]


def references(value):
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    if not isinstance(value, dict):
        return []
    here = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return here + [found for item in value.values() for found in references(item)]


@pytest.mark.parametrize("entry", [POD, JOB_SET], ids=["built in", "custom"])
def test_every_reference_leads_somewhere(entry):
    assert dangling(openapi.document(entry.kind.group, entry.kind.version, [entry])) == []


PATCHES = {"built in": (POD, True), "custom": (JOB_SET, False)}


@pytest.mark.parametrize(("entry", "strategic"), PATCHES.values(), ids=PATCHES)
def test_kubectl_learns_which_patches_a_kind_takes(entry, strategic):
    document = openapi.document(entry.kind.group, entry.kind.version, [entry])
    patch = document["paths"][entry.kind.path("{namespace}", "{name}")]["patch"]
    assert (openapi.STRATEGIC in patch["requestBody"]["content"]) is strategic
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == entry.kind.kind


def test_names_of_schemas_and_operations_are_upstreams():
    document = openapi.document("jobset.x-k8s.io", "v1alpha2", [JOB_SET])
    assert "io.x-k8s.jobset.v1alpha2.JobSetList" in document["components"]["schemas"]
    path = document["paths"]["/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"]
    assert path["delete"]["operationId"] == "deleteJobsetXK8sIoV1alpha2CollectionNamespacedJobSet"
    assert path["post"]["tags"] == ["jobsetXK8sIo_v1alpha2"]


def test_documents_tell_which_words_a_field_may_hold():
    schemas = openapi.document("", "v1", [POD])["components"]["schemas"]
    container = schemas["io.k8s.api.core.v1.Container"]["properties"]
    assert container["imagePullPolicy"]["enum"] == ["Always", "IfNotPresent", "Never"]
    claim = schemas["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"]
    assert "ReadWriteOnce" in claim["accessModes"]["items"]["enum"]
    assert schemas["io.k8s.api.core.v1.SeccompProfile"]["x-kubernetes-unions"][0]["discriminator"] == "type"


def test_a_document_does_not_change_what_it_is_made_from():
    first, second = (openapi.document("batch", "v1", [JOB]) for _ in range(2))
    assert first == second
    known = first["components"]["schemas"][f"{openapi.META}.DeleteOptions"]["x-kubernetes-group-version-kind"]
    assert [gvk["group"] for gvk in known] == ["", "batch"]


def test_no_two_operations_have_one_name():
    paths = openapi.document("", "v1", [POD])["paths"].values()
    names = [door["operationId"] for doors in paths for method, door in doors.items() if method != "parameters"]
    assert len(names) == len(set(names))
    assert "listCoreV1PodForAllNamespaces" in names


def test_kinds_that_are_only_created_know_nothing_of_patches_and_deletions():
    review = Entry(
        kinds.Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews"), REVIEW, verbs=VERBS & {"create"}
    )
    schemas = openapi.document("authentication.k8s.io", "v1", [review])["components"]["schemas"]
    assert not [name for name in schemas if name.endswith((".Patch", ".DeleteOptions", ".Status"))]


def test_the_index_changes_with_what_it_points_at():
    before = openapi.index([JOB_SET])["paths"]["apis/jobset.x-k8s.io/v1alpha2"]["serverRelativeURL"]
    other = Entry(kinds.JOB_SET, {"type": "object"}, frozenset(), VERBS, custom=True)
    assert openapi.index([other])["paths"]["apis/jobset.x-k8s.io/v1alpha2"]["serverRelativeURL"] != before


def test_what_only_we_know_does_not_leave_the_house():
    text = str(openapi.document("", "v1", [POD]))
    assert "x-omit-empty" not in text


def test_the_old_document_is_empty_but_for_its_title():
    assert openapi.version2() == b"\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.35.0"
