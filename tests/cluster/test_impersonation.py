"""Acting as somebody else: who one becomes, and what one must be allowed for it."""

import pytest

from allaboard.api.errors import BadRequest, Forbidden
from allaboard.cluster.access import AUTHENTICATED, User, forbidden
from allaboard.cluster.impersonation import acting

ADMIN = User("admin", ("system:masters",))
KNOWN = (AUTHENTICATED,)
ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:space")

CASES = {
    "no header, nobody else": ({}, ADMIN, []),
    "a user is known": ({"User": "ann"}, User("ann", KNOWN), ["users/ann"]),
    "groups are the ones named": (
        {"User": "ann", "Group": "devs"},
        User("ann", ("devs", *KNOWN)),
        ["users/ann", "groups/devs"],
    ),
    "an account is in the groups of accounts": (
        {"User": "system:serviceaccount:space:it"},
        User("system:serviceaccount:space:it", (*ACCOUNTS, *KNOWN)),
        ["serviceaccounts/it"],
    ),
    "anonymous is not known": (
        {"User": "system:anonymous"},
        User("system:anonymous", ("system:unauthenticated",)),
        ["users/system:anonymous"],
    ),
    "uid and extras are rights of their own": (
        {"User": "ann", "Uid": "7", "Extra-Some%2fKey": "x"},
        User("ann", KNOWN, "7", {"some/key": ("x",)}),
        ["users/ann", "userextras/some/key/x", "uids/7"],
    ),
}


def wire(headers):
    return [(f"impersonate-{name.lower()}".encode(), value.encode()) for name, value in headers.items()]


@pytest.mark.parametrize(("headers", "want", "asked"), CASES.values(), ids=CASES)
def test_acting(headers, want, asked):
    seen = []
    found = acting(ADMIN, wire(headers), lambda _, wanted: seen.append(f"{wanted.full_resource}/{wanted.name}"))
    assert (found, seen) == (want, asked)


def test_who_may_not_is_told_so():
    def refuse(user, wanted):
        raise forbidden(user, wanted)

    words = 'users "ann" is forbidden: User "admin" cannot impersonate resource "users" in API group ""'
    with pytest.raises(Forbidden, match=words):
        acting(ADMIN, wire({"User": "ann"}), refuse)


def test_a_group_without_a_user_is_no_identity():
    with pytest.raises(BadRequest, match="without impersonating a user"):
        acting(ADMIN, wire({"Group": "devs"}), lambda *_: None)
