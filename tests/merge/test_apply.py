"""Server-side apply: scripts of operations, the laws they keep, and what is refused."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.api.errors import BadRequest, Conflict
from allaboard.merge.apply import SPEC, STATUS, Actor, apply, ignoring_times, track
from allaboard.merge.refusals import Unmergeable
from allaboard.merge.trees import step_of
from allaboard.schema import structure
from tests.merge.things import PROPERTIES, THING, VERSION, actor, applied, born, owned, stated, updated

EVENT, POD = (structure.compile({"$ref": f"core.v1.{kind}"}) for kind in ("Event", "Pod"))
A, H = {"host": "a", "port": 80}, {"host": "h", "port": 80}

# what is applied by whom, one after the other; the spec and the owners that are left
SCRIPTS = {
    "fields unite": (
        [("a", {"n": 1}), ("b", {"on": True})],
        {"n": 1, "on": True},
        {"a": {"f:n": {}}, "b": {"f:on": {}}},
    ),
    "a field no longer stated goes": ([("a", {"n": 1, "on": True}), ("a", {"n": 1})], {"n": 1}, {"a": {"f:n": {}}}),
    "a shared field stays": ([("a", {"n": 1}), ("b", {"n": 1}), ("a", {})], {"n": 1}, {"a": {}, "b": {"f:n": {}}}),
    "the last owner takes it along": (
        [("a", {"n": 1}), ("b", {"n": 1}), ("a", {}), ("b", {})],
        {},
        {"a": {}, "b": {}},
    ),
    "members of a set": (
        [("a", {"tags": ["x", "y"]}), ("b", {"tags": ["y", "z"]}), ("a", {"tags": ["x"]})],
        {"tags": ["x", "y", "z"]},
        {"a": {"f:tags": {'v:"x"': {}}}, "b": {"f:tags": {'v:"y"': {}, 'v:"z"': {}}}},
    ),
    "items by their keys, one by default": (
        [("a", {"hosts": [{"host": "h", "note": "1"}]}), ("b", {"hosts": [{"host": "h", "port": 80}]})],
        {"hosts": [{"host": "h", "note": "1", "port": 80}]},
        {
            "a": {"f:hosts": {'k:{"host":"h","port":80}': {".": {}, "f:host": {}, "f:note": {}}}},
            "b": {"f:hosts": {'k:{"host":"h","port":80}': {".": {}, "f:host": {}, "f:port": {}}}},
        },
    ),
    "an item goes with its last owner": ([("a", {"hosts": [H, A]}), ("a", {"hosts": [A]})], {"hosts": [A]}, None),
    "the order of the configuration": (
        [("a", {"tags": ["x", "y", "z"]}), ("a", {"tags": ["z", "x", "y"]})],
        {"tags": ["z", "x", "y"]},
        None,
    ),
    "an open map": (
        [("a", {"open": {"d": {"l": [1]}}}), ("b", {"open": {"e": 1}})],
        {"open": {"d": {"l": [1]}, "e": 1}},
        {"a": {"f:open": {"f:d": {".": {}, "f:l": {}}}}, "b": {"f:open": {"f:e": {}}}},
    ),
    "an emptied struct goes": ([("a", {"struct": {"x": 1}, "n": 1}), ("a", {"n": 1})], {"n": 1}, {"a": {"f:n": {}}}),
    "a map that is a whole": (
        [("a", {"whole": {"a": "1"}}), ("a", {"whole": {"b": "2"}})],
        {"whole": {"b": "2"}},
        {"a": {"f:whole": {}}},
    ),
    "an empty map is owned itself": ([("a", {"free": {}})], {"free": {}}, {"a": {"f:free": {}}}),
    "an empty set is not": ([("a", {"tags": []})], {"tags": []}, {"a": None}),
    "null is owned": ([("a", {"n": None})], {"n": None}, {"a": {"f:n": {}}}),
}


@pytest.mark.parametrize(("script", "spec", "owners"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_of_applies(script, spec, owners):
    live = None
    for second, (manager, config) in enumerate(script):
        live = applied(live, manager, config, second=second)
    left = {
        name: part for name, part in (live.get("spec") or {}).items() if part is not None or spec.get(name, 0) is None
    }
    assert left == spec
    if owners is not None:
        found = {name.removesuffix("/Apply"): part for name, part in owned(live).items()}
        assert found == {name: part for name, part in owners.items() if part is not None}


def test_an_item_is_named_by_what_it_says_whatever_was_named_before():
    tags, owners = THING.root.fields["spec"].fields["tags"], POD.root.fields["metadata"].fields["ownerReferences"]
    assert [step_of(tags, item) for item in ({"a": 1}, {"a": 2}, "a")] == ['v:{"a":1}', 'v:{"a":2}', 'v:"a"']
    assert [step_of(owners, item) for item in ({"uid": "a"}, "a")] == ['k:{"uid":"a"}', 'k:{"uid":""}']


CONFLICTS = {
    "a scalar": ({"n": 1}, {"n": 2}, [".spec.n"]),
    "a whole list": ({"atomic": ["a"]}, {"atomic": ["b"]}, [".spec.atomic"]),
    "a whole map": ({"whole": {"a": "1"}}, {"whole": {"b": "1"}}, [".spec.whole"]),
    "a field of an item": (
        {"hosts": [{"host": "h", "note": "1"}]},
        {"hosts": [{"host": "h", "note": "2"}]},
        ['.spec.hosts[host="h",port=80].note'],
    ),
    "two of them": ({"n": 1, "free": {"k": "1"}}, {"n": 2, "free": {"k": "2"}}, [".spec.n", ".spec.free.k"]),
    "a key into an owned empty map": ({"free": {}}, {"free": {"k": "v"}}, []),
}


@pytest.mark.parametrize(("mine", "yours", "paths"), CONFLICTS.values(), ids=CONFLICTS)
def test_what_somebody_else_owns_is_a_conflict(mine, yours, paths):
    live = applied(None, "me", mine)
    if not paths:
        assert applied(live, "you", yours)
        return
    with pytest.raises(Conflict) as refusal:
        applied(live, "you", yours)
    assert [(c.reason, c.field, c.message) for c in refusal.value.causes] == [
        ("FieldManagerConflict", path, 'conflict with "me"') for path in paths
    ]
    assert refusal.value.message.startswith(f"Apply failed with {len(paths)} conflict")
    forced = applied(live, "you", yours, force=True)
    assert {**mine, **forced["spec"]} == forced["spec"] or forced["spec"] != mine


def test_the_words_of_conflicts_with_several_managers():
    live = applied(applied(None, "b", {"n": 1}), "a", {"on": True})
    live = updated(live, "c", {**live["spec"], "atomic": ["x"]})
    with pytest.raises(Conflict) as refusal:
        applied(live, "d", {"n": 2, "on": False, "atomic": []})
    assert refusal.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n- .spec.on\nconflicts with "b":\n- .spec.n\n'
        f'conflicts with "c" using {VERSION}:\n- .spec.atomic'
    )


def test_an_update_takes_what_it_changes_and_drops_what_it_removes():
    live = applied(None, "a", {"n": 1, "on": True, "free": {"k": "v"}})
    live = updated(live, "u", {"n": 2, "free": {"k": "v", "l": "w"}}, second=5)
    assert owned(live) == {"a/Apply": {"f:free": {"f:k": {}}}, "u/Update": {"f:n": {}, "f:free": {"f:l": {}}}}


def test_creating_owns_everything_that_was_sent():
    live = updated(None, "u", {"struct": {"x": 1}, "tags": ["a"]})
    assert owned(live) == {
        "u/Update": {".": {}, "f:struct": {".": {}, "f:x": {}}, "f:tags": {".": {}, 'v:"a"': {}}},
    }


SCALARS = st.sampled_from(["", "a", None, 0, 1, True])
FLAT = st.dictionaries(st.sampled_from(["name", "namespace", "kind", "component", "x"]), SCALARS, max_size=4)
PARTS = st.sampled_from(
    ["apiVersion", "kind", "involvedObject", "source", "reason", "eventTime", "count", "related", "series"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(FLAT, st.dictionaries(PARTS, SCALARS | FLAT, max_size=8)), min_size=1, max_size=4))
def test_documents_of_one_shape_are_owned_as_each_would_be_alone(documents):
    for metadata, parts in documents:
        document = {"metadata": metadata, **parts}
        remembered = track(None, document, EVENT, Actor("m", "v1", "t"))
        alone = structure.compile(EVENT.schema)
        assert remembered == track(None, document, alone, Actor("m", "v1", "t"))


def test_pods_of_one_template_share_their_sets_and_others_do_not():
    spec = {"containers": [{"name": "a", "image": "x"}], "hostname": "h-0"}
    pods = [{"spec": spec}, {"spec": {**spec, "hostname": "h-1"}}, {"spec": {"containers": [{"name": "b"}]}}]
    alike, too, other = (track(None, pod, POD, Actor("m", "v1", "t"))["metadata"]["managedFields"] for pod in pods)
    assert alike == too
    assert other[0]["fieldsV1"] == {"f:spec": {"f:containers": {'k:{"name":"b"}': {".": {}, "f:name": {}}}}}


def test_an_untracked_object_stays_so_until_somebody_applies():
    live = born(stated({"n": 1}))
    assert owned(updated(live, "u", {"n": 2})) == {}
    with pytest.raises(Conflict, match='conflict with "before-first-apply" using'):
        applied(live, "a", {"n": 2})
    assert owned(applied(live, "a", {"n": 2}, force=True)) == {
        "a/Apply": {"f:n": {}},
        "before-first-apply/Update": {},
    }


@pytest.mark.parametrize("sent", [[], [{}]])
def test_an_empty_list_of_entries_forgets_them(sent):
    live = applied(None, "a", {"n": 1})
    new = {**live, "metadata": {**live["metadata"], "managedFields": sent}}
    assert "managedFields" not in track(live, new, THING, actor("u"))["metadata"]


def test_entries_nobody_can_read_are_ignored():
    live = applied(None, "a", {"n": 1})
    for sent in (
        [{"manager": "x"}],
        "odd",
        [1],
        [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"q": 1}}],
    ):
        new = {**live, "metadata": {**live["metadata"], "managedFields": sent}}
        assert owned(track(live, new, THING, actor("u"))) == {"a/Apply": {"f:n": {}}}


def test_only_ten_updaters_are_kept_apart():
    live = None
    for number in range(14):
        live = updated(
            live,
            f"u{number:02d}",
            {
                **((live or {}).get("spec") or {}),
                "free": {**((live or {}).get("spec", {}).get("free") or {}), f"k{number}": "v"},
            },
            second=number,
        )
    entries = live["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes" and len(entries[0]["fieldsV1"]["f:spec"]["f:free"]) >= 5


def test_an_apply_of_the_same_changes_nothing_at_all():
    live = applied(None, "a", {"n": 1, "hosts": [H], "tags": ["x"]})
    assert apply(live, stated({"n": 1, "hosts": [H], "tags": ["x"]}), THING, actor("a", 30), force=False) is live


def test_sharing_a_field_leaves_no_time():
    live = applied(applied(None, "a", {"n": 1}), "b", {"n": 1}, second=9)
    assert [entry.get("time") for entry in live["metadata"]["managedFields"]] == [None, "2026-01-01T00:00:00Z"]


def test_a_door_owns_nothing_it_ignores():
    config = {**stated({"n": 1}), "status": {"n": 1}}
    main = apply(None, config, THING, Actor("a", VERSION, "t", "", STATUS), force=False)
    assert main["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:n": {}}}
    door = apply(born(main), config, THING, Actor("b", VERSION, "t", "status", SPEC), force=False)
    entry = next(entry for entry in door["metadata"]["managedFields"] if entry["manager"] == "b")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:n": {}}})


def test_a_write_that_only_moves_times_is_no_write():
    live = applied(None, "a", {"n": 1})
    later = copy.deepcopy(live)
    later["metadata"]["managedFields"][0]["time"] = "2027-01-01T00:00:00Z"
    assert ignoring_times(live, later) is live
    assert ignoring_times(live, {**later, "spec": {"n": 2}}) != live


REFUSED = {
    "an undeclared field": ({"zip": 1}, ".spec.zip: field not declared in schema"),
    "a wrong type": ({"n": "x"}, ".spec.n: expected numeric (int or float), got string"),
    "a number for a list": ({"tags": 5}, ".spec.tags: expected list, got &{5}"),
    "a text for a struct": ({"struct": "x"}, ".spec.struct: expected map, got &{x}"),
    "a text for yes or no": ({"on": "yes"}, ".spec.on: expected boolean, got &{yes}"),
    "twice in a set": ({"tags": ["x", "x"]}, '.spec.tags: duplicate entries for key [="x"]'),
    "twice by key": ({"hosts": [{"host": "h"}, H]}, '.spec.hosts: duplicate entries for key [host="h",port=80]'),
    "null as an item": (
        {"hosts": [None]},
        ".spec.hosts: element 0: associative list with keys may not have a null element",
    ),
    "a map in a set": (
        {"tags": [{}]},
        ".spec.tags: element 0: associative list without keys has an element that's a map type",
    ),
    "a map in a list of texts": (
        {"atomic": [{"a": 1}]},
        '.spec.atomic[0]: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":1}}',
    ),
    "a wrong type inside a whole map": (
        {"whole": {"a": 1}},
        ".spec.whole.a: expected string, got &value.valueUnstructured{Value:1}",
    ),
}


@pytest.mark.parametrize(("spec", "words"), REFUSED.values(), ids=REFUSED)
def test_a_configuration_that_does_not_fit_is_refused(spec, words):
    with pytest.raises(Unmergeable) as refusal:
        applied(None, "a", spec)
    where = "failed to create typed patch object (/t; example.com/v1, Kind=Thing): "
    assert (refusal.value.message, refusal.value.code, refusal.value.reason) == (where + words, 500, "")


def test_a_configuration_brings_no_entries_of_its_own():
    with pytest.raises(BadRequest, match=r"metadata\.managedFields must be nil"):
        apply(None, {**stated({}), "metadata": {"name": "t", "managedFields": []}}, THING, actor("a"), force=False)


def test_nesting_without_end_is_refused_by_a_sentence():
    deep: dict = {}
    for _ in range(100_000):
        deep = {"a": deep}
    for live in (None, applied(None, "b", {"n": 1})):
        with pytest.raises(BadRequest, match="nested too deeply"):
            applied(live, "a", {"open": deep})
    while deep:
        deep = deep.pop("a")


# --- kubectl moving from client-side apply ----------------------------------------------------------------------------

CONFIG = structure.compile({"$ref": "core.v1.ConfigMap"})
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def config(data, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}, "data": data}


def by_client(data):
    text = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"c"}}\n'
    document = config(data, annotations={LAST: text})
    return born(track(None, document, CONFIG, Actor("kubectl-client-side-apply", "v1", "t0")))


def test_kubectl_may_take_over_what_its_client_side_apply_wrote():
    live = by_client({"a": "1"})
    taken = apply(live, config({"a": "2"}), CONFIG, Actor("kubectl", "v1", "t1"), force=False)
    assert taken["data"] == {"a": "2"}
    assert '"a":"2"' in taken["metadata"]["annotations"][LAST]
    with pytest.raises(Conflict):
        apply(live, config({"a": "2"}), CONFIG, Actor("somebody", "v1", "t1"), force=False)


def test_kubectl_may_not_take_what_changed_since():
    live = by_client({"a": "changed"})
    with pytest.raises(Conflict):
        apply(live, config({"a": "2"}), CONFIG, Actor("kubectl", "v1", "t1"), force=False)


# --- laws -------------------------------------------------------------------------------------------------------------

words = st.sampled_from(["x", "y", "z"])
hosts = st.lists(
    st.fixed_dictionaries({"host": words}, optional={"port": st.sampled_from([80, 81]), "note": words}),
    max_size=3,
    unique_by=lambda item: (item["host"], item.get("port", 80)),
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(0, 3),
        "on": st.booleans(),
        "atomic": st.lists(words, max_size=3),
        "tags": st.lists(words, max_size=3, unique=True),
        "hosts": hosts,
        "whole": st.dictionaries(st.sampled_from(["a", "b"]), words),
        "free": st.dictionaries(words, words, max_size=2),
        "struct": st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 2)),
        "open": st.dictionaries(words, st.lists(st.integers(0, 2)) | words, max_size=2),
    },
)
managers = st.sampled_from(["a", "b", "c"])
scripts = st.lists(st.tuples(managers, specs), max_size=5)


def played(script):
    live = None
    for second, (manager, spec) in enumerate(script):
        live = applied(live, manager, spec, force=True, second=second)
    return live


def holds(document, config):
    """Whether everything a configuration states is in the document."""
    if isinstance(config, dict):
        return isinstance(document, dict) and all(
            name in document and holds(document[name], part) for name, part in config.items()
        )
    if isinstance(config, list) and config and isinstance(config[0], dict):
        return all(any(holds(item, part) for item in document) for part in config)
    return document == config or (isinstance(config, list) and all(item in document for item in config))


@settings(deadline=None)
@given(scripts, managers, specs)
def test_what_is_applied_by_force_is_there_afterwards(script, manager, spec):
    live = applied(played(script), manager, spec, force=True, second=40)
    assert holds(live.get("spec") or {}, {name: part for name, part in spec.items() if part not in ([], {})})


def without_empties(spec):
    """An empty map is owned itself, an emptied struct is left null: the exceptions to the law, upstream's too."""
    return {name: part for name, part in spec.items() if part not in ({}, [])}


@settings(deadline=None)
@given(scripts, managers, specs)
def test_applying_twice_is_applying_once(script, manager, spec):
    spec = {"n": 1, **without_empties(spec)}
    once = applied(
        played([(name, without_empties(part)) for name, part in script]), manager, spec, force=True, second=40
    )
    again = apply(once, stated(spec), THING, actor(manager, 41), force=False)
    assert again is once


@settings(deadline=None)
@given(scripts, managers, specs)
def test_nothing_given_is_ever_changed(script, manager, spec):
    live, wanted = played(script), stated(spec)
    before = copy.deepcopy((live, wanted))
    apply(live, wanted, THING, actor(manager, 40), force=True)
    assert (live, wanted) == before


@settings(deadline=None)
@given(scripts, managers)
def test_who_states_nothing_owns_nothing(script, manager):
    live = apply(
        played(script),
        {"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "t"}},
        THING,
        actor(manager),
        force=False,
    )
    assert f"{manager}/Apply" not in owned(live)


@settings(deadline=None)
@given(scripts)
def test_an_object_everybody_gives_up_is_empty(script):
    live = played([*script, *((manager, {}) for manager in "abc")])
    assert not any((live.get("spec") or {}).values())


@settings(deadline=None)
@given(scripts, specs)
def test_an_update_owns_exactly_what_it_changed(script, spec):
    live = played(script) or born(stated({}))
    new = updated(live, "u", spec, second=50)
    again = track(new, new, THING, actor("w", 51))
    assert again is new or owned(again) == owned(new)
    assert set(PROPERTIES) >= {step[2:] for part in owned(new).values() for step in (part or {}) if step != "."}
