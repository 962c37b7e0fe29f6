"""Policies: KAI's names and defaults, and every name that means nothing stops the start."""

from __future__ import annotations

import pytest

from allaboard.scheduling import policy
from allaboard.scheduling.plugins.minruntime import seconds

REFUSED = {
    "a misspelt plugin": ({"plugins": {"gpupakc": {}}}, 'unknown plugin "gpupakc"; did you mean "gpupack"?'),
    "a misspelt action": ({"actions": {"alocate": {}}}, 'unknown action "alocate"; did you mean "allocate"?'),
    "a misspelt field": ({"plugin": {}}, 'unknown field "plugin"; did you mean "plugins"?'),
    "a misspelt policy": ({"policy": "kia"}, 'unknown policy "kia"; did you mean "kai"?'),
    "an unsupported plugin": ({"plugins": {"numa": {}}}, 'plugin "numa" is not supported; leave it out or disable it'),
    "an unknown strategy": (
        {"placementStrategy": {"gpu": "pack"}},
        'placement strategy "pack" is unknown; use binpack or spread',
    ),
    "an unknown argument": (
        {"plugins": {"elastic": {"arguments": {"x": "1"}}}},
        'plugin "elastic" does not take arguments x',
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


def test_usage_weight_is_never_negative():
    assert [policy.read({"kValue": k}).usage_weight for k in (None, -1, 0, 2.5)] == [1.0, 0.0, 0.0, 2.5]


@pytest.mark.parametrize(("text", "want"), [("90", 90.0), ("1h30m", 5400.0), ("500ms", 0.5), (7, 7.0), ("2m", 120.0)])
def test_durations(text, want):
    assert seconds(text) == want


def test_a_text_that_is_no_duration_is_refused():
    with pytest.raises(ValueError, match='"soon" is not a duration; write for example 90s or 1h30m'):
        seconds("soon")
