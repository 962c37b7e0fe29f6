"""Counting TrainJobs as they change."""

from prometheus_client import REGISTRY

from allaboard.training import metrics
from tests.training.world import trainjob


def value(name, **labels):
    return REGISTRY.get_sample_value(name, labels) or 0


def standing(phase="", queue="vision", **story):
    job = trainjob({})
    job["metadata"] = {**job["metadata"], "labels": {"kai.scheduler/queue": queue}}
    ready = [{"name": "node", "ready": 1}] if phase == "Running" else []
    return {**job, "status": {"jobsStatus": ready, "aboard": story}}


def test_a_job_is_counted_where_it_stands():
    waiting, running = standing(), standing("Running", startTime="2026-01-02T03:05:05Z")
    before = value("aboard_trainjobs", phase="Pending", queue="vision")
    metrics.count(None, waiting)
    assert value("aboard_trainjobs", phase="Pending", queue="vision") == before + 1
    metrics.count(waiting, running)
    assert value("aboard_trainjobs", phase="Pending", queue="vision") == before
    metrics.count(running, None)
    assert value("aboard_trainjobs", phase="Running", queue="vision") == 0


def test_the_wait_is_counted_once():
    waiting, running = standing(), standing("Running", startTime="2026-01-02T03:05:05Z")
    count, total = (value(f"aboard_trainjob_time_to_running_seconds_{part}") for part in ("count", "sum"))
    metrics.count(waiting, running)
    metrics.count(running, running)
    assert value("aboard_trainjob_time_to_running_seconds_count") == count + 1
    assert value("aboard_trainjob_time_to_running_seconds_sum") == total + 60


def test_restarts_are_added_up():
    before = value("aboard_trainjob_restarts_total", queue="vision")
    metrics.count(standing(restarts=1), standing(restarts=3))
    assert value("aboard_trainjob_restarts_total", queue="vision") == before + 2


def test_a_job_without_a_queue_is_in_the_default_one():
    assert metrics.place_of(trainjob({})) == ("Pending", "default-queue")
