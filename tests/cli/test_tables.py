"""The tables of `aboard queue`, `aboard top` and `aboard events`."""

from datetime import UTC, datetime

from allaboard.api.documents import Key
from allaboard.cli.events import line_of
from allaboard.cli.queue import row
from allaboard.cli.top import job_row, node_row
from allaboard.sdk.jobs import Job
from allaboard.sdk.queues import Branch
from allaboard.sdk.usage import Usage


def test_a_branch_shows_its_place_and_its_bar():
    org, nlp, vision = (
        Branch("org", 0, 96.0, -1.0, 96.0, 48.0, 0.0, 3),
        Branch("nlp", 1, 32.0, 64.0, 40.0, 40.0, 0.0, 2),
        Branch("vision", 1, 32.0, -1.0, None, 8.0, 0.0, 1),
    )
    assert row(org, [nlp, vision], 96.0) == [
        "org",
        "96",
        "–",
        "96",
        "48",
        "█" * 12 + "░" * 12,
        "3",
        "48 of its own unused",
    ]
    assert row(nlp, [vision], 96.0)[:6] == ["├ nlp", "32", "64", "40", "40", "█" * 10]
    assert row(vision, [], 96.0)[:4] == ["└ vision", "32", "–", "–"]


def pod(name, node="n", cpu="500m"):
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": "1"}}}]
    return {"metadata": {"name": name, "namespace": "d"}, "spec": {"nodeName": node, "containers": containers}}


USED = {Key("d", "a"): Usage(0.25, 2**30), Key("d", "b"): Usage(0.5, 2**30)}


def test_a_node_shows_what_was_asked_of_it_and_what_its_pods_use():
    offers = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}
    ready = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"name": "n"}, "status": {"allocatable": offers, "conditions": ready}}
    pods = [pod("a"), pod("b"), pod("c", "other")]
    assert node_row(node, pods, USED) == ["n", "yes", "2", "2/4", "1/8", "0.75", "2/32 Gi", "2.00 Gi"]
    assert node_row(node, pods, {})[5:] == ["–", "2/32 Gi", "–"]


def test_a_job_shows_the_same_of_its_pods():
    job = Job({"metadata": {"name": "j"}, "spec": {}}, [pod("a"), pod("b")])
    assert job_row(job, USED) == ["j", "Starting", "2/2", "2", "1", "0.75", "2 Gi", "2.00 Gi"]


def test_an_event_is_one_line():
    event = {
        "type": "Warning",
        "reason": "NeverFits",
        "message": "two\n lines",
        "count": 3,
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "TrainJob", "name": "j"},
    }
    now = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert line_of(event, now) == ["5.0 s (x3)", "Warning", "NeverFits", "trainjob/j", "two lines"]
