"""Acting as somebody else: the `Impersonate-*` headers, for those who may."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import unquote

from allaboard.api.errors import BadRequest
from allaboard.cluster.access import ACCOUNT, AUTHENTICATED, Attributes, User

PREFIX = b"impersonate-"
EXTRA = "extra-"
IDENTITY = "authentication.k8s.io"  # the group in which roles speak of uids and extras
Authorize = Callable[[User, Attributes], None]


def acting(user: User, headers: Iterable[tuple[bytes, bytes]], authorize: Authorize) -> User:
    """Whom a request is made as: the user, or somebody the user may impersonate."""
    told = [(name[len(PREFIX) :].decode(), value.decode()) for name, value in headers if name.startswith(PREFIX)]
    if not told:
        return user
    wanted = _wanted(told)
    for attributes in _needs(wanted):
        authorize(user, attributes)
    return User(wanted.name, _groups(wanted), wanted.uid, wanted.extra)


def _wanted(told: list[tuple[str, str]]) -> User:
    """The identity as the headers give it."""
    name = next((value for header, value in told if header == "user"), "")
    if not name:
        raise BadRequest(f"requested {[value for _, value in told]} without impersonating a user name")
    uid = next((value for header, value in told if header == "uid"), "")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in told:
        if header.startswith(EXTRA):
            key = unquote(header.removeprefix(EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    return User(name, tuple(value for header, value in told if header == "group"), uid, extra)


def _needs(wanted: User) -> Iterable[Attributes]:
    """What one must be allowed for this, part by part."""
    if wanted.name.startswith(ACCOUNT) and wanted.name.count(":") == 3:
        namespace, name = wanted.name.removeprefix(ACCOUNT).split(":")
        yield Attributes("impersonate", "", "serviceaccounts", "", namespace, name)
    else:
        yield Attributes("impersonate", "", "users", "", "", wanted.name)
    for group in wanted.groups:
        yield Attributes("impersonate", "", "groups", "", "", group)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes("impersonate", IDENTITY, "userextras", key, "", value)
    if wanted.uid:
        yield Attributes("impersonate", IDENTITY, "uids", "", "", wanted.uid)


def _groups(wanted: User) -> tuple[str, ...]:
    """Upstream: an account is in the groups of accounts unless groups are named; everyone but anonymous is known."""
    groups = wanted.groups
    if not groups and wanted.name.startswith(ACCOUNT) and wanted.name.count(":") == 3:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{wanted.name.split(':')[2]}")
    if wanted.name == "system:anonymous":
        return groups or ("system:unauthenticated",)
    return groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)
