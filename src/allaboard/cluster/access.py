"""Who is asking, and what they may do: users, tokens and roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking, as authentication found out."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
SYSTEM = User("system:apiserver", (MASTERS, AUTHENTICATED))
