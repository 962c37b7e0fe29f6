"""What the loop counts, under the names controller-runtime made known (ruling 17).

A loop counts at every pass and every write, and is asked for the numbers a few times a minute: so it adds to plain
numbers, and they are turned into metrics when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
NAMES = (*map(str, BOUNDS), "+Inf")


class Meter:
    """One controller's numbers."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self.durations = [0] * len(NAMES)
        self.seconds = 0.0
        self.depth = self.adds = self.retries = 0

    def passed(self, result: str, seconds: float) -> None:
        """A pass over a key is over."""
        self.results[result] += 1
        self.durations[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


METERS: dict[str, Meter] = {}


def meter_of(name: str) -> Meter:
    """The numbers of the controller of this name; there is one set, however many planes a process has."""
    return METERS.setdefault(name, Meter())


class Meters(Collector):
    """Every controller's numbers as metrics."""

    def collect(self) -> Iterator[Metric]:
        yield _counted(
            "controller_runtime_reconcile", "Passes over a key", ["controller", "result"], lambda m: m.results.items()
        )
        yield _counted(
            "controller_runtime_reconcile_errors", "Passes that failed", ["controller"],
            lambda m: [("", m.results["error"])],
        )  # fmt: skip
        yield _durations()
        depth = GaugeMetricFamily("workqueue_depth", "Keys that are due", labels=["name"])
        for name, meter in METERS.items():
            depth.add_metric([name], meter.depth)
        yield depth
        yield _counted("workqueue_adds", "Keys that became due", ["name"], lambda m: [("", m.adds)])
        yield _counted(
            "workqueue_retries", "Keys that came back after a failure", ["name"], lambda m: [("", m.retries)]
        )
        yield _counted(
            "aboard_writes", "Writes sent to the API server", ["controller", "verb"], lambda m: m.writes.items()
        )


def _counted(name: str, words: str, labels: list[str], numbers: Callable[[Meter], Iterable[tuple[str, int]]]) -> Metric:
    family = CounterMetricFamily(name, words, labels=labels)
    for controller, meter in METERS.items():
        for detail, number in list(numbers(meter)):
            family.add_metric([controller, detail] if len(labels) > 1 else [controller], number)
    return family


def _durations() -> Metric:
    family = HistogramMetricFamily(
        "controller_runtime_reconcile_time_seconds", "Duration of a pass", labels=["controller"]
    )
    for name, meter in METERS.items():
        family.add_metric([name], list(zip(NAMES, map(float, accumulate(meter.durations)))), meter.seconds)
    return family


REGISTRY.register(Meters())
