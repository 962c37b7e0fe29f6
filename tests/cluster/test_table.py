"""Tables: columns and rows, ages, and the paths of printer columns."""

from datetime import UTC, datetime, timedelta

import pytest

from allaboard.api import crds, kinds
from allaboard.cluster import ages
from allaboard.cluster.jsonpath import find
from allaboard.cluster.kinds import BUILTIN, rules_for
from allaboard.cluster.rules import from_crd
from allaboard.cluster.table import columns_of, table
from tests.cluster.judging import document, stored

NOW = datetime(2024, 1, 1, 1, tzinfo=UTC)

SPANS = {
    "0s": 0.4,
    "59s": 59,
    "119s": 119,
    "2m": 120,
    "3m20s": 200,
    "10m": 600,
    "179m": 10799,
    "3h": 10800,
    "4h10m": 15000,
    "8h": 28800,
    "47h": 172799,
    "2d": 172800,
    "2d4h": 187200,
    "8d": 691200,
    "729d": 63072000 - 1,
    "2y": 63072000,
    "<invalid>": -5,
}


@pytest.mark.parametrize(("want", "seconds"), SPANS.items(), ids=SPANS)
def test_spans_of_time(want, seconds):
    assert ages.span(seconds) == want


def test_no_time_is_unknown():
    assert ages.age(None, NOW) == "<unknown>"


THING = {
    "spec": {"a": 1, "with.dot": "d", "list": [1, 2, 3]},
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]},
}
PATHS = {
    "a field": (".spec.a", [1]),
    "in braces": ("{.spec.a}", [1]),
    "the last item": (".status.conditions[-1:].type", ["B"]),
    "an index": (".spec.list[1]", [2]),
    "all items": (".spec.list[*]", [1, 2, 3]),
    "by equality": ('.status.conditions[?(@.type=="B")].status', ["True"]),
    "by inequality": (".status.conditions[?(@.type!='B')].status", ["False"]),
    "a quoted name": (".spec['with.dot']", ["d"]),
    "an escaped name": (r".spec.with\.dot", ["d"]),
    "deep down": ("..type", ["A", "B"]),
    "nowhere": (".spec.b.c", []),
    "past the end": (".spec.list[9]", []),
    "no path at all": ("spec.a[", []),
}


@pytest.mark.parametrize(("path", "want"), PATHS.values(), ids=PATHS)
def test_the_paths_of_columns(path, want):
    assert find(path, THING) == want


def row(kind, sent):
    made = stored(kind, sent)
    return table(rules_for(kind), [made], NOW)["rows"][0]["cells"]


POD = {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]}
RUNNING = {"ready": True, "restartCount": 0, "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}}
PODS = {
    "waiting": ({"phase": "Pending"}, ["0/2", "Pending", "0"]),
    "half ready": (
        {
            "phase": "Running",
            "containerStatuses": [
                {"name": "a", **RUNNING},
                {"name": "b", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            ],
        },
        ["1/2", "ImagePullBackOff", "0"],
    ),
    "failed": (
        {"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]},
        ["0/2", "ExitCode:3", "0"],
    ),
    "restarted": (
        {
            "phase": "Running",
            "containerStatuses": [
                {"name": "a", **RUNNING, "restartCount": 2}
                | {"lastState": {"terminated": {"finishedAt": "2024-01-01T00:59:00Z"}}}
            ],
        },
        ["1/2", "Running", "2 (60s ago)"],
    ),
    "being set up": (
        {"initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
        ["0/2", "Init:0/0", "0"],
    ),
}


@pytest.mark.parametrize(("status", "want"), PODS.values(), ids=PODS)
def test_the_row_of_a_pod(status, want):
    pod = {**stored(kinds.POD, document(kinds.POD, spec=POD)), "status": status}
    cells = table(rules_for(kinds.POD), [pod], NOW)["rows"][0]["cells"]
    assert cells[1:4] == want


ROWS = {
    "a config map": (document(kinds.CONFIG_MAP, data={"a": "b"}), ["x", 1, "60m"]),
    "a job": (
        document(kinds.JOB, spec={"completions": 3, "template": {"spec": POD}}),
        ["x", "Running", "0/3", "", "60m", "a,b", "x,x"],
    ),
    "a service": (
        document(kinds.SERVICE, spec={"ports": [{"port": 80}], "selector": {"a": "b"}}),
        ["x", "ClusterIP", "<none>", "<none>", "80/TCP", "60m", "a=b"],
    ),
    "a node": (
        document(kinds.NODE, spec={"unschedulable": True}),
        ["x", "Unknown,SchedulingDisabled", "<none>", "60m", "", "<none>", "<none>", "<unknown>"],
    ),
    "a class of priority": (document(kinds.PRIORITY_CLASS, value=5), ["x", 5, False, "60m", "PreemptLowerPriority"]),
}


@pytest.mark.parametrize(("sent", "want"), ROWS.values(), ids=ROWS)
def test_the_rows_of_built_in_kinds(sent, want):
    assert row(kinds.kind_of(sent), sent)[: len(want)] == want


def test_every_row_has_a_cell_for_every_column_even_of_nothing():
    for rules in BUILTIN:
        if "list" not in rules.verbs:
            continue
        empty = {"kind": rules.kind.kind, "apiVersion": rules.kind.api_version, "metadata": {"resourceVersion": "1"}}
        body = table(rules, [empty], NOW)
        assert len(body["rows"][0]["cells"]) == len(columns_of(rules)), rules.kind


def test_the_row_of_a_custom_resource_shows_null_for_nothing_and_ages_for_dates():
    rules = from_crd(crds.crd("trainjobs.trainer.kubeflow.org"))[0]
    stamp = (NOW - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    job = {"metadata": {"name": "a", "creationTimestamp": stamp}}
    assert table(rules, [job], NOW)["rows"][0]["cells"] == ["a", None, "5m"]


INCLUDE = {"None": None, "Metadata": "PartialObjectMetadata", "Object": "ConfigMap"}


@pytest.mark.parametrize(("include", "want"), INCLUDE.items(), ids=INCLUDE)
def test_a_row_carries_as_much_of_its_object_as_was_asked_for(include, want):
    made = stored(kinds.CONFIG_MAP, document(kinds.CONFIG_MAP))
    found = table(rules_for(kinds.CONFIG_MAP), [made], NOW, include=include)["rows"][0]["object"]
    assert (found and found["kind"]) == want
