"""The chain every write passes: hooks in order may change a document, then in order may refuse it.

A hook is any object with a `name` and one or both of `mutate(request, view)` and `validate(request, view)`; `kinds`,
`operations` and `subresources`, where it has them, say what it wants to be asked about. Hooks are handed in by main.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind
from allaboard.cluster.access import User
from allaboard.cluster.rules import Rules


@dataclass(slots=True)
class Request:
    """What is about to happen. `new` is None for DELETE, `old` for CREATE."""

    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    rules: Rules
    key: Key
    new: Document | None
    old: Document | None
    subresource: str
    user: User
    dry_run: bool = False
    options: Document = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  # what the client will be told beside the answer

    @property
    def kind(self) -> Kind:
        return self.rules.kind

    def about(self, new: Document) -> Request:
        """The same request with another document."""
        return Request(
            self.operation,
            self.rules,
            self.key,
            new,
            self.old,
            self.subresource,
            self.user,
            self.dry_run,
            self.options,
            self.warnings,
        )


class View(Protocol):
    """Other documents, as writers see them at this moment."""

    def get(self, kind: Kind, key: Key) -> Document | None: ...

    def list(self, kind: Kind, namespace: str = "") -> Documents: ...


class Webhooks(Protocol):
    """Hooks that live elsewhere (`webhooks.py`)."""

    def are_there(self) -> bool: ...

    async def mutate(self, request: Request) -> Document | None: ...

    async def validate(self, request: Request) -> None: ...


Step = Callable[[Request, View], object]


class Chain:
    """The hooks, in the order they were given."""

    def __init__(self, hooks: Sequence[object], view: View, webhooks: Webhooks | None = None) -> None:
        self.hooks, self.view, self.webhooks = tuple(hooks), view, webhooks
        self._asked: dict[tuple[str, Kind, str, str], tuple[tuple[object, Step], ...]] = {}

    async def mutate(self, request: Request) -> Document | None:
        """The document as the hooks want it."""
        for _, step in self._steps("mutate", request):
            changed = step(request, self.view)
            if isinstance(changed, dict):
                request = request.about(changed)
        if self.webhooks is not None and self.webhooks.are_there():
            changed = await self.webhooks.mutate(request)
            return request.new if changed is None else changed
        return request.new

    async def validate(self, request: Request) -> None:
        """Raise the first refusal."""
        for hook, step in self._steps("validate", request):
            verdict: Any = step(request, self.view)
            if verdict is not None:
                request.warnings.extend(getattr(verdict, "warnings", ()))
                if (refusal := getattr(verdict, "refusal", None)) is not None:
                    raise denied(hook, refusal)
        if self.webhooks is not None and self.webhooks.are_there():
            await self.webhooks.validate(request)

    def asks_outside(self) -> bool:
        """Whether anybody outside this process has a say."""
        return self.webhooks is not None and self.webhooks.are_there()

    def _steps(self, point: str, request: Request) -> tuple[tuple[object, Step], ...]:
        question = (point, request.kind, request.operation, request.subresource)
        steps = self._asked.get(question)
        if steps is None:
            interested = [hook for hook in self.hooks if hasattr(hook, point) and cares(hook, request)]
            steps = self._asked[question] = tuple((hook, getattr(hook, point)) for hook in interested)
        return steps


def cares(hook: object, request: Request) -> bool:
    """Whether a hook wants to be asked; what it does not say, it does not mind."""
    kinds = getattr(hook, "kinds", None)
    if kinds is not None and request.kind not in kinds:
        return False
    if request.operation not in getattr(hook, "operations", (request.operation,)):
        return False
    return request.subresource in getattr(hook, "subresources", ("",) if kinds else (request.subresource,))


def denied(hook: object, refusal: ApiError) -> ApiError:
    """A refusal in the words of a webhook's; hooks that stand for built-in admission say `prefix = False`."""
    if not getattr(hook, "prefix", True):
        return refusal
    words = f'admission webhook "{getattr(hook, "name", "")}" denied the request: {refusal.message}'
    error = type(refusal)(words, details=refusal.details, causes=refusal.causes)
    error.code, error.reason = refusal.code, refusal.reason
    return error


Call = Callable[[str, Document, float, bytes], Awaitable[Document]]
