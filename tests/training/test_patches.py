"""Runtime patches: a merge with Kubernetes' own rules about order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.training.patches import UnmergeablePatch, _interleave, merge
from tests.training.world import container, job_set, patch, pod, replicated, runtime, trainjob

ORDERS = {
    #                                                    original  patch   result
    "a new one goes in front":                          ("AB",     "C",    "CAB"),
    "a new one behind a known one stays there":         ("AB",     "BC",   "ABC"),
    "a new one between known ones":                     ("AB",     "AC",   "ACB"),
    "known ones in another order":                      ("ABC",    "CA",   "BCA"),
    "nothing new":                                      ("ABC",    "B",    "ABC"),
    "an empty original":                                ("",       "BA",   "BA"),
}  # fmt: skip


def entries(names):
    return [{"name": name} for name in names]


@pytest.mark.parametrize(("original", "change", "want"), ORDERS.values(), ids=ORDERS)
def test_the_order_of_a_merged_list(original, change, want):
    source = runtime(None, replicated(containers=[{"name": "side", "env": entries(original)}]))
    job = trainjob(runtimePatches=[patch(containers=[{"name": "side", "env": entries(change)}])])
    assert "".join(e["name"] for e in container(job_set(source, job), name="side")["env"]) == want


@given(st.permutations("abcdef"), st.permutations("cdefgh"), st.integers(0, 6), st.integers(0, 6))
def test_a_merged_list_has_everyone_once_and_keeps_both_orders(original, change, left, right):
    original, change = original[:left], change[:right]
    rest = [name for name in original if name not in change]
    merged = list(_interleave(list(change), rest, list(original)))
    assert sorted(merged) == sorted({*original, *change})
    assert [name for name in merged if name in change] == list(change)
    assert [name for name in merged if name in rest] == rest


def test_maps_merge_and_other_lists_are_replaced():
    own = {"nodeSelector": {"a": "1", "b": "1"}, "tolerations": [{"key": "a"}]}
    job = trainjob(runtimePatches=[patch(nodeSelector={"b": "2"}, tolerations=[{"key": "b"}])])
    found = pod(job_set(runtime(None, replicated(**own)), job))
    assert (found["nodeSelector"], found["tolerations"]) == ({"a": "1", "b": "2"}, [{"key": "b"}])


def test_later_managers_win():
    job = trainjob(
        runtimePatches=[patch("a.io/x", serviceAccountName="one"), patch("b.io/x", serviceAccountName="two")]
    )
    assert pod(job_set(runtime(), job))["serviceAccountName"] == "two"


def test_nothing_can_be_removed():
    source = runtime(None, replicated(nodeSelector={"a": "1"}))
    job = trainjob(runtimePatches=[patch(nodeSelector={}, serviceAccountName="", volumes=[], affinity=None)])
    assert pod(job_set(source, job)) == {**pod(job_set(source, trainjob()))}


def test_jobs_stay_in_the_runtimes_order():
    source = {"replicatedJobs": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    change = {
        "manager": "x.io/y",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "c"}, {"name": "a"}]}}},
    }
    assert [job["name"] for job in merge(source, [change])["replicatedJobs"]] == ["a", "b", "c"]


def test_an_item_without_a_name_cannot_be_merged():
    with pytest.raises(UnmergeablePatch, match='imagePullSecrets: an item has no "name"'):
        job_set(runtime(), trainjob(runtimePatches=[patch(imagePullSecrets=[{}])]))


def test_the_runtime_itself_is_never_changed():
    source = runtime(None, replicated(nodeSelector={"a": "1"}))
    before = repr(source)
    job_set(
        source,
        trainjob(
            {"image": "x", "resourcesPerNode": {"requests": {"cpu": "1"}}},
            runtimePatches=[patch(nodeSelector={"b": "2"})],
        ),
    )
    assert repr(source) == before
