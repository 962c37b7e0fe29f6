"""The same words about the same object only raise a count."""

from datetime import UTC, datetime, timedelta

from allaboard.kube.events import LONGEST_MESSAGE, Recorder
from allaboard.kube.plan import Create, Event, Patch

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "1"}}


def test_an_event_is_created_once_and_counted_after():
    recorder = Recorder("trainer", lambda: "x")
    first = recorder.write(Event(POD, "Started", "it runs"), NOW)
    again = recorder.write(Event(POD, "Started", "it runs"), NOW + timedelta(seconds=1))
    assert isinstance(first, Create) and first.document["count"] == 1
    assert first.document["firstTimestamp"] == first.document["lastTimestamp"] == "2026-01-02T03:04:05Z"
    assert isinstance(again, Patch) and again.body == {"count": 2, "lastTimestamp": "2026-01-02T03:04:06Z"}


def test_an_expired_event_is_said_afresh():
    recorder = Recorder("trainer", lambda: "x")
    event = Event(POD, "Started", "it runs")
    recorder.write(event, NOW)
    recorder.forget(event)
    assert isinstance(recorder.write(event, NOW), Create)


def test_a_long_message_is_cut_where_the_api_would_refuse_it():
    write = Recorder("trainer", lambda: "x").write(Event(POD, "Failed", "x" * 5000), NOW)
    assert len(write.document["message"]) == LONGEST_MESSAGE


def test_an_event_about_a_cluster_object_lives_in_default():
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "2"}}
    assert (
        Recorder("x", lambda: "x").write(Event(node, "Ready", "m"), NOW).document["metadata"]["namespace"] == "default"
    )
