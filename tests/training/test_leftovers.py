"""The finalizer of older versions is taken off, and nothing else."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.training.leftovers import IN_USE, decide

CASES = {
    "none": ([], None),
    "only ours": ([IN_USE], []),
    "beside another": (["a.io/b", IN_USE], ["a.io/b"]),
    "only another": (["a.io/b"], None),
}


@pytest.mark.parametrize(("held", "kept"), CASES.values(), ids=CASES)
def test_finalizers(held, kept):
    plan = decide(kinds.TRAINING_RUNTIME, Key("a", "rt"), {"metadata": {"finalizers": held}})
    assert [write.body["metadata"]["finalizers"] for write in plan.patch] == ([] if kept is None else [kept])


def test_a_runtime_that_is_gone_needs_nothing():
    assert not decide(kinds.TRAINING_RUNTIME, Key("a", "rt"), None)
