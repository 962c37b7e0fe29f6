"""Jobs: defaults, the selector they make for themselves, their rules and those of their status."""

import pytest

from allaboard.api.kinds import CRON_JOB, JOB
from allaboard.cluster.kinds.indexes import Malformed, count_indexes, read_indexes
from tests.cluster.judging import complaints, document, objections, stored

POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}


def a_job(name="j", template=None, **spec):
    return document(JOB, name, spec={"template": template or {"spec": POD}, **spec})


DEFAULTS = {
    "nothing said": ({}, {"completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}),
    "parallelism alone": ({"parallelism": 3}, {"parallelism": 3, "backoffLimit": 6}),
    "completions alone": ({"completions": 3}, {"completions": 3, "parallelism": 1}),
    "a limit for each index": (
        {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1},
        {"backoffLimit": 2147483647, "podReplacementPolicy": "TerminatingOrFailed"},
    ),
    "a failure policy": (
        {"podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": [{"type": "X"}]}]}},
        {
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": [{"type": "X", "status": "True"}]}]},
        },
    ),
}


@pytest.mark.parametrize(("spec", "want"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults(spec, want):
    assert want.items() <= stored(JOB, a_job(**spec))["spec"].items()


def test_a_job_selects_its_pods_by_its_own_uid_and_shares_their_labels():
    job = stored(JOB, a_job())
    uid = job["metadata"]["uid"]
    labels = {
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
        "job-name": "j",
        "batch.kubernetes.io/job-name": "j",
    }
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"] == labels == job["metadata"]["labels"]


REFUSED = {
    "restart always": (
        a_job(template={"spec": {**POD, "restartPolicy": "Always"}}),
        ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
    ),
    "negative numbers": (
        a_job(parallelism=-1),
        ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "a mode": (
        a_job(completionMode="Foo"),
        ['spec.completionMode: Unsupported value: "Foo": supported values: "NonIndexed", "Indexed"'],
    ),
    "a name too long for its pods": (
        a_job("b" * 62, completionMode="Indexed", completions=100, parallelism=1),
        [
            f'metadata.name: Invalid value: "{"b" * 62}": will not able to create pod with invalid DNS label: '
            f"{'b' * 62}-99",
        ],
    ),
    "who manages it": (
        a_job(managedBy="nodomain"),
        [
            'spec.managedBy: Invalid value: "nodomain": must be a domain-prefixed path (such as "acme.io/foo")',
        ],
    ),
    "zero is no failure": (
        a_job(podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}),
        [
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ],
    ),
    "success of something without indexes": (
        a_job(successPolicy={"rules": [{"succeededCount": 1}]}),
        [
            'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: '
            "requires indexed completion mode",
        ],
    ),
}


@pytest.mark.parametrize(("sent", "want"), REFUSED.values(), ids=REFUSED)
def test_a_job_is_refused(sent, want):
    assert complaints(JOB, sent) == want


PLAIN = stored(JOB, a_job())
INDEXED = stored(JOB, a_job(completionMode="Indexed", completions=3, parallelism=3, suspend=True))
CHANGES = {
    "parallelism": (PLAIN, {"parallelism": 4}, []),
    "completions": (PLAIN, {"completions": 5}, ["spec.completions: Invalid value: 5: field is immutable"]),
    "both, where pods have indexes": (INDEXED, {"completions": 5, "parallelism": 5}, []),
    "completions alone, where pods have indexes": (
        INDEXED,
        {"completions": 5},
        ["spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"],
    ),
    "who manages it": (
        PLAIN,
        {"managedBy": "a.example/b"},
        ['spec.managedBy: Invalid value: "a.example/b": field is immutable'],
    ),
}


@pytest.mark.parametrize(("old", "part", "want"), CHANGES.values(), ids=CHANGES)
def test_a_job_may_change_its_mind_about_little(old, part, want):
    assert objections(JOB, old, {**old, "spec": {**old["spec"], **part}}) == want


def with_template(job, **pod):
    template = job["spec"]["template"]
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": {**template["spec"], **pod}}}}


def test_a_suspended_job_may_still_be_told_where_to_run():
    assert objections(JOB, INDEXED, with_template(INDEXED, nodeSelector={"a": "b"})) == []
    assert objections(JOB, PLAIN, with_template(PLAIN, nodeSelector={"a": "b"}))[0].startswith("spec.template: Invalid")


TRUE = {"status": "True"}
DONE = {
    "startTime": "2024-01-01T00:00:00Z",
    "completionTime": "2024-01-01T00:00:05Z",
    "succeeded": 1,
    "conditions": [{"type": "SuccessCriteriaMet", **TRUE}, {"type": "Complete", **TRUE}],
}
STATUSES = {
    "a start": ({}, {"active": 1, "startTime": "2024-01-01T00:00:00Z"}, []),
    "more ready than active": (
        {"active": 1},
        {"active": 1, "ready": 5},
        ["status.ready: Invalid value: 5: cannot set more ready pods than active"],
    ),
    "an end": ({"startTime": "2024-01-01T00:00:00Z"}, DONE, []),
    "an end without its reason": (
        {"startTime": "2024-01-01T00:00:00Z"},
        {**DONE, "conditions": [{"type": "Complete", **TRUE}]},
        [
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true "
            "condition",
        ],
    ),
    "a success taken back": (
        DONE,
        {**DONE, "succeeded": 0},
        ["status.succeeded: Invalid value: 0: cannot decrease the succeeded counter"],
    ),
    "an end before the start": (
        DONE,
        {**DONE, "startTime": "2025-01-01T00:00:00Z"},
        [
            'status.completionTime: Invalid value: "2024-01-01T00:00:05Z": must be equal to or after `startTime`',
            "status.startTime: Required value: startTime cannot be removed for unsuspended job",
        ],
    ),
}


@pytest.mark.parametrize(("before", "after", "want"), STATUSES.values(), ids=STATUSES)
def test_the_status_of_a_job_goes_one_way(before, after, want):
    old = {**PLAIN, "status": before}
    assert objections(JOB, old, {**old, "status": after}, "status") == want


INDEXES = {"nothing": ("", 0), "one": ("1", 1), "a span": ("0-2,4", 4)}


@pytest.mark.parametrize(("text", "count"), INDEXES.values(), ids=INDEXES)
def test_lists_of_indexes(text, count):
    assert count_indexes(text, 5) == count


@pytest.mark.parametrize("text", ["a", "5", "3-1", "2,1", "1-2-3", "1,"])
def test_what_is_no_list_of_indexes(text):
    with pytest.raises(Malformed):
        read_indexes(text, 5)


def test_a_cron_job_fills_in_its_own_defaults_and_its_pods_only():
    spec = stored(CRON_JOB, document(CRON_JOB, spec={"schedule": "* * * * *", "jobTemplate": a_job()}))["spec"]
    assert (spec["concurrencyPolicy"], spec["successfulJobsHistoryLimit"]) == ("Allow", 3)
    assert "backoffLimit" not in spec["jobTemplate"]["spec"]


def test_a_schedule_has_five_fields():
    sent = document(CRON_JOB, spec={"schedule": "* *", "jobTemplate": {"spec": {"template": {"spec": POD}}}})
    assert complaints(CRON_JOB, sent)[0].startswith('spec.schedule: Invalid value: "* *": expected exactly 5 fields')
