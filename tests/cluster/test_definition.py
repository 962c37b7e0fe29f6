"""CustomResourceDefinitions: which are refused, and what those that are not become."""

import pytest

from allaboard.api.kinds import CRD
from tests.cluster.judging import complaints, document, objections, stored

OBJECT = {"type": "object"}


def a_definition(schema=OBJECT, version=None, **spec):
    served = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}} | (version or {})
    names = {"plural": "widgets", "kind": "Widget"}
    plain = {"group": "a.example", "scope": "Namespaced", "names": names, "versions": [served]}
    return document(CRD, "widgets.a.example", spec={**plain, **spec})


def props(**properties):
    return {"type": "object", "properties": properties}


ROOT = "spec.validation.openAPIV3Schema"
REFUSED = {
    "no type": (a_definition({}), [f"{ROOT}.type: Required value: must not be empty at the root"]),
    "a field without a type": (
        a_definition(props(spec={"properties": {}})),
        [f"{ROOT}.properties[spec].type: Required value: must not be empty for specified object fields"],
    ),
    "a default of another type": (
        a_definition(props(a={"type": "integer", "default": "x"})),
        [f'{ROOT}.properties[a].default: Invalid value: "string":  in body must be of type integer: "string"'],
    ),
    "a default that is no choice": (
        a_definition(props(a={"type": "string", "enum": ["x"], "default": "y"})),
        [f'{ROOT}.properties[a].default: Unsupported value: "y": supported values: "x"'],
    ),
    "a keyed list without keys": (
        a_definition(props(a={"type": "array", "x-kubernetes-list-type": "map", "items": OBJECT})),
        [
            f"{ROOT}.properties[a].x-kubernetes-list-map-keys: Required value: "
            "must not be empty if x-kubernetes-list-type is map",
        ],
    ),
    "another name": (
        a_definition(names={"plural": "other", "kind": "Widget"}),
        [
            'metadata.name: Invalid value: "widgets.a.example": must be spec.names.plural+"."+spec.group',
        ],
    ),
    "another scope": (
        a_definition(scope="Galaxy"),
        ['spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'],
    ),
    "a column of no type": (
        a_definition(version={"additionalPrinterColumns": [{"name": "X", "type": "text", "jsonPath": "spec.x"}]}),
        [
            'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of '
            "boolean,date,integer,number,string",
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.x": must be a simple json path starting '
            "with .",
        ],
    ),
    "replicas among the metadata": (
        a_definition(
            version={"subresources": {"scale": {"specReplicasPath": ".metadata.x", "statusReplicasPath": ".status.x"}}}
        ),
        [
            'spec.subresources.scale.specReplicasPath: Invalid value: ".metadata.x": should be a json path under .spec',
        ],
    ),
}


@pytest.mark.parametrize(("sent", "want"), REFUSED.values(), ids=REFUSED)
def test_a_definition_is_refused(sent, want):
    assert complaints(CRD, sent) == want


def test_a_group_of_the_project_needs_its_approval():
    sent = a_definition(group="x.k8s.io")
    sent["metadata"]["name"] = "widgets.x.k8s.io"
    assert complaints(CRD, sent)[0].startswith("metadata.annotations[api-approved.kubernetes.io]: Required value")


def test_names_are_completed():
    made = stored(CRD, a_definition())
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    ("part", "field"), [({"scope": "Cluster"}, "spec.scope"), ({"group": "b.example"}, "spec.group")]
)
def test_what_a_kind_is_stays(part, field):
    old = stored(CRD, a_definition())
    old = {**old, "status": {**old["status"], "conditions": [{"type": "Established", "status": "True"}]}}
    found = objections(CRD, old, {**old, "spec": {**old["spec"], **part}})
    assert any(sentence.startswith(field) and sentence.endswith("field is immutable") for sentence in found)
