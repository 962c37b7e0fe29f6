"""Cron schedules and the Jobs they start."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.api.meta import stamp
from allaboard.jobs import cronjob
from allaboard.jobs.schedule import BadSchedule, parse

NOON = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)  # a Thursday

NEXT = {
    "every minute": ("* * * * *", "2026-01-01 12:01"),
    "every five minutes": ("*/5 * * * *", "2026-01-01 12:05"),
    "from a minute on": ("7/20 * * * *", "2026-01-01 12:07"),
    "midnight": ("@daily", "2026-01-02 00:00"),
    "the first of the month": ("0 0 1 * *", "2026-02-01 00:00"),
    "mondays by name": ("30 6 * * MON", "2026-01-05 06:30"),
    "sunday is seven too": ("0 0 * * 7", "2026-01-04 00:00"),
    "either kind of day": ("0 0 15 * FRI", "2026-01-02 00:00"),
    "leap day": ("0 0 29 2 *", "2028-02-29 00:00"),
}


@pytest.mark.parametrize(("text", "want"), NEXT.values(), ids=NEXT)
def test_the_next_moment(text, want):
    assert parse(text).next(NOON).strftime("%Y-%m-%d %H:%M") == want


def test_the_last_moment_is_found_without_counting():
    assert parse("0 0 * * *").last(NOON - timedelta(days=900), NOON) == datetime(2026, 1, 1, tzinfo=UTC)
    assert parse("0 13 * * *").last(NOON - timedelta(hours=3), NOON) is None
    assert parse("@every 90m").last(NOON - timedelta(hours=4), NOON) == NOON - timedelta(hours=1)


def test_a_schedule_keeps_its_time_zone():
    assert parse("0 9 * * *", "America/New_York").next(NOON) == datetime(2026, 1, 1, 14, 0, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "* * * *", "61 * * * *", "5-1 * * * *", "*/0 * * * *", "@every x", "a * * * *"])
def test_a_bad_schedule_is_refused(text):
    with pytest.raises(BadSchedule):
        parse(text)


def cron(created=NOON - timedelta(minutes=2), status=None, **spec):
    metadata = {"name": "c", "namespace": "ns", "uid": "c", "creationTimestamp": stamp(created)}
    template = {"spec": {"template": {"spec": {"containers": []}}}}
    document = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "status": status or {}}
    return {**document, "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec}}


def job(name, done="", at="2026-01-01T11:00:00Z"):
    conditions = [{"type": done, "status": "True", "lastTransitionTime": at}] if done else []
    status = {"conditions": conditions, **({"completionTime": at} if done == "Complete" else {})}
    return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {}, "status": status}


def told(plan):
    words = [f"+{w.document['metadata']['name']}" for w in plan.create] + [f"-{w.key.name}" for w in plan.delete]
    return " ".join(
        words + [event.reason for event in plan.events if event.reason not in ("SuccessfulCreate", "SuccessfulDelete")]
    )


MINUTE = int(NOON.timestamp()) // 60
PASSES = {
    "a due job is made": (cron(), [], f"+c-{MINUTE}"),
    "and not twice": (cron(status={"lastScheduleTime": stamp(NOON.replace(second=0))}), [], ""),
    "a suspended schedule starts nothing": (cron(suspend=True), [], ""),
    "too late is too late": (cron(startingDeadlineSeconds=10), [], ""),
    "no overlap where it is forbidden": (cron(concurrencyPolicy="Forbid"), [job("old")], "JobAlreadyActive"),
    "the new replaces the old": (cron(concurrencyPolicy="Replace"), [job("old")], f"+c-{MINUTE} -old"),
    "nor does it replace itself after a death": (
        cron(concurrencyPolicy="Replace"),
        [job(f"c-{MINUTE}")],
        f"+c-{MINUTE}",
    ),
    "a few old jobs are kept": (
        cron(suspend=True, successfulJobsHistoryLimit=1),
        [job("a", "Complete"), job("b", "Complete"), job("c", "Failed")],
        "-a",
    ),
    "an end is seen": (
        cron(suspend=True, status={"active": [{"uid": "a", "name": "a"}]}),
        [job("a", "Complete")],
        "SawCompletedJob",
    ),
    "a loss is told": (cron(suspend=True, status={"active": [{"uid": "a", "name": "a"}]}), [], "MissingJob"),
    "a day that never comes is told": (cron(schedule="0 0 31 2 *"), [], "InvalidSchedule"),
    "many missed moments are told, and the last one made up for": (
        cron(created=NOON - timedelta(days=1)),
        [],
        f"+c-{MINUTE} TooManyMissedTimes",
    ),
    "what we remove ourselves is not missed": (
        cron(suspend=True, successfulJobsHistoryLimit=0, status={"active": [{"uid": "a", "name": "a"}]}),
        [job("a", "Complete")],
        "-a",
    ),
    "a bad schedule is told": (cron(schedule="x"), [], "UnparseableSchedule"),
    "a bad zone is told": (cron(timeZone="Mars/Olympus"), [], "UnknownTimeZone"),
}


@pytest.mark.parametrize(("document", "jobs", "want"), PASSES.values(), ids=PASSES)
def test_a_cronjob_starts_jobs(document, jobs, want):
    assert told(cronjob.decide(document, jobs, NOON)) == want


def test_the_status_lists_jobs_at_work_and_the_last_success():
    plan = cronjob.decide(cron(suspend=True), [job("a"), job("b", "Complete")], NOON)
    status = plan.status[0].document["status"]
    assert [entry["name"] for entry in status["active"]] == ["a"]
    assert status["lastSuccessfulTime"] == "2026-01-01T11:00:00Z"


def test_what_is_replaced_leaves_the_list_at_once():
    status = {"active": [{"uid": "old", "name": "old"}]}
    plan = cronjob.decide(cron(concurrencyPolicy="Replace", status=status), [job("old")], NOON)
    assert "active" not in plan.status[0].document["status"]


SPRING, AUTUMN = datetime(2026, 3, 8, 0, tzinfo=UTC), datetime(2026, 11, 1, 0, tzinfo=UTC)
DST = {
    #                             schedule      from     the next three, all in UTC
    "an hour that is skipped":   ("30 2 * * *", SPRING,  "03-09T06:30 03-10T06:30 03-11T06:30"),
    "an hour that comes twice":  ("30 1 * * *", AUTUMN,  "11-01T05:30 11-01T06:30 11-02T06:30"),
    "hours on both sides of it": ("0 1-4 * * *", SPRING, "03-08T06:00 03-08T07:00 03-08T08:00"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "moment", "want"), DST.values(), ids=DST)
def test_clocks_that_are_set(text, moment, want):
    schedule, found = parse(text, "America/New_York"), []
    for _ in range(3):
        moment = schedule.next(moment)
        found.append(moment.strftime("%m-%dT%H:%M"))
    assert " ".join(found) == want
