"""Metadata as values: when two states of an object ask for the same."""

import pytest

from allaboard.api.meta import asks_the_same

OLD = {"metadata": {"uid": "u", "generation": 2, "labels": {"a": "1"}, "resourceVersion": "7"}, "status": {"x": 1}}

CHANGES = {
    #                              metadata                                   asks for the same
    "a status was written":       ({"resourceVersion": "8"},                  True),
    "the owners of fields moved": ({"managedFields": [{}]},                   True),
    "the wish changed":           ({"generation": 3},                         False),
    "a label changed":            ({"labels": {"a": "2"}},                    False),
    "an annotation came":         ({"annotations": {"why": "x"}},             False),
    "it shall go":                ({"deletionTimestamp": "now"},              False),
    "a finalizer came":           ({"finalizers": ["f"]},                     False),
    "another owner":              ({"ownerReferences": [{"uid": "o"}]},       False),
    "a namesake":                 ({"uid": "other"},                          False),
}  # fmt: skip


@pytest.mark.parametrize(("change", "same"), CHANGES.values(), ids=CHANGES)
def test_asks_the_same(change, same):
    assert asks_the_same(OLD, {"metadata": {**OLD["metadata"], **change}, "status": {"x": 2}}) is same


def test_without_a_generation_nothing_is_known_of_the_wish():
    bare = {"metadata": {"uid": "u"}, "spec": {"a": 1}}
    assert not asks_the_same(bare, {**bare, "spec": {"a": 2}})
