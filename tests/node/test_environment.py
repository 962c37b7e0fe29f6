"""The environment of a container: where each variable comes from and which wins."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.node.environment import MissingSource, Sources, command_line, expand, resolve, service_variables

EXPANSIONS = {
    "a known name": ("$(A)", "1"),
    "in the middle": ("x$(A)y$(B)z", "x1y2z"),
    "an unknown name stays": ("$(C)", "$(C)"),
    "two dollars are one": ("$$(A)", "$(A)"),
    "three dollars": ("$$$(A)", "$1"),
    "an open bracket stays": ("$(A", "$(A"),
    "a lone dollar stays": ("a$b$", "a$b$"),
    "an empty name stays": ("$()", "$()"),
}


@pytest.mark.parametrize(("text", "want"), EXPANSIONS.values(), ids=EXPANSIONS)
def test_expansion(text, want):
    assert expand(text, {"A": "1", "B": "2"}) == want


@given(st.text(alphabet="a$()AB "))
def test_text_without_known_names_only_loses_doubled_dollars(text):
    assert expand(text, {}) == text.replace("$$", "$")


POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x"}, "annotations": {"a/b": "c"}},
    "spec": {"nodeName": "n1", "serviceAccountName": "sa", "containers": [{"name": "c"}]},
}
SOURCES = Sources(
    POD,
    config_maps={"c": {"metadata": {"namespace": "ns"}, "data": {"K": "v", "L": "w"}}, "gone": None},
    secrets={"s": {"metadata": {"namespace": "ns"}, "data": {"T": base64.b64encode(b"hush").decode()}}},
    address="10.0.0.2",
    host="127.0.0.1",
    allocatable={"cpu": "4", "memory": "8Gi"},
)


def ref(path):
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def amount(name, divisor="0"):
    return {"valueFrom": {"resourceFieldRef": {"resource": name, "divisor": divisor}}}


VALUES = {
    "plain": ({"value": "x"}, "x"),
    "nothing": ({}, ""),
    "a config map's key": ({"valueFrom": {"configMapKeyRef": {"name": "c", "key": "K"}}}, "v"),
    "a secret's key": ({"valueFrom": {"secretKeyRef": {"name": "s", "key": "T"}}}, "hush"),
    "a value beats its source": ({"value": "x", **ref("metadata.name")}, "x"),
    "an empty value does not": ({"value": "", **ref("metadata.name")}, "p"),
    "the name": (ref("metadata.name"), "p"),
    "the namespace": (ref("metadata.namespace"), "ns"),
    "a label": (ref("metadata.labels['app']"), "x"),
    "an annotation": (ref("metadata.annotations['a/b']"), "c"),
    "the node": (ref("spec.nodeName"), "n1"),
    "the address": (ref("status.podIP"), "10.0.0.2"),
    "the host": (ref("status.hostIP"), "127.0.0.1"),
    "a limit": (amount("limits.cpu"), "2"),
    "a limit in thousandths": (amount("limits.cpu", "1m"), "1500"),
    "a missing limit is the node's": (amount("limits.memory", "1Mi"), "8192"),
    "a missing request is nothing": (amount("requests.cpu"), "0"),
}


@pytest.mark.parametrize(("entry", "want"), VALUES.values(), ids=VALUES)
def test_one_value(entry, want):
    container = {"name": "c", "resources": {"limits": {"cpu": "1500m"}}, "env": [{"name": "X", **entry}]}
    assert resolve(container, SOURCES)["X"] == want


MISSING = {
    "no such map": ({"configMapKeyRef": {"name": "gone", "key": "K"}}, 'configmap "gone" not found'),
    "no such key": ({"configMapKeyRef": {"name": "c", "key": "Z"}}, "couldn't find key Z in ConfigMap ns/c"),
    "no such secret": ({"secretKeyRef": {"name": "x", "key": "K"}}, 'secret "x" not found'),
    "no such field": ({"fieldRef": {"fieldPath": "spec.nope"}}, 'unsupported fieldPath "spec.nope"'),
}


@pytest.mark.parametrize(("source", "words"), MISSING.values(), ids=MISSING)
def test_what_is_missing_is_named(source, words):
    with pytest.raises(MissingSource, match=words.replace("(", r"\(")):
        resolve({"name": "c", "env": [{"name": "X", "valueFrom": source}]}, SOURCES)


def test_what_is_optional_may_be_missing():
    optional = {"configMapKeyRef": {"name": "gone", "key": "K", "optional": True}}
    container = {"name": "c", "env": [{"name": "X", "valueFrom": optional}]}
    container["envFrom"] = [{"secretRef": {"name": "none", "optional": True}}]
    assert "X" not in resolve(container, SOURCES)


def test_entries_beat_sources_and_see_what_came_before():
    container = {
        "name": "c",
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"configMapRef": {"name": "c"}}],
        "env": [{"name": "K", "value": "mine"}, {"name": "ALL", "value": "$(K) $(P_K) $(L) $(LATER)"}],
        "command": ["echo", "$(ALL)"],
        "args": ["$(K)", "$(HOME)"],
    }
    found = resolve(container, SOURCES)
    assert found["ALL"] == "mine v w $(LATER)"
    assert command_line(container, found) == ["echo", "mine v w $(LATER)", "mine", "$(HOME)"]


def test_services_with_an_address_are_told_the_old_way():
    services = (
        {"metadata": {"name": "web-1"}, "spec": {"clusterIP": "10.1.1.1", "ports": [{"name": "http", "port": 80}]}},
        {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
    )
    found = dict(service_variables(Sources(POD, services=services, api=("10.88.0.1", 443))))
    assert found["KUBERNETES_SERVICE_HOST"] == "10.88.0.1"
    assert found["KUBERNETES_PORT_443_TCP"] == "tcp://10.88.0.1:443"
    assert (found["WEB_1_SERVICE_HOST"], found["WEB_1_SERVICE_PORT_HTTP"]) == ("10.1.1.1", "80")
    assert not [name for name in found if name.startswith("HEADLESS")]
