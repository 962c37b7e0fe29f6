"""Sets of fields: their algebra against plain sets of paths, and their spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.merge import fields
from allaboard.merge.fields import contains, difference, from_paths, intersection, is_subset, members, spelled, union

steps = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
paths = st.lists(steps, min_size=1, max_size=3).map(tuple)
path_sets = st.frozensets(paths, max_size=6)


def built(found):
    """A set in stored form, from plain paths."""
    out: dict = {}
    for path in found:
        one: dict = {}
        for step in reversed(path):
            one = {step: one}
        out = union(out, one)
    return out


def plain(found):
    return frozenset(members(found))


@given(path_sets)
def test_a_set_holds_what_was_put_into_it(one):
    assert plain(built(one)) == one
    assert all(contains(built(one), path) for path in one)


@given(path_sets, path_sets)
def test_the_algebra_is_that_of_plain_sets(one, other):
    left, right = built(one), built(other)
    assert plain(union(left, right)) == one | other
    assert plain(intersection(left, right)) == one & other
    assert plain(difference(left, right)) == one - other
    assert is_subset(left, right) == (one <= other)


@given(path_sets, path_sets)
def test_whole_trees_go_with_their_root(one, other):
    want = {path for path in one if not any(path[: len(root)] == root for root in other)}
    assert plain(fields.without_trees(built(one), built(other))) == want


@given(path_sets, path_sets)
def test_sets_are_never_changed(one, other):
    left, right = built(one), built(other)
    for combine in (union, intersection, difference, fields.without_trees):
        combine(left, right)
    assert (plain(left), plain(right)) == (one, other)


SPELLED = {
    ("f:spec", 'k:{"containerPort":80,"protocol":"TCP"}', "f:name"): '.spec[containerPort=80,protocol="TCP"].name',
    ("f:metadata", "f:finalizers", 'v:"example.com/a"'): '.metadata.finalizers[="example.com/a"]',
    ("f:list", "i:3"): ".list[3]",
    ("f:data", "f:a.b"): ".data.a.b",
}


@pytest.mark.parametrize(("path", "text"), SPELLED.items())
def test_a_path_is_spelled_as_conflicts_print_it(path, text):
    assert spelled(path) == text


def test_members_come_level_by_level():
    given_ = {"f:b": {}, "f:a": {".": {}, "f:x": {}}, 'k:{"n":1}': {"f:y": {}}}
    assert [spelled(path) for path in members(given_)] == [".a", ".b", ".a.x", "[n=1].y"]


def test_paths_of_plain_names():
    assert from_paths([("metadata", "name"), ("status",)]) == {"f:metadata": {"f:name": {}}, "f:status": {}}


BAD = ["x", [], {"a": {}}, {"f:a": 1}, {"f:a": {"zz": {}}}]


@pytest.mark.parametrize("value", BAD)
def test_what_is_no_set_is_told(value):
    assert not fields.is_well_formed(value)
