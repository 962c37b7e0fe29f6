"""Many similar events become one, and what is said too often of an object is not said."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from allaboard.kube import correlation
from allaboard.kube.correlation import Correlator
from allaboard.kube.events import Recorder
from allaboard.kube.plan import Create, Event, Patch

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns", "uid": "1"}}
MADE, FAILED = ("1", "Normal", "SuccessfulCreate"), ("1", "Warning", "FailedCreate")


def said(recorder, *messages, seconds=0, **words):
    """What becomes of events with these messages: `+` made, `=` counted, `.` not told; and the last write."""
    marks, write = {Create: "+", Patch: "=", type(None): "."}, None
    told = ""
    for message in messages:
        write = recorder.write(Event(JOB, "Made", message, **words), NOW + timedelta(seconds=seconds))
        told += marks[type(write)]
    return told, write


def recorder():
    return Recorder("job-controller", lambda: "x")


def pods(count, first=0):
    return [f"Created pod: j-{number}" for number in range(first, first + count)]


def test_nine_of_a_kind_are_told_each_and_the_tenth_stands_for_all_that_follow():
    job = recorder()
    assert said(job, *pods(9))[0] == "+" * 9
    told, write = said(job, *pods(1, 9))
    assert told == "+" and write.document["message"] == "(combined from similar events): Created pod: j-9"
    told, write = said(job, *pods(1, 10), seconds=1)
    assert told == "="
    assert write.body["message"] == "(combined from similar events): Created pod: j-10"
    assert (write.body["count"], write.body["lastTimestamp"]) == (2, "2026-01-02T03:04:06Z")


def test_the_same_words_are_one_however_often():
    assert said(recorder(), *["Created pod: j-0"] * 25)[0] == "+" + "=" * 24


def test_another_reason_is_another_kind():
    correlator = Correlator()
    assert [correlator.is_one_of_many(MADE, message, NOW) for message in pods(10)] == [False] * 9 + [True]
    assert not correlator.is_one_of_many(FAILED, "m", NOW)


def test_after_ten_quiet_minutes_each_is_told_again():
    job = recorder()
    said(job, *pods(10))
    assert said(job, *pods(1, 20), seconds=600)[1].body["count"] == 2
    told, write = said(job, *pods(1, 30), seconds=1201)
    assert told == "+" and write.document["message"] == "Created pod: j-30"


def test_of_one_object_25_events_are_told_and_then_one_every_five_minutes():
    job = recorder()
    assert said(job, *pods(30))[0] == "+" * 10 + "=" * 15 + "." * 5
    assert said(job, *pods(2, 40), seconds=299)[0] == ".."
    assert said(job, *pods(2, 50), seconds=300)[0] == "=."
    assert said(job, "m", seconds=301, type="Warning")[0] == "+", "warnings have a budget of their own"


def test_what_was_not_told_counts_when_it_is():
    job = recorder()
    said(job, *pods(1) * 25)
    assert said(job, "m", "m", "m")[0] == "..."
    assert said(job, "m", seconds=100000)[1].document["count"] == 4


def test_what_is_told_by_the_newer_kind_of_event_is_always_told():
    assert said(recorder(), *pods(40), action="Reconciling")[0] == "+" * 40


def test_a_combined_event_that_expired_is_told_afresh():
    job = recorder()
    said(job, *pods(11))
    job.forget(Event(JOB, "Made", "Created pod: j-10"))
    assert said(job, *pods(1, 12))[0] == "+"


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 900)), max_size=200))
def test_no_more_is_told_than_may_be(events):
    """Told plainly: 25 at once, one more for every five minutes since; never ten messages of a kind are kept."""
    correlator, now, told = Correlator(), NOW, []
    for message, seconds in events:
        now += timedelta(seconds=seconds)
        correlator.is_one_of_many(MADE, str(message), now)
        if not correlator.is_too_much(MADE, now):
            told.append(now)
    for first, start in enumerate(told):
        for last, end in enumerate(told[first:], 1):
            assert last <= correlation.BURST + (end - start) / correlation.REFILL + 1e-6


def test_what_is_remembered_is_bounded():
    job = recorder()
    for number in range(correlation.REMEMBERED + 100):
        about = {**JOB, "metadata": {**JOB["metadata"], "uid": str(number)}}
        job.write(Event(about, "Made", "m"), NOW)
    tables = (job._said, job._correlator._alike, job._correlator._budgets)
    assert [len(table) for table in tables] == [correlation.REMEMBERED] * 3
