"""Quotas: after every step of a story both control planes refuse the same and count the same."""

import time

import pytest

from tests.conformance.kube import FULL

from . import quotas
from .conftest import eventually
from .referee import Side, differences, ours

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def both(cluster):
    with ours(FULL) as our:
        yield Side(cluster.server), our


def counted(side, namespace):
    """What every quota of a namespace says; None while one has not been counted."""
    listed = side.ask("GET", quotas.where(namespace, "ResourceQuota")).body["items"]
    return {quota["metadata"]["name"]: quota.get("status") for quota in listed}


def settled(side, namespace):
    account = side.ask("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default").code
    return account == 200 and side.ask("GET", quotas.where(namespace, "ConfigMap", "kube-root-ca.crt")).code == 200


@pytest.mark.parametrize(("index", "story"), list(enumerate(quotas.STORIES)), ids=list(quotas.STORIES))
def test_a_namespace_uses_as_much_there_as_here(both, index, story):
    namespace = f"quota-{index}"
    for side in both:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        side.ask("POST", "/api/v1/namespaces", body)
        assert eventually(lambda side=side: settled(side, namespace))
    for number, step in enumerate(quotas.STORIES[story]):
        real, our = (step(side, namespace) for side in both)
        assert (real.code, told(real)) == (our.code, told(our)), f"step {number}"
        time.sleep(0.4)  # both may still say what was before
        eventually(lambda: counted(both[0], namespace) == counted(both[1], namespace), 12)
        assert differences(*(counted(side, namespace) for side in both)) == [], f"step {number}"


def told(answer):
    return answer.shape[1].get("message", "")
