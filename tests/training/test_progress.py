"""Progress reports: who may send one, what is taken from it, and the answers."""

import asyncio
import json

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import Invalid, NotFound
from allaboard.training import reports
from allaboard.training.progress import ProgressDoor, Report

URL = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/run/status"
AUDIENCE = URL.removeprefix("/apis/")
BODY = json.dumps(
    {"trainerStatus": {"progressPercentage": 40, "lastUpdatedTime": "2026-01-01T00:00:00Z"}, "x": 1}
).encode()


class Outside:
    """The API server as a door sees it: pods, token reviews and what was applied."""

    def __init__(self, *, owner="run", uid="pod-uid", error=None):
        labels = {"jobset.sigs.k8s.io/jobset-name": owner}
        self.pod = {"metadata": {"name": "run-node-0-0-x", "namespace": "team-a", "uid": uid, "labels": labels}}
        self.applied, self.error = [], error

    async def get(self, kind, key):
        return self.pod if (kind, key) == (kinds.POD, Key("team-a", "run-node-0-0-x")) else None

    async def apply(self, kind, document, *, manager, force=True, subresource=""):
        if self.error:
            raise self.error
        self.applied.append((manager, subresource, document["status"]))

    async def review(self, token, audience):
        extra = {reports.POD_NAME: ["run-node-0-0-x"], reports.POD_UID: ["pod-uid"]}
        user = {"username": "system:serviceaccount:team-a:default", "extra": extra}
        return {"status": {"authenticated": (token, audience) == ("good", AUDIENCE), "user": user}}


def take(outside, *, method="POST", path=URL, token="Bearer good", body=BODY, length=None):
    door = ProgressDoor(outside, outside, outside.review)
    report = Report(method, path, token, len(body) if length is None else length, body)
    return asyncio.run(door.take(report))


def test_a_report_of_the_jobs_own_pod_is_taken_whole_and_echoed():
    outside = Outside()
    code, answer = take(outside)
    assert (code, answer) == (200, {"trainerStatus": json.loads(BODY)["trainerStatus"]})
    assert outside.applied == [("trainer-status", "status", answer)]


def test_a_report_without_a_status_writes_nothing():
    outside = Outside()
    assert take(outside, body=b"{}") == (200, {})
    assert outside.applied == []


REFUSED = {
    "no token": ({"token": ""}, 403, "Forbidden"),
    "two tokens": ({"token": "Bearer a b"}, 403, "Forbidden"),
    "a token for another job": ({"path": URL.replace("run", "other")}, 403, "Forbidden"),
    "no JSON": ({"body": b"words"}, 422, "Invalid payload"),
    "no object": ({"body": b"[]"}, 422, "Invalid payload"),
    "too large, as stated": ({"length": 65_537}, 413, "Payload too large"),
    "too large, unstated": ({"body": b"x" * 65_537, "length": 0}, 422, "Invalid payload"),
    "another path": ({"path": "/apis"}, 404, "Not found"),
    "another method": ({"method": "GET"}, 404, "Not found"),
}


@pytest.mark.parametrize(("request_", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(request_, code, words):
    outside = Outside()
    found, answer = take(outside, **request_)
    assert (found, answer["code"], answer["message"], answer["status"]) == (code, code, words, "Failure")
    assert outside.applied == []


STRANGERS = {"a pod of another job": Outside(owner="other"), "a pod that was replaced": Outside(uid="later")}


@pytest.mark.parametrize("outside", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_in_the_namespace_may_not_report(outside):
    assert take(outside)[0] == 403


ERRORS = {
    "no such job": (NotFound("trainjobs.trainer.kubeflow.org not found"), 404, "Train job not found"),
    "a wrong value": (
        Invalid("progressPercentage: must be at most 100"),
        422,
        "progressPercentage: must be at most 100",
    ),
}


@pytest.mark.parametrize(("error", "code", "words"), ERRORS.values(), ids=ERRORS)
def test_what_the_server_refuses_is_passed_on(error, code, words):
    found, answer = take(Outside(error=error))
    assert (found, answer["message"]) == (code, words)


def test_trouble_inside_is_a_500_and_the_door_stays_open():
    outside = Outside(error=RuntimeError("boom"))
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": BODY, "more_body": False}

    headers = [(b"authorization", b"Bearer good"), (b"content-length", str(len(BODY)).encode())]
    scope = {"type": "http", "method": "POST", "path": URL, "headers": headers}
    asyncio.run(ProgressDoor(outside, outside, outside.review)(scope, receive, send))
    assert [message.get("status") for message in sent] == [500, None]


def test_a_body_without_a_length_is_read_no_further_than_the_limit():
    outside, sent, asked = Outside(), [], []

    async def send(message):
        sent.append(message)

    async def receive():
        asked.append(1)
        return {"type": "http.request", "body": b"x" * 40_000, "more_body": True}

    scope = {"type": "http", "method": "POST", "path": URL, "headers": [(b"authorization", b"Bearer good")]}
    asyncio.run(ProgressDoor(outside, outside, outside.review)(scope, receive, send))
    assert (sent[0]["status"], len(asked)) == (422, 2)
