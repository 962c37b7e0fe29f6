"""What a loop counts is there when somebody asks, under the names people know."""

import pytest
from prometheus_client import REGISTRY

from allaboard.kube.metrics import meter_of


@pytest.fixture(scope="module")
def told():
    meter = meter_of("counted")
    for result, seconds in (("success", 0.001), ("success", 0.02), ("error", 99.0)):
        meter.passed(result, seconds)
    meter.depth, meter.adds, meter.retries = 4, 5, 6
    meter.writes["create"] += 7
    return REGISTRY


SAMPLES = {
    #                                           labels                                        value
    "controller_runtime_reconcile_total":        ({"controller": "counted", "result": "success"}, 2),
    "controller_runtime_reconcile_errors_total": ({"controller": "counted"}, 1),
    "controller_runtime_reconcile_time_seconds_count": ({"controller": "counted"}, 3),
    "controller_runtime_reconcile_time_seconds_sum": ({"controller": "counted"}, pytest.approx(99.021)),
    "workqueue_depth":                           ({"name": "counted"}, 4),
    "workqueue_adds_total":                      ({"name": "counted"}, 5),
    "workqueue_retries_total":                   ({"name": "counted"}, 6),
    "aboard_writes_total":                       ({"controller": "counted", "verb": "create"}, 7),
}  # fmt: skip


@pytest.mark.parametrize(("name", "case"), SAMPLES.items(), ids=SAMPLES)
def test_a_number_is_told(told, name, case):
    labels, value = case
    assert told.get_sample_value(name, labels) == value


@pytest.mark.parametrize(("bound", "count"), {"0.005": 1, "0.025": 2, "10.0": 2, "+Inf": 3}.items())
def test_durations_are_counted_up_to_each_bound(told, bound, count):
    labels = {"controller": "counted", "le": bound}
    assert told.get_sample_value("controller_runtime_reconcile_time_seconds_bucket", labels) == count
