"""How built-in admission says no: 403, in the words of the server itself."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api.errors import Cause, Forbidden
from allaboard.cluster import refusals
from allaboard.cluster.admission import Request


def forbidden(request: Request, why: str, causes: Sequence[Cause] = ()) -> Forbidden:
    kind, name = request.kind, request.key.name
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return Forbidden(message, details=refusals.details(kind, name), causes=causes)
