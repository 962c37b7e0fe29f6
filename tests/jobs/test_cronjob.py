"""Cron schedules and the Jobs they start."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.api.documents import Key
from allaboard.api.kinds import CRON_JOB
from allaboard.api.meta import stamp
from allaboard.jobs import cronjob
from allaboard.jobs.controller import CronJobController
from allaboard.jobs.schedule import BadSchedule, missed_since, parse
from allaboard.kube.plan import Plan

from .world import World, finished

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
    "a step over days is no star": ("0 0 */2 * SUN", "2026-01-03 00:00"),
    "a step of one is": ("0 0 */1 * SUN", "2026-01-04 00:00"),
    "nothing between two commas": ("0 0 3,,4 * *", "2026-01-03 00:00"),
    "a second at least": ("@every -1m", "2026-01-01 12:00"),
    "by halves": ("@every 1.5h", "2026-01-01 13:30"),
    "leap day": ("0 0 29 2 *", "2028-02-29 00:00"),
}


@pytest.mark.parametrize(("text", "want"), NEXT.values(), ids=NEXT)
def test_the_next_moment(text, want):
    assert parse(text).next(NOON).strftime("%Y-%m-%d %H:%M") == want


MISSED = {
    #                                schedule             since, before noon     the latest       how many
    "days are not counted one by one": ("0 0 * * *",      timedelta(days=900),   "2026-01-01 00:00", 900),
    "none has passed":                 ("0 13 * * *",     timedelta(hours=3),    None,               0),
    "one has passed":                  ("0 12 * * *",     timedelta(hours=3),    "2026-01-01 12:00", 0),
    "by the time between":             ("@every 90m",     timedelta(hours=4),    "2026-01-01 11:00", 2),
    "uneven times between":            ("0 6,11 * * *",   timedelta(days=1),     "2026-01-01 11:00", 2),
    "so uneven that it is overlooked": ("0 6-9 1 12 *",   timedelta(days=90),    None,               751),
}  # fmt: skip


@pytest.mark.parametrize(("text", "since", "latest", "number"), MISSED.values(), ids=MISSED)
def test_moments_that_passed(text, since, latest, number):
    missed = missed_since(parse(text), NOON - since, NOON)
    assert (missed.latest and missed.latest.strftime("%Y-%m-%d %H:%M"), missed.number) == (latest, number)


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


def job(name, done="", at="2026-01-01T11:00:00Z", start=None):
    conditions = [{"type": done, "status": "True", "lastTransitionTime": at}] if done else []
    status = {"conditions": conditions, "startTime": start, **({"completionTime": at} if done == "Complete" else {})}
    return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {}, "status": status}


def told(plan):
    words = [f"+{w.document['metadata']['name']}" for w in plan.create] + [f"-{w.key.name}" for w in plan.delete]
    return " ".join(
        words + [event.reason for event in plan.events if event.reason not in ("SuccessfulCreate", "SuccessfulDelete")]
    )


def at_work(*names, **spec):
    """A CronJob that lists these Jobs."""
    return cron(status={"active": [{"uid": name, "name": name} for name in names]}, **spec)


MINUTE = int(NOON.timestamp()) // 60
MINUTELY, LATEST = f"c-{MINUTE}", {"lastScheduleTime": stamp(NOON.replace(second=0))}
PASSES = {
    "a due job is made": (cron(), [], f"+{MINUTELY}"),
    "and not twice": (cron(status=LATEST), [], ""),
    "a suspended schedule starts nothing": (cron(suspend=True), [], ""),
    "too late is too late": (cron(startingDeadlineSeconds=10), [], ""),
    "no overlap where it is forbidden": (at_work("old", concurrencyPolicy="Forbid"), [job("old")], "JobAlreadyActive"),
    "a job of somebody else's does not forbid": (
        cron(concurrencyPolicy="Forbid"),
        [job("x")],
        f"+{MINUTELY} UnexpectedJob",
    ),
    "the new replaces the old": (at_work("old", concurrencyPolicy="Replace"), [job("old")], f"+{MINUTELY} -old"),
    "the new replaces nothing of somebody else's": (
        cron(concurrencyPolicy="Replace"),
        [job("x")],
        f"+{MINUTELY} UnexpectedJob",
    ),
    "nor does it replace itself after a death": (
        cron(concurrencyPolicy="Replace"),
        [job(MINUTELY)],
        "UnexpectedJob",
    ),
    "a job that is listed is not made again": (at_work(MINUTELY), [job(MINUTELY)], ""),
    "a few old jobs are kept": (
        cron(suspend=True, successfulJobsHistoryLimit=1),
        [job("a", "Complete"), job("b", "Complete"), job("c", "Failed")],
        "-a",
    ),
    "of old jobs those that began last are kept, however they ended": (
        cron(suspend=True, successfulJobsHistoryLimit=1),
        [job("a", "Complete", start="2026-01-01T10:00:00Z"), job("b", "Complete", start="2026-01-01T09:00:00Z")],
        "-b",
    ),
    "an end is seen": (at_work("a", suspend=True), [job("a", "Complete")], "SawCompletedJob"),
    "a loss is told": (at_work("a", suspend=True), [], "MissingJob"),
    "a day that never comes is told": (cron(schedule="0 0 31 2 *"), [], "InvalidSchedule"),
    "many missed moments are told, and the last one made up for": (
        cron(created=NOON - timedelta(days=1)),
        [],
        f"+{MINUTELY} TooManyMissedTimes",
    ),
    "what we remove ourselves is not missed": (
        at_work("a", suspend=True, successfulJobsHistoryLimit=0),
        [job("a", "Complete")],
        "-a",
    ),
    "a bad schedule is told": (cron(schedule="x"), [], "UnparseableSchedule"),
    "a bad zone is told": (cron(timeZone="Mars/Olympus"), [], "UnknownTimeZone"),
    "a bad zone is told of a suspended schedule, too": (
        cron(timeZone="Mars/Olympus", suspend=True),
        [],
        "UnknownTimeZone",
    ),
}


@pytest.mark.parametrize(("document", "jobs", "want"), PASSES.values(), ids=PASSES)
def test_a_cronjob_starts_jobs(document, jobs, want):
    assert told(cronjob.decide(document, jobs, NOON)) == want


def status_after(document, *jobs, others=()):
    (write,) = cronjob.decide(document, jobs, NOON, others).status
    status = write.document["status"]
    return " ".join(entry["name"] for entry in status.get("active", ())), status


def test_the_status_lists_the_job_that_was_made_and_the_last_success():
    listed, status = status_after(cron(suspend=True, status=LATEST), job(MINUTELY), job("x"), job("b", "Complete"))
    assert (listed, status["lastSuccessfulTime"]) == (MINUTELY, "2026-01-01T11:00:00Z")


def test_what_is_replaced_leaves_the_list_at_once():
    assert status_after(at_work("old", concurrencyPolicy="Replace"), job("old"))[0] == ""


def test_a_job_of_this_moment_that_is_there_already_is_listed_and_not_told():
    listed, status = status_after(cron(), job(MINUTELY, "Complete"))
    assert (listed, status["lastScheduleTime"]) == (MINUTELY, LATEST["lastScheduleTime"])
    assert told(cronjob.decide(cron(), [job(MINUTELY, "Complete")], NOON)) == ""


def test_a_name_that_is_taken_is_left_to_who_took_it():
    plan = cronjob.decide(cron(), [], NOON, {MINUTELY})
    assert (told(plan), plan.status, plan.again) == ("", (), NOON + timedelta(seconds=30, milliseconds=100))


def test_a_job_that_was_taken_away_is_still_at_work():
    plan = cronjob.decide(at_work("a", concurrencyPolicy="Forbid"), [], NOON, {"a"})
    assert (told(plan), plan.status) == ("JobAlreadyActive", ())


ZONES = {
    "no zone is UTC": (None, "2026-01-01T12:00:00Z"),
    "another name of UTC": ("Etc/UTC", "2026-01-01T12:00:00Z"),
    "an offset is told": ("Asia/Tokyo", "2026-01-01T21:00:00+09:00"),
    "none in winter": ("Europe/London", "2026-01-01T12:00:00Z"),
}


@pytest.mark.parametrize(("zone", "want"), ZONES.values(), ids=ZONES)
def test_a_job_says_for_which_moment_it_is(zone, want):
    made = cronjob.job_of(cron(timeZone=zone), NOON.replace(second=0))
    assert made["metadata"]["annotations"] == {cronjob.SCHEDULED: want}


AGAIN = {
    #                                                schedule       last start          the next look, after noon
    "at the next minute":                           ("* * * * *",   timedelta(minutes=2), timedelta(seconds=30)),
    "so long after the last, whenever one looks":   ("@every 10m",  timedelta(minutes=7), timedelta(minutes=3)),
    "also where one was missed":                    ("@every 10m",  timedelta(minutes=17), timedelta(minutes=3)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "last", "want"), AGAIN.values(), ids=AGAIN)
def test_when_a_schedule_is_looked_at_again(text, last, want):
    document = cron(schedule=text, status={"lastScheduleTime": stamp(NOON - last)})
    for plan in (cronjob.decide(document, [], NOON), cronjob.later(document, NOON)):
        assert plan.again == NOON + want + timedelta(milliseconds=100)


def test_another_schedule_starts_nothing_that_it_would_have_missed():
    world, old, new = World(), cron(schedule="@yearly"), cron()
    world.time = NOON
    world.put(CRON_JOB, new)
    controller, poked = CronJobController(world, world), {**new, "metadata": {**new["metadata"], "labels": {"a": "b"}}}

    def after(*changes):
        for before, now in changes:
            controller.observe(CRON_JOB, before, now)
        return finished(controller.reconcile(Key("ns", "c")))

    assert after((old, new)) == Plan(again=NOON + timedelta(seconds=30, milliseconds=100))
    assert told(after((new, poked))) == f"+{MINUTELY}"
    assert told(after((old, new), (new, poked))) == f"+{MINUTELY}", "something else changed, too"


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
