"""What a cycle does, in order: each action is a function over a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allaboard.scheduling.actions.allocate import allocate
from allaboard.scheduling.session import Session

ACTIONS: Mapping[str, Callable[[Session], None]] = {"allocate": allocate}
