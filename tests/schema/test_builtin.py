"""The generated facts of built-in kinds: complete, consistent, and what Go would print."""

import pytest

from allaboard.schema import builtin


def every_type():
    folder = builtin._FOLDER
    names = [
        path.stem
        for path in folder.glob("*.json")
        if not path.stem.endswith(".wire") and path.stem not in ("resources", "shown", "structs")
    ]
    return [f"{package}.{name}" for package in sorted(names) for name in builtin._package(package)]


def references(schema):
    if isinstance(schema, list):
        return [name for item in schema for name in references(item)]
    if not isinstance(schema, dict):
        return []
    here = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return here + [name for value in schema.values() for name in references(value)]


def test_nothing_refers_to_a_type_that_is_not_there():
    known = set(every_type())
    assert {name for one in known for name in references(builtin.schema(one))} <= known


def test_no_fact_is_prose():
    assert not any("description" in builtin.schema(name) for name in every_type())


def test_documents_say_more_only_of_fields_there_are():
    for name, fields in builtin.shown().items():
        assert fields.keys() - {"x-kubernetes-unions"} <= builtin.schema(name)["properties"].keys()


def names_on_the_wire(name):
    found = set()
    for field, kind, mode in builtin.wire(name).values():
        found |= names_on_the_wire(kind) if mode == "inline" else {field}
    return found


@pytest.mark.parametrize(
    "name", ["core.v1.Pod", "core.v1.Volume", "core.v1.Probe", "batch.v1.JobSpec", "meta.v1.ObjectMeta"]
)
def test_json_and_the_wire_name_the_same_fields(name):
    known = set(builtin.schema(name)["properties"]) - {"apiVersion", "kind"}
    assert names_on_the_wire(name) == known


KINDS = {
    ("v1", "Pod"): "core.v1.Pod",
    ("batch/v1", "Job"): "batch.v1.Job",
    ("events.k8s.io/v1", "Event"): "events.v1.Event",
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): None,
}


@pytest.mark.parametrize(("kind", "want"), KINDS.items(), ids=[k[1] for k in KINDS])
def test_a_kind_leads_to_its_type(kind, want):
    assert builtin.type_of(*kind) == want


def test_what_go_prints_for_nothing():
    container = builtin.schema("core.v1.Container")["properties"]
    condition = builtin.schema("core.v1.PodCondition")["properties"]
    assert container["resources"]["default"] == {}
    assert container["image"]["x-omit-empty"]
    assert "x-omit-empty" not in builtin.schema("core.v1.PodSpec")["properties"]["enableServiceLinks"]
    assert condition["lastProbeTime"]["default"] is None


def test_the_long_names_of_openapi():
    assert builtin.long_name("core.v1.Pod") == "io.k8s.api.core.v1.Pod"
    assert builtin.long_name("meta.v1.Time") == "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
