"""Odd metadata: 10,020 requests get the same verdict from a real API server and from ours."""

import pytest

from . import oddities
from .conftest import eventually
from .referee import Side, ours, short

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def both(cluster):
    real = Side(cluster.server)
    with ours() as our:
        for side in (real, our):
            oddities.prepare(side)
            assert eventually(lambda side=side: oddities.is_served(side))
        yield real, our


def is_moment(field):
    return field in ("creationTimestamp", "deletionTimestamp")


def is_known(verb, field, value):
    """What we answer otherwise, and why it is left so."""
    if isinstance(value, int | float) and abs(value) > 2**62:
        return True  # Go reads it as a float that overflows, in three different ways
    if verb in ("make", "apply") and field == "managedFields":
        return "soon" in str(value) or "'time': ''" in str(
            value
        )  # whether they can be read is asked before what they are
    if verb == "apply" and field == "resourceVersion":
        return isinstance(value, str)  # a revision that is none counts before a conflict here, after it there
    if verb == "make" and field == "deletionGracePeriodSeconds":
        return True  # upstream keeps what an apply says of the end of an object that it makes
    return is_moment(field) and (value == "0001-01-01T00:00:00Z" or verb in ("make", "apply"))


def verdict(answer):
    """The code; of what was accepted, also its labels, owners and the like."""
    _, body, warnings = answer.shape
    if answer.code >= 300:
        return answer.code
    metadata = {name: value for name, value in body["metadata"].items() if name not in ("managedFields", "name")}
    return answer.code, metadata, warnings


@pytest.mark.parametrize("field", oddities.FIELDS)
def test_odd_metadata_is_judged_as_upstream_judges_it(both, field):
    found = []
    for case, verb, thing, name, value in oddities.questions(field):
        real, our = (oddities.ask(side, verb, thing, name, field, value) for side in both)
        if verdict(real) != verdict(our) and not is_known(verb, field, value):
            found.append(f"{case} {field}={short(value, 60)}: {real.code} {our.code} {short(real.body, 300)}")
    assert found == []
