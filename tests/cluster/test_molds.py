"""Pods of one template are read once; what differs between them is still theirs, and what is wrong is still said."""

import pytest

from allaboard.api.errors import BadRequest
from allaboard.cluster.ask import Ask
from allaboard.cluster.intake import accept, accept_new
from allaboard.cluster.kinds.pod import RULES

POD = RULES[0]


def pod(name: str = "a", **spec: object) -> dict:
    containers = [{"name": "main", "image": "busybox", "resources": {"limits": {"cpu": "1"}}}]
    whole = {"containers": containers, "volumes": [{"name": "room"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


TWINS = {
    "nothing but the name": (pod(), pod("b")),
    "a host name each": (pod(hostname="a-0"), pod("b", hostname="a-1")),
    "one has a host name": (pod(), pod("b", hostname="b")),
    "a host name that is empty": (pod(hostname="a"), pod("b", hostname="")),
    "a truth and a number": (pod(hostNetwork=True), pod("b", hostNetwork=False)),
    "another command": (pod(), pod("b", containers=[{"name": "main", "image": "busybox", "command": ["x"]}])),
    "a status of its own": (pod(), pod("b") | {"status": {"podIP": "10.0.0.1"}}),
}


@pytest.mark.parametrize(("first", "second"), TWINS.values(), ids=TWINS)
def test_the_second_is_what_it_would_have_been_alone(first, second):
    accept_new(POD, first, Ask())
    assert accept_new(POD, second, Ask()) == accept(POD, second, Ask())
    assert accept_new(POD, second, Ask()) == accept(POD, second, Ask())


def test_twins_share_what_they_have_in_common():
    left, right = (accept_new(POD, pod(name, hostname=name, subdomain="shared"), Ask())["spec"] for name in "ab")
    assert left["containers"] is right["containers"] and left["volumes"] is right["volumes"]
    assert (left["hostname"], right["hostname"]) == ("a", "b")


WRONG = {
    "a truth that is a number": pod(hostNetwork=1),
    "a host name that is a number": pod(hostname=7),
    "a number beyond all numbers": pod(activeDeadlineSeconds=10**30),
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG)
def test_what_cannot_be_read_is_refused_every_time(given):
    accept_new(POD, pod(hostNetwork=True, hostname="x"), Ask())
    for _ in range(2):
        with pytest.raises(BadRequest):
            accept_new(POD, given, Ask())


def test_an_unknown_field_is_warned_about_every_time():
    for _ in range(3):
        ask = Ask()
        accept_new(POD, pod(colour="red"), ask)
        assert ask.warnings == ['unknown field "spec.colour"']
