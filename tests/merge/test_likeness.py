"""Sets remembered by likeness are exactly those that would have been found, whatever two documents differ in."""

import copy
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import crds
from allaboard.merge import likeness
from allaboard.merge.apply import STATUS, blank
from allaboard.merge.apply import _fields_of as stated
from allaboard.merge.apply import _written as written
from allaboard.merge.likeness import found_once
from allaboard.merge.trees import Misfit
from allaboard.schema import builtin, structure
from tests.merge.test_fuzz import Chance
from tests.merge.things import THING

CUSTOM = {crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0] for crd in crds.documents()}
BUILT_IN = ("core.v1.Pod", "batch.v1.Job", "core.v1.Service", "scheduling.v1.PriorityClass")
KINDS = {name: structure.compile({"$ref": name}) for name in BUILT_IN}
KINDS |= {
    name: structure.compile(CUSTOM[name]["schema"]["openAPIV3Schema"]) for name in ("JobSet", "BindRequest", "TrainJob")
}
KINDS["Thing"] = THING
POD = KINDS["core.v1.Pod"]
VALUES = [None, True, False, 0, 1, 2, 1.0, 0.0, -0.0, "", "a", "b", {}, [], {"a": "b"}, {"a": ""}, ["a"], [1], [True]]


def owner(uid, **more):
    return {"apiVersion": "v1", "kind": "K", "name": f"of-{uid}", "uid": uid, **more}


def pod(uid="u", env="x", **more):
    container = {"name": "c", "env": [{"name": "A", "value": env}], "ports": [{"containerPort": 80}], "args": [env]}
    metadata = {"name": env, "labels": {"l": env}, "ownerReferences": [owner(uid)], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def places(value):
    """Every container of a document with each of its keys, the owners' more than once."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield from [(value, key)] * (3 if key == "uid" else 1)
        yield from places(item)


def shaken(document, of):
    """A copy that differs in a few places, mostly in what a value says, now and then in what it is."""
    document = copy.deepcopy(document)
    for _ in range(of.randint(0, 3)):
        if not document:
            break
        where, key = of.choice(list(places(document)))
        value = where[key]
        how = of.random()
        if how < 0.5:
            alike = (
                [other for other in VALUES if type(other) is type(value)] if not isinstance(value, dict | list) else []
            )
            where[key] = of.choice(alike or [value])
        elif how < 0.7:
            where[key] = copy.deepcopy(of.choice(VALUES))
        elif how < 0.8:
            del where[key]
        elif isinstance(value, list) and value:
            where[key] = of.choice([value[::-1], [*value, value[0]], value[1:], value[:1]])
    return document


def told(find, *args):
    """What was found, or that the document does not fit."""
    try:
        return find(*args)
    except Misfit:
        return Misfit


@pytest.mark.parametrize("find", [written, stated], ids=["written", "stated"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@given(seed=st.integers(0, 2**32), door=st.sampled_from([{}, STATUS]))
def test_what_is_remembered_is_what_would_be_found(kind, find, seed, door):
    chance, full = Chance(seed), find.__wrapped__
    remembering = found_once(full)
    document = {**chance.document(kind.root), "value": seed % 3}  # which an empty PriorityClass says to be 0
    document["metadata"]["ownerReferences"] = [owner(str(n), controller=True) for n in chance.some(2)]
    of = random.Random(seed)
    for _ in range(6):
        assert told(remembering, document, kind, door) == told(full, document, kind, door)
        document = shaken(document, of)
        if not isinstance(document.get("metadata"), dict):
            return


def looked_through(*documents, kind=POD):
    """How many of these documents had to be walked."""
    walked = []

    @found_once
    def find(document, structure, door):
        walked.append(document)
        return written.__wrapped__(document, structure, door)

    for document in documents:
        assert find(document, kind, STATUS) == written.__wrapped__(document, kind, STATUS)
    return len(walked)


def test_pods_of_one_template_are_walked_once():
    assert looked_through(pod("1", "a"), pod("1", "b"), pod("2", "c"), pod("3", "d"), pod("1", "a")) == 1


def test_forms_that_take_turns_are_walked_once_each():
    assert looked_through(*[pod(str(n), f"e{n}", **({"generateName": "g"} if n % 2 else {})) for n in range(8)]) == 2


@pytest.mark.parametrize(
    "other",
    [
        pod(ownerReferences=[owner("u"), owner("v")]),
        pod(ownerReferences=[owner("u", controller=True)]),
        pod(ownerReferences=[{**owner("u"), "uid": 1}]),
        pod(ownerReferences=None),
        pod(labels={"l": ""}),
        pod(labels={"m": "x"}),
        pod(labels={}),
        pod(env=""),
    ],
)
def test_what_has_other_places_is_walked(other):
    assert looked_through(pod(), other) == 2


@pytest.mark.parametrize(("one", "other"), [(80, 81), (1, True), (1, 1.0), (0.0, -0.0)])
def test_items_of_other_keys_are_walked(one, other):
    documents = [{"spec": {"hosts": [{"host": "h", "port": port}]}} for port in (one, other)]
    assert looked_through(*documents, kind=THING) == 2


@pytest.mark.parametrize(("one", "other"), [("a", "b"), (1, True), ({"a": 1}, {"a": 2})])
def test_other_members_of_a_set_are_walked(one, other):
    assert looked_through(*[{"spec": {"tags": [member]}} for member in (one, other)], kind=THING) == 2


def test_only_the_last_forms_are_remembered():
    documents = [pod(labels={str(n): "x"}) for n in range(likeness.MOST_FORMS + 1)]
    assert looked_through(*documents, documents[-1], documents[0]) == len(documents) + 1


def test_only_so_many_kinds_are_remembered(monkeypatch):
    monkeypatch.setattr(likeness, "MOST_KINDS", 2)
    walked = []
    find = found_once(lambda document, kind, door: (walked.append(kind) or {},))
    kinds = [structure.compile({"type": "object"}) for _ in range(3)]
    for kind in [*kinds, kinds[2], kinds[0]]:
        find({"kind": "K"}, kind, {})
    assert walked == [*kinds, kinds[0]]


def test_what_an_empty_object_prints_is_empty():
    """Likeness tells empty from not empty: no field may be left to nobody because it has some other value."""

    def printed(value):
        return [word for item in value.values() for word in printed(item)] if isinstance(value, dict) else [value]

    for resource in builtin.resources():
        name = builtin.type_of("/".join(filter(None, (resource["group"], resource["version"]))), resource["kind"])
        if name is not None:
            assert not any(printed(blank(structure.compile({"$ref": name}))))
