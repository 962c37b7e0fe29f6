"""What the scheduler and the queue controller count, under KAI's names.

KAI's counters have no `_total`, which this library's counters insist on: those are gauges that only grow.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Gauge, Histogram

from allaboard.api.documents import Document, dig
from allaboard.api.meta import name_of
from allaboard.api.quantity import parse

MILLISECONDS = tuple(5.0 * 2**step for step in range(10))

CYCLE = Gauge("kai_e2e_scheduling_latency_milliseconds", "Duration of the last cycle")
SCHEDULED = Gauge("kai_podgroups_scheduled_by_action", "Gangs that were given their places", ["action"])
ACTED_ON = Gauge("kai_podgroups_acted_on_by_action", "Gangs an action decided about", ["action"])
PREEMPTIONS = Gauge("kai_total_preemption_attempts", "Cycles that told somebody to go")
EVICTED = Counter(
    "kai_pod_group_evicted_pods", "Pods told to go", ["podgroup", "namespace", "uid", "nodepool", "action"]
)
TASK_LATENCY = Histogram(
    "kai_task_scheduling_latency_milliseconds", "From a pod's creation to its place", buckets=MILLISECONDS
)
BIND_LATENCY = Histogram("kai_task_bind_latency_milliseconds", "From a request to the bound pod", buckets=MILLISECONDS)
FAIR_SHARE = (
    (Gauge("kai_queue_fair_share_cpu_cores", "Cores a queue may use now", ["queue_name"]), 1000.0),
    (Gauge("kai_queue_fair_share_memory_gb", "Memory a queue may use now", ["queue_name"]), 1e9),
    (Gauge("kai_queue_fair_share_gpu", "Devices a queue may use now", ["queue_name"]), 1.0),
)
QUEUE = Gauge("kai_queue_info", "A queue exists", ["queue_name"])
DESERVED = (
    (Gauge("kai_queue_deserved_gpus", "Devices a queue is guaranteed", ["queue_name"]), "gpu", 1.0),
    (Gauge("kai_queue_quota_cpu_cores", "Cores a queue is guaranteed", ["queue_name"]), "cpu", 0.001),
    (Gauge("kai_queue_quota_memory_bytes", "Memory a queue is guaranteed", ["queue_name"]), "memory", 1e6),
)
ALLOCATED = (
    (Gauge("kai_queue_allocated_gpus", "Devices a queue holds", ["queue_name"]), "nvidia.com/gpu"),
    (Gauge("kai_queue_allocated_cpu_cores", "Cores a queue holds", ["queue_name"]), "cpu"),
    (Gauge("kai_queue_allocated_memory_bytes", "Memory a queue holds", ["queue_name"]), "memory"),
)


def tell_shares(shares: Mapping[str, tuple[float, float, float]]) -> None:
    """The shares of a cycle: cpu in milli-cores, memory in bytes, devices."""
    for queue, share in shares.items():
        for (gauge, unit), amount in zip(FAIR_SHARE, share, strict=True):
            gauge.labels(queue).set(amount / unit)


def tell_queue(queue: Document, status: Document) -> None:
    """What a queue is guaranteed and what it holds."""
    name = name_of(queue)
    QUEUE.labels(name).set(1)
    for gauge, resource, unit in DESERVED:
        quota = float(dig(queue, "spec", "resources", resource, "quota", default=0))
        gauge.labels(name).set(quota if quota < 0 else quota * unit)
    for held, resource in ALLOCATED:
        held.labels(name).set(float(parse(dig(status, "allocated", resource, default="0"))))


def forget_queue(name: str) -> None:
    """A queue that is gone is not told about any more."""
    gauges = [QUEUE, *(g for g, _ in FAIR_SHARE), *(g for g, _, _ in DESERVED), *(g for g, _ in ALLOCATED)]
    for gauge in gauges:
        gauge.labels(name)  # removing what was never told is an error
        gauge.remove(name)
