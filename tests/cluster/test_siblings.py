"""Documents of one batch: each becomes what it would have become alone, however much it is like the one before."""

import asyncio
import copy
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allaboard.api import crds, kinds
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind
from allaboard.api.labels import COMPLETION_INDEX
from allaboard.cluster.admitters import ADMISSION
from allaboard.cluster.siblings import Siblings
from allaboard.jobs.placement import PodDefaults, PodRules
from tests.cluster.plane import Plane, plain

Change = Callable[[dict[str, Any]], None]
UID = "00000000-0000-4000-8000-00000000000"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": f"{UID}1", "controller": True}


def pod(index: int) -> dict[str, Any]:
    metadata = {
        "generateName": f"j-{index}-",
        "labels": {"app": "j", COMPLETION_INDEX: str(index), "jobset.sigs.k8s.io/jobset-name": "s"},
        "annotations": {COMPLETION_INDEX: str(index), "note": "n"},
        "finalizers": ["batch.kubernetes.io/job-tracking"],
        "ownerReferences": [JOB],
    }
    container = {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]}
    spec = {"hostname": f"j-{index}", "subdomain": "j", "restartPolicy": "Never", "containers": [container]}
    return plain("v1", "Pod", f"j-{index}-x", "default", metadata=metadata, spec=spec)


def event(index: int) -> dict[str, Any]:
    about = {"apiVersion": "v1", "kind": "Pod", "name": f"p-{index}", "uid": f"{UID}{index}", "namespace": "default"}
    words = {"reason": "Created", "message": f"made p-{index}", "type": "Normal", "count": 1}
    times = {"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}
    return plain("v1", "Event", f"p-{index}.abc", "default", involvedObject=about, source={}, **words, **times)


def request(index: int) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": f"p-{index}", "uid": f"{UID}{index}"}
    metadata = {"labels": {"selected-node": f"n-{index}"}, "annotations": {"g": "g"}, "ownerReferences": [owner]}
    gpu = {"count": 1, "portion": "1.00"}
    spec = {
        "podName": f"p-{index}",
        "selectedNode": f"n-{index}",
        "receivedResourceType": "Regular",
        "receivedGPU": gpu,
    }
    return plain(kinds.BIND_REQUEST.api_version, "BindRequest", f"p-{index}", "default", metadata=metadata, spec=spec)


FAMILIES = {"pods": (kinds.POD, pod), "events": (kinds.EVENT, event), "requests": (kinds.BIND_REQUEST, request)}


async def furnished() -> Plane:
    plane = await Plane((*ADMISSION, PodDefaults(), PodRules())).furnish()
    definition = next(crd for crd in crds.documents() if crd["spec"]["names"]["kind"] == "BindRequest")
    await plane.client.apply(kinds.CRD, definition, manager="t")
    return plane


async def together(kind: Kind, documents: list[dict[str, Any]]) -> list[object]:
    answers = await (await furnished()).client.many([(kind, document) for document in documents], manager="t")
    return [answer if isinstance(answer, dict) else str(answer) for answer in answers or ()]


async def alone(kind: Kind, documents: list[dict[str, Any]]) -> list[object]:
    plane, answers = await furnished(), list[object]()
    for document in documents:
        try:
            answers.append(await plane.client.create(kind, document, manager="t"))
        except ApiError as error:
            answers.append(str(error))
    return answers


def told(answers: list[object]) -> list[str]:
    """What was answered, without what the server draws by lot; the order of fields counts."""
    texts = [msgspec.json.encode(answer).decode() for answer in answers]
    lots = r'"uid":"00000000-0000-4000-8000-0000000[^"]*","resourceVersion":"\d+"|"resourceVersion":"\d+"'
    return [re.sub(r"kube-api-access-\w+", "token", re.sub(lots, "", text)) for text in texts]


def check(kind: Kind, documents: list[dict[str, Any]]) -> None:
    assert told(asyncio.run(together(kind, documents))) == told(asyncio.run(alone(kind, documents)))


@pytest.mark.parametrize(("kind", "make"), FAMILIES.values(), ids=FAMILIES)
def test_siblings_become_what_they_would_have_become_alone(kind, make):
    check(kind, [make(index) for index in range(1, 5)])


@pytest.mark.parametrize(("kind", "make"), FAMILIES.values(), ids=FAMILIES)
def test_only_the_first_of_a_family_goes_the_long_way(kind, make, monkeypatch):
    found = list[bool]()
    ask = Siblings.like_the_last

    def counted(self, *args):
        answer = ask(self, *args)
        found.append(answer is not None)
        return answer

    monkeypatch.setattr(Siblings, "like_the_last", counted)
    asyncio.run(together(kind, [make(index) for index in range(1, 5)]))
    assert found == [False, True, True, True]


def put(*path: str, value: object) -> Change:
    def change(document: dict[str, Any]) -> None:
        for step in path[:-1]:
            document = document.setdefault(step, {}) if isinstance(document, dict) else document[int(step)]
        document[path[-1]] = value

    return change


def drop(*path: str) -> Change:
    def change(document: dict[str, Any]) -> None:
        for step in path[:-1]:
            document = document.get(step) or {}
        document.pop(path[-1], None)

    return change


CHANGES: dict[str, Change] = {
    "the same name again": put("metadata", "name", value="j-1-x"),
    "a name that is none": put("metadata", "name", value="No Name"),
    "no name": drop("metadata", "name"),
    "an empty name": put("metadata", "name", value=""),
    "a prefix that is none": put("metadata", "generateName", value="NO-"),
    "a label that is none": put("metadata", "labels", COMPLETION_INDEX, value="no label!"),
    "an empty label": put("metadata", "labels", COMPLETION_INDEX, value=""),
    "another label": put("metadata", "labels", "app", value="k"),
    "one more label": put("metadata", "labels", "more", value="m"),
    "no labels": drop("metadata", "labels"),
    "a long annotation": put("metadata", "annotations", COMPLETION_INDEX, value="x" * 2**18),
    "an annotation that counts": put(
        "metadata", "annotations", "alpha.jobset.sigs.k8s.io/exclusive-topology", value="z"
    ),
    "another namespace": put("metadata", "namespace", value="elsewhere"),
    "another owner": put("metadata", "ownerReferences", value=[JOB | {"uid": "u-2", "name": "k"}]),
    "an owner without a uid": put("metadata", "ownerReferences", value=[JOB | {"uid": ""}]),
    "an owner with a strange uid": put("metadata", "ownerReferences", value=[JOB | {"uid": 'a"b'}]),
    "two owners": put("metadata", "ownerReferences", value=[JOB, JOB | {"uid": "u-2", "controller": False}]),
    "no owner": drop("metadata", "ownerReferences"),
    "a host name that is none": put("spec", "hostname", value="No_Host"),
    "an empty host name": put("spec", "hostname", value=""),
    "a number for a host name": put("spec", "hostname", value=7),
    "another variable": put("spec", "containers", value=[{"name": "c", "image": "i", "env": [{"name": "B"}]}]),
    "another image": put("spec", "containers", value=[{"name": "c", "image": "other"}]),
    "a node": put("spec", "selectedNode", value="n-9"),
    "a list for a node": put("spec", "selectedNode", value=["n"]),
    "an unknown field": put("spec", "unknown", value=1),
    "a long message": put("message", value="m" * 5000),
    "no message": put("message", value=""),
    "an event about another namespace": put("involvedObject", "namespace", value="elsewhere"),
    "a moment": put("eventTime", value="2026-01-01T00:00:00.000000Z"),
    "a moment that is none": put("firstTimestamp", value="yesterday"),
}


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(list(FAMILIES)),
    st.lists(st.lists(st.sampled_from(list(CHANGES)), max_size=2), min_size=2, max_size=4),
)
def test_whatever_is_different_is_judged_as_if_it_came_alone(family, batch):
    kind, make = FAMILIES[family]
    documents = []
    for index, changes in enumerate(batch, 1):
        document = copy.deepcopy(make(index))
        for change in changes:
            CHANGES[change](document)
        documents.append(document)
    check(kind, documents)


def test_followers_are_not_made_like_their_leader():
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "zone"}
    documents = [pod(index) for index in range(3)]
    for document in documents:
        document["metadata"]["annotations"] |= exclusive
    check(kinds.POD, documents)


def test_a_hook_that_does_not_say_so_is_asked_about_each():
    class Counting:
        name, kinds, operations = "counting", (kinds.POD,), ("CREATE",)
        asked = 0

        def mutate(self, request, view):
            self.asked += 1

    async def story():
        hook = Counting()
        plane = await Plane((*ADMISSION, hook)).furnish()
        await plane.client.many([(kinds.POD, pod(index)) for index in range(3)], manager="t")
        return hook.asked

    assert asyncio.run(story()) == 3


def test_webhooks_are_asked_about_each_document_of_a_group():
    class Outside:
        asked = 0

        def are_there(self):
            return True

        async def mutate(self, request, rounds):
            self.asked += 1
            return request.new

        async def validate(self, request):
            pass

    async def story():
        plane = await furnished()
        plane.cluster.chain.webhooks = webhooks = Outside()
        await plane.client.together([request(index) for index in range(1, 5)], manager="t")
        return webhooks.asked

    assert asyncio.run(story()) == 4
