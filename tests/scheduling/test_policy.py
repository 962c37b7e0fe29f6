"""Policies: KAI's names and defaults, and every name that means nothing stops the start."""

from __future__ import annotations

import pytest

from allaboard.scheduling import policy
from allaboard.scheduling.durations import seconds

REFUSED = {
    "a misspelt plugin": ({"plugins": {"gpupakc": {}}}, 'unknown plugin "gpupakc"; did you mean "gpupack"?'),
    "a misspelt action": ({"actions": {"alocate": {}}}, 'unknown action "alocate"; did you mean "allocate"?'),
    "a misspelt field": ({"plugin": {}}, 'unknown field "plugin"; did you mean "plugins"?'),
    "a misspelt policy": ({"policy": "kia"}, 'unknown policy "kia"; did you mean "kai"?'),
    "an unsupported plugin": ({"plugins": {"numa": {}}}, 'plugin "numa" is not supported; leave it out or disable it'),
    "a flag that is neither true nor false": (
        {"args": {"use-scheduling-signatures": "yes"}},
        '"yes" is neither true nor false',
    ),
    "an unknown strategy": (
        {"placementStrategy": {"gpu": "pack"}},
        'placement strategy "pack" is unknown; use binpack or spread',
    ),
    "an unknown argument": (
        {"plugins": {"elastic": {"arguments": {"x": "1"}}}},
        'plugin "elastic" takes no argument "x"; it takes none',
    ),
    "a misspelt argument": (
        {"plugins": {"minruntime": {"arguments": {"defaultPreemptMinRunTime": "1m"}}}},
        'plugin "minruntime" takes no argument "defaultPreemptMinRunTime"; did you mean "defaultPreemptMinRuntime"?',
    ),
    "an argument that is no duration": (
        {"plugins": {"minruntime": {"arguments": {"defaultPreemptMinRuntime": "soon"}}}},
        'plugin "minruntime": "soon" is not a duration; write for example 90s or 1h30m',
    ),
    "an argument below its least": (
        {"plugins": {"proportion": {"arguments": {"relcaimerSaturationMultiplier": "0.5"}}}},
        'plugin "proportion": relcaimerSaturationMultiplier is 0.5; must be at least 1',
    ),
    "a shard of nodes": (
        {"partitionLabelValue": "a"},
        "partitionLabelValue is not supported; one scheduler serves all nodes",
    ),
    "a budget of time": (
        {"scenarioSearchBudgets": {"maxJobSearchDuration": "1m"}},
        "scenarioSearchBudgets is not supported; "
        "the search for victims is limited in effort, so that a replayed cycle ends the same way",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "words"), REFUSED.values(), ids=REFUSED)
def test_what_means_nothing_stops_the_start(spec, words):
    with pytest.raises(ValueError) as refusal:
        policy.read(spec)
    assert str(refusal.value) == f"scheduler policy: {words}"


def names(spec):
    return [plugin.name for plugin in policy.read(spec).plugins]


def test_the_default_order_is_the_priorities():
    order = [name for name in policy.PLUGINS if name != "gpuspread"]
    assert names({}) == order
    assert policy.read({}).actions == ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")


def test_spreading_gpus_turns_packing_and_consolidation_off():
    spec = {"placementStrategy": {"gpu": "spread"}}
    assert "gpuspread" in names(spec) and not {"gpupack", "gpusharingorder"} & set(names(spec))
    assert "consolidation" not in policy.read(spec).actions


def test_a_plugin_is_disabled_moved_and_configured():
    spec = {"plugins": {"elastic": {"enabled": False}, "priority": {"priority": 1}, "snapshot": {"enabled": True}}}
    assert "elastic" not in names(spec)
    assert names(spec)[-1] == "priority"


def test_actions_are_disabled_and_moved():
    spec = {"actions": {"preempt": {"priority": 1000}, "reclaim": {"enabled": False}}}
    assert policy.read(spec).actions == ("preempt", "allocate", "consolidation", "stalegangeviction")


def test_every_name_of_kais_default_list_is_known():
    """As its operator writes them into a SchedulingShard."""
    listed = [
        "predicates", "proportion", "priority", "nodeavailability", "resourcetype", "podaffinity", "elastic",
        "kubeflow", "ray", "subgrouporder", "taskorder", "nominatednode", "dynamicresources", "minruntime",
        "topology", "snapshot", "gpupack", "nodeplacement", "gpusharingorder", "sg-nodelocalgreedy",
        "sg-multinodegang",
    ]  # fmt: skip
    assert names({"plugins": {name: {"enabled": True} for name in listed}}) == names({})
    assert names({"plugins": {"reflectjoborder": {}}}) == names({})


@pytest.mark.parametrize("said", [True, False])
def test_signatures_are_a_flag(said):
    assert policy.read({"policy": "kai", "args": {"use-scheduling-signatures": str(said).lower()}}).signatures is said
    assert policy.read({"policy": "kai"}).signatures and not policy.read({}).signatures


def test_usage_weight_is_never_negative():
    assert [policy.read({"kValue": k}).proportion.usage_weight for k in (None, -1, 0, 2.5)] == [1.0, 0.0, 0.0, 2.5]


def test_kais_own_names_of_arguments_are_understood():
    given = {
        "minruntime": {"defaultPreemptMinRuntime": "5m", "reclaimResolveMethod": "queue"},
        "proportion": {"relcaimerSaturationMultiplier": "1.5", "kValue": "2"},
        "dynamicresources": {"maxCelCacheEntries": "10"},
    }
    chosen = policy.read({"plugins": {name: {"arguments": said} for name, said in given.items()}})
    (least,) = [plugin for plugin in chosen.plugins if plugin.name == "minruntime"]
    assert (least.preempt, least.reclaim, least.method) == (300.0, 0.0, "queue")
    assert (chosen.proportion.saturation, chosen.proportion.usage_weight) == (1.5, 2.0)
    assert policy.read({"minRuntime": {"reclaimMinRuntime": "1h"}}).plugins != policy.DEFAULT.plugins


def test_a_usage_database_is_asked_for_nothing_but_its_half_life():
    said = {"clientType": "prometheus", "usageParams": {"halfLifePeriod": "1h"}}
    assert policy.read({"usageDBConfig": said}).usage_half_life == 3600.0
    with pytest.raises(ValueError, match="of usageDBConfig only usageParams"):
        policy.read({"usageDBConfig": {"clientType": "prometheus", "connectionString": "http://prometheus"}})


@pytest.mark.parametrize("off", policy.GENERATORS)
def test_a_way_to_look_for_victims_can_be_switched_off(off):
    left = tuple(name for name in policy.GENERATORS if name != off)
    assert policy.read({"plugins": {off: {"enabled": False}}}).generators == left
    assert policy.read({}).generators == policy.GENERATORS


@pytest.mark.parametrize(("text", "want"), [("90", 90.0), ("1h30m", 5400.0), ("500ms", 0.5), (7, 7.0), ("2m", 120.0)])
def test_durations(text, want):
    assert seconds(text) == want


def test_a_text_that_is_no_duration_is_refused():
    with pytest.raises(ValueError, match='"soon" is not a duration; write for example 90s or 1h30m'):
        seconds("soon")
