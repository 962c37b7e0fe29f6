"""The variables of a running expression, and what it has cost so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allaboard.schema.cel.values import CelError

# Upstream's limits: of one expression, and of all rules of one document.
CALL_LIMIT, DOCUMENT_LIMIT = 1_000_000, 10_000_000
TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_UNSET = object()


class Scope(dict[str, Any]):
    """Variables by name."""

    __slots__ = ("cost", "limit")

    def __init__(self, variables: dict[str, Any] | None = None, limit: int = CALL_LIMIT) -> None:
        super().__init__(variables or {})
        self.cost, self.limit = 0, limit

    def spend(self, amount: int) -> None:
        self.cost += amount
        if self.cost > self.limit:
            raise CelError(TOO_COSTLY)

    def pay(self, amount: int) -> bool:
        """Spend without a look at the limit, inside of a condition; the next `spend` looks."""
        self.cost += amount
        return True

    def holding(self, name: str, value: Any, run: Callable[[Scope], Any]) -> Any:
        """Run with one variable more, and take it back."""
        before = self.get(name, _UNSET)
        self[name] = value
        try:
            return run(self)
        finally:
            if before is _UNSET:
                del self[name]
            else:
                self[name] = before
