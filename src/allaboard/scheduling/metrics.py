"""What the scheduler counts, under KAI's names."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

CYCLE = Gauge("kai_e2e_scheduling_latency_milliseconds", "how long the last cycle took")
SCHEDULED = Counter("kai_podgroups_scheduled_by_action", "gangs that were given their places")
EVICTED = Counter("kai_pod_group_evicted_pods", "pods told to go, by action", ("action",))
FAIR_SHARE = {
    "cpu": Gauge("kai_queue_fair_share_cpu_cores", "cpu cores a queue may use", ("queue_name",)),
    "memory": Gauge("kai_queue_fair_share_memory_gb", "memory a queue may use", ("queue_name",)),
    "gpu": Gauge("kai_queue_fair_share_gpu", "devices a queue may use", ("queue_name",)),
}
