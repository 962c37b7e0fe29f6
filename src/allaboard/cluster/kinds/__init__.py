"""The built-in kinds, one file each: `BUILTIN` is every kind the server knows without a definition."""

from __future__ import annotations

from functools import cache

from allaboard.api.kinds import Kind
from allaboard.cluster.kinds import claim, pod
from allaboard.cluster.rules import Rules, built_in
from allaboard.schema import builtin

_WRITTEN: tuple[Rules, ...] = (*pod.RULES, *claim.RULES)


def _all() -> tuple[Rules, ...]:
    """Those with a file of their own, and plain rules for the rest that discovery lists."""
    written = {(rules.kind.group, rules.kind.plural): rules for rules in _WRITTEN}
    return tuple(written.get((entry["group"], entry["plural"])) or _plain(entry) for entry in builtin.resources())


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
