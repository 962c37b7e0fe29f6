"""What a request asks, apart from its body: the place it is about, who asks, and under which options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from allaboard.api.documents import Document, Key
from allaboard.cluster.access import SYSTEM, User
from allaboard.cluster.rules import Rules


class Place(NamedTuple):
    """What a verb is about: a kind in one version, an object or a collection of it, perhaps a subresource."""

    rules: Rules
    key: Key
    subresource: str = ""


class Unheard(list[str]):
    """Warnings nobody will be told: what costs something to say is not said at all."""

    def append(self, _words: str) -> None: ...

    def extend(self, _words: Iterable[str]) -> None: ...


class Ask(msgspec.Struct):
    """Who asks and how; `warnings` collects what the client is told beside the answer."""

    user: User = SYSTEM
    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"  # fieldValidation: Strict, Warn or Ignore
    force: bool = False
    options: Document = {}  # as admission is shown them
    warnings: list[str] = []
