"""Pods: what is filled in, what is refused, and what may still change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api.kinds import POD
from allaboard.cluster.kinds import pod, podspec, rules_for
from allaboard.cluster.kinds.containers import pull_policy
from tests.cluster.judging import changed, complaints, document, objections, stored
from tests.effort import calls


def a_pod(**spec):
    return document(POD, spec={"containers": [{"name": "c", "image": "x:1"}], **spec})


def one(**container):
    return document(POD, spec={"containers": [{"name": "c", "image": "x:1", **container}]})


def test_pods_of_one_template_are_judged_once_but_each_by_its_own_name():
    def with_token(suffix, mounted):
        volume = {"name": f"kube-api-access-{suffix}", "emptyDir": {}}
        mount = {"name": f"kube-api-access-{mounted}", "mountPath": "/token"}
        return document(
            POD,
            spec={
                "hostname": f"h-{suffix}",
                "volumes": [volume],
                "containers": [{"name": "c", "image": "x:1", "volumeMounts": [mount]}],
            },
        )

    assert complaints(POD, with_token("aaaaa", "aaaaa")) == []
    assert complaints(POD, with_token("bbbbb", "bbbbb")) == [], "another name of the same form"
    assert any("kube-api-access-ccccc" in words for words in complaints(POD, with_token("aaaaa", "ccccc")))
    assert any("spec.hostname" in words for words in complaints(POD, a_pod(hostname="Not A Name")))
    assert complaints(POD, a_pod(hostname="a-name")) == []


def of_job(job):
    """A pod of a job as a training runtime makes it: it differs from others of that runtime in names and values."""
    token = {"serviceAccountToken": {"audience": f"jobs/{job}", "path": "t", "expirationSeconds": 600}}
    files = {"configMap": {"name": f"{job}-files", "items": [{"key": "k", "path": "p"}]}}
    shown = {"name": "NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    container = {
        "name": "c",
        "image": "x",
        "imagePullPolicy": "Always",
        "terminationMessagePolicy": "File",
        "env": [{"name": "JOB", "value": job}, shown],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    return {
        "hostname": f"{job}-0",
        "subdomain": job,
        "restartPolicy": "Never",
        "dnsPolicy": "Default",
        "volumes": [{"name": "v", "projected": {"sources": [token, files]}}],
        "containers": [container],
    }


VARIABLE, SHOWN = ("containers", 0, "env", 0), ("containers", 0, "env", 1)
TOKEN, FILES = ("volumes", 0, "projected", "sources", 0), ("volumes", 0, "projected", "sources", 1)
CHANGES = {
    ("hostname",): ("b", "B", None),
    ("subdomain",): ("b", "B", None),
    ("restartPolicy",): ("Seldom", "hostname"),
    (*VARIABLE, "name"): ("b", "", "=", "value", None),
    (*VARIABLE, "value"): ("b", "", "=", None),
    (*VARIABLE, "valueFrom"): ({}, {"fieldRef": {}}, {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}),
    (*SHOWN, "name"): ("JOB", None),
    (*SHOWN, "value"): ("b", ""),
    (*SHOWN, "valueFrom"): ({}, None),
    (*TOKEN, "serviceAccountToken", "audience"): ("b", "", None),
    (*TOKEN, "serviceAccountToken", "path"): ("", "..", "p", None),
    (*TOKEN, "serviceAccountToken", "expirationSeconds"): (599, 3600),
    (*TOKEN, "configMap"): ({}, {"name": "b"}),
    (*TOKEN, "secret"): ({}, {"name": "b"}),
    (*FILES, "configMap", "name"): ("b", "", None),
    (*FILES, "configMap", "items"): ([{"key": "k", "path": "t"}], [{"key": "k", "path": "/p"}], [{}], None),
    (*FILES, "configMap"): ({}, None),
    ("volumes", 0, "name"): ("b", "V", ""),
    ("containers", 0, "volumeMounts", 0, "name"): ("b", "V"),
}


def amended(value, path, new):
    """A copy with another value at a path, or without it."""
    if not path:
        return new
    if isinstance(value, list):
        return [amended(item, path[1:], new) if index == path[0] else item for index, item in enumerate(value)]
    value = value or {}
    inner = amended(value.get(path[0]), path[1:], new)
    return {key: item for key, item in {**value, path[0]: inner}.items() if item is not None}


@given(st.lists(st.lists(st.sampled_from([(at, new) for at in CHANGES for new in CHANGES[at]]), max_size=2)))
def test_what_is_remembered_of_other_pods_changes_no_verdict(cases):
    podspec._SOUND.clear()
    for changes in [[], *cases]:
        spec = of_job("a")
        for at, new in changes:
            spec = amended(spec, at, new)
        assert podspec.causes(spec, "spec") == podspec._breaches(spec, "spec")


def test_pods_of_one_runtime_are_judged_once():
    assert podspec.causes(of_job("first"), "spec") == []
    assert podspec._anonymous(of_job("second")) in podspec._SOUND


def test_a_pod_shows_every_default_a_reader_may_rely_on():
    found = stored(POD, a_pod())
    assert found["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "x:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert found["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


PULLS = {
    "no tag is the latest": ("app", "Always"),
    "the latest": ("host:5000/app:latest", "Always"),
    "a tag": ("app:1", "IfNotPresent"),
    "a registry's port is no tag": ("host:5000/app", "Always"),
    "a digest": ("app@sha256:00", "IfNotPresent"),
    "nothing": ("", "IfNotPresent"),
}


@pytest.mark.parametrize(("image", "want"), PULLS.values(), ids=PULLS)
def test_images_that_can_change_are_pulled_every_time(image, want):
    assert pull_policy(image) == want


QUALITY = {
    "nothing asked": ({}, "BestEffort"),
    "some asked": ({"requests": {"cpu": "1"}}, "Burstable"),
    "limits are requests": ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    "only one of the two": ({"limits": {"cpu": "1"}}, "Burstable"),
    "a device alone": ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
}


@pytest.mark.parametrize(("resources", "want"), QUALITY.values(), ids=QUALITY)
def test_quality_of_service(resources, want):
    assert stored(POD, one(resources=resources))["status"]["qosClass"] == want


def test_limits_are_also_requests_but_only_in_pods():
    resources = stored(POD, one(resources={"limits": {"cpu": "1000m"}}))["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


def test_a_gated_pod_says_so_from_its_first_moment():
    condition = stored(POD, a_pod(schedulingGates=[{"name": "a.example/b"}]))["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


def test_defaults_are_filled_in_once_and_change_nothing_they_were_given():
    sent = a_pod(volumes=[{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}])
    copy = {**sent}
    once = pod.default(sent)
    assert pod.default(once) == once
    assert sent == copy
    assert once["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {}},
        {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
    ]


DNS_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
REFUSED = {
    "no containers": (document(POD, spec={}), ["spec.containers: Required value"]),
    "a container's name": (
        document(POD, spec={"containers": [{"name": "Bad_Name", "image": "x"}]}),
        [f'spec.containers[0].name: Invalid value: "Bad_Name": {DNS_LABEL}'],
    ),
    "two of one name": (
        document(POD, spec={"containers": [{"name": "c", "image": "x"}] * 2}),
        ['spec.containers[1].name: Duplicate value: "c"'],
    ),
    "blanks around the image": (
        one(image=" x "),
        ['spec.containers[0].image: Invalid value: " x ": must not have leading or trailing whitespace'],
    ),
    "a restart policy": (
        a_pod(restartPolicy="Sometimes"),
        [
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
        ],
    ),
    "a deadline of nothing": (
        a_pod(activeDeadlineSeconds=0),
        ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    "a mount of no volume": (
        one(volumeMounts=[{"name": "v", "mountPath": "/a"}]),
        ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
    ),
    "two sources": (
        a_pod(volumes=[{"name": "v", "hostPath": {"path": "/x"}, "emptyDir": {}}]),
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    ),
    "ports out of range": (
        one(ports=[{"containerPort": 0}, {"containerPort": 70000}]),
        [
            "spec.containers[0].ports[0].containerPort: Required value",
            "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ],
    ),
    "a request over its limit": (
        one(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        [
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ],
    ),
    "a device without a limit": (
        one(resources={"requests": {"nvidia.com/gpu": "1"}}),
        [
            "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
        ],
    ),
    "a probe that probes nothing": (
        one(livenessProbe={"timeoutSeconds": -1}),
        [
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
            "spec.containers[0].livenessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "a toleration": (
        a_pod(tolerations=[{"operator": "Exists", "value": "x"}]),
        [
            "spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
        ],
    ),
    "a gate and a node": (
        a_pod(schedulingGates=[{"name": "a.example/b"}], nodeName="n"),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    "a probe of an init container": (
        a_pod(initContainers=[{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["a"]}}}]),
        [
            "spec.initContainers[0].livenessProbe: Forbidden: "
            "may not be set for init containers without restartPolicy=Always",
        ],
    ),
    "a field that is none": (
        one(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.foo"}}}]),
        [
            'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.foo": error converting '
            "fieldPath: field label not supported: spec.foo",
        ],
    ),
}


@pytest.mark.parametrize(("sent", "want"), REFUSED.values(), ids=REFUSED)
def test_a_pod_is_refused(sent, want):
    assert complaints(POD, sent) == want


OLD = stored(POD, a_pod(tolerations=[{"key": "a", "operator": "Exists"}], activeDeadlineSeconds=100))
MAY_CHANGE = {
    "an image": {"containers": [{"name": "c", "image": "x:2"}]},
    "a shorter deadline": {"activeDeadlineSeconds": 50},
    "one more toleration": {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]},
}


@pytest.mark.parametrize("part", MAY_CHANGE.values(), ids=MAY_CHANGE)
def test_a_pod_may_change(part):
    assert objections(POD, OLD, {**OLD, "spec": {**OLD["spec"], **part}}) == []


MAY_NOT_CHANGE = {
    "a longer deadline": (
        {"activeDeadlineSeconds": 200},
        "spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value",
    ),
    "fewer tolerations": (
        {"tolerations": []},
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
    ),
    "another container": (
        {"containers": [{"name": "c", "image": "x:1"}, {"name": "d", "image": "x:1"}]},
        "spec.containers: Forbidden: pod updates may not add or remove containers",
    ),
    "its command": (
        {"containers": [{"name": "c", "image": "x:1", "command": ["a"]}]},
        "spec: Forbidden: pod updates may not change fields other than",
    ),
}


@pytest.mark.parametrize(("part", "want"), MAY_NOT_CHANGE.values(), ids=MAY_NOT_CHANGE)
def test_a_pod_may_not_change(part, want):
    found = objections(POD, OLD, {**OLD, "spec": {**OLD["spec"], **part}})
    assert [sentence.startswith(want) for sentence in found] == [True]


def test_the_status_door_changes_the_status_and_labels_and_nothing_else():
    sent = {**OLD, "metadata": {"labels": {"a": "b"}}, "spec": {}, "status": {"phase": "Running", "qosClass": "Odd"}}
    found = changed(POD, OLD, sent, "status")
    assert found["spec"] == OLD["spec"]
    assert found["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert found["metadata"]["labels"] == {"a": "b"}


GRACE = {
    "not yet placed": ({"spec": {}}, None, 0),
    "running": ({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}}, None, 7),
    "asked for less": ({"spec": {"nodeName": "n"}}, 3, 3),
    "over": ({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}, 9, 0),
}


@pytest.mark.parametrize(("found", "asked", "want"), GRACE.values(), ids=GRACE)
def test_how_long_a_pod_may_take_to_stop(found, asked, want):
    assert pod.grace(found, asked) == want


def test_defaults_and_rules_of_a_pod_are_little_work():
    rules, sent = rules_for(POD), stored(POD, one(env=[{"name": f"E{i}", "value": "v"} for i in range(10)]))
    assert calls(lambda: rules.validate(rules.default(sent), None, "")) < 150
