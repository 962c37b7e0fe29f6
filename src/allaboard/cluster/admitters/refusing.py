"""How built-in admission says no: 403, in the words of the server itself."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api.errors import Cause, Forbidden
from allaboard.cluster import refusals
from allaboard.cluster.admission import Request

RANDOM = 5  # letters at the end of a generated name


def forbidden(request: Request, why: str, causes: Sequence[Cause] = ()) -> Forbidden:
    return _refusal(request, request.key.name, why, causes)


def forbidden_early(request: Request, why: str, causes: Sequence[Cause] = ()) -> Forbidden:
    """Said by a hook that changes objects: upstream asks it before a name is made, so it knows the beginning only."""
    name = request.key.name
    beginning = ((request.new or {}).get("metadata") or {}).get("generateName") or ""
    if request.operation == "CREATE" and beginning and name[:-RANDOM] == beginning[: len(name) - RANDOM]:
        name = beginning
    return _refusal(request, name, why, causes)


def _refusal(request: Request, name: str, why: str, causes: Sequence[Cause]) -> Forbidden:
    kind = request.kind
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return Forbidden(message, details=refusals.details(kind, name), causes=causes)
