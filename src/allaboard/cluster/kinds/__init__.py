"""The built-in kinds, one file each: `BUILTIN` is every kind the server knows without a definition."""

from __future__ import annotations

from functools import cache

from allaboard.api.kinds import Kind
from allaboard.cluster.kinds import (
    absent,
    account,
    claim,
    configmap,
    cronjob,
    definition,
    endpoints,
    event,
    job,
    lease,
    limits,
    namespace,
    node,
    pod,
    priority,
    quota,
    roles,
    runtimeclass,
    secret,
    service,
    storageclass,
    volume,
    webhooks,
)
from allaboard.cluster.rules import Rules, built_in
from allaboard.schema import builtin

_FILES = (
    account, claim, configmap, cronjob, definition, endpoints, event, job, lease, limits, namespace, node, pod,
    priority, quota, roles, runtimeclass, secret, service, storageclass, volume, webhooks,
)  # fmt: skip


def _all() -> tuple[Rules, ...]:
    """Those with a file of their own, and plain rules for the rest that discovery lists: bindings and reviews."""
    written = {(rules.kind.group, rules.kind.plural): rules for file in _FILES for rules in file.RULES}
    served = tuple(written.get((entry["group"], entry["plural"])) or _plain(entry) for entry in builtin.resources())
    return served + absent.RULES


def _plain(entry: dict[str, object]) -> Rules:
    kind = Kind(
        str(entry["group"]),
        str(entry["version"]),
        str(entry["kind"]),
        str(entry["plural"]),
        namespaced=bool(entry["namespaced"]),
    )
    return built_in(kind)


BUILTIN: tuple[Rules, ...] = _all()


@cache
def rules_for(kind: Kind) -> Rules:
    """The rules of a built-in kind; KeyError where there is none."""
    for rules in BUILTIN:
        if rules.kind == kind:
            return rules
    raise KeyError(kind)
