"""Every living namespace has its default account and the certificate authority."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.upkeep import accounts, rootca

from .builders import namespace, thing

ACCOUNT = thing("ServiceAccount", "default")
ACCOUNTS = {
    "a new namespace gets one": (namespace(), None, True),
    "one is enough": (namespace(), ACCOUNT, False),
    "a leaving namespace gets nothing new": (namespace(leaving=True), None, False),
}


@pytest.mark.parametrize(("where", "account", "want"), ACCOUNTS.values(), ids=ACCOUNTS)
def test_account(where, account, want):
    assert bool(accounts.decide(where, account).create) is want


def test_a_deleted_account_wakes_its_namespace():
    assert list(accounts.Accounts.watches[1].keys(ACCOUNT)) == [Key("", "team")]


def test_the_authority_is_published():
    (write,) = rootca.decide(namespace(), None, "PEM").create
    assert write.kind == kinds.CONFIG_MAP
    assert write.document["data"] == {"ca.crt": "PEM"}


def test_it_is_put_back_when_somebody_changed_it():
    (write,) = rootca.decide(namespace(), None, "PEM").create
    assert not rootca.decide(namespace(), write.document, "PEM")
    (repair,) = rootca.decide(namespace(), {**write.document, "data": {"ca.crt": "other"}}, "PEM").update
    assert repair.document["data"] == {"ca.crt": "PEM"}


def test_other_config_maps_wake_nobody():
    assert not list(rootca.bundle_key(thing("ConfigMap", "settings")))
    assert not rootca.decide(namespace(leaving=True), None, "PEM")
