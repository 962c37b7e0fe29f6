"""Refusals of merging that carry no reason: an API server answers 500 where its merge libraries give up."""

from __future__ import annotations

from typing import Any

from allaboard.api.errors import Internal
from allaboard.schema.findings import go_float


class Unmergeable(Internal):
    """A patch or configuration that cannot be laid over a document; the words are those of upstream's library."""

    reason = ""


def plain(value: Any) -> str:
    """A value as Go's %v prints it: `map[image:x name:a]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{plain(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(plain, value)) + "]"
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    return go_float(value) if isinstance(value, float) else str(value)
