"""The chain every write passes: hooks in order may change a document, then in order may refuse it.

A hook is any object with a `name` and one or both of `mutate(request, view)` and `validate(request, view)`; `kinds`,
`operations` and `subresources`, where it has them, say what it wants to be asked about. Hooks are handed in by main.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind
from allaboard.cluster.access import User
from allaboard.cluster.rules import Rules


class Request(msgspec.Struct):
    """What is about to happen. `new` is None for DELETE, `old` for CREATE."""

    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    rules: Rules
    key: Key
    new: Document | None
    old: Document | None
    subresource: str
    user: User
    dry_run: bool = False
    options: Document = {}
    warnings: list[str] = []  # what the client will be told beside the answer
    amended: bool = False  # by somebody who leaves defaults to the server, as webhooks do; built-in admission does not

    @property
    def kind(self) -> Kind:
        return self.rules.kind

    def about(self, new: Document | None) -> Request:
        """The same request with another document."""
        return self.of(self.rules, new, self.old)

    def of(self, rules: Rules, new: Document | None, old: Document | None) -> Request:
        """The same request, about documents of another version."""
        return Request(
            self.operation,
            rules,
            self.key,
            new,
            old,
            self.subresource,
            self.user,
            self.dry_run,
            self.options,
            self.warnings,
            self.amended,
        )


class View(Protocol):
    """Other documents, as writers see them at this moment."""

    def get(self, kind: Kind, key: Key) -> Document | None: ...

    def list(self, kind: Kind, namespace: str = "") -> Documents: ...


class Webhooks(Protocol):
    """Hooks that live elsewhere (`webhooks.py`)."""

    def are_there(self) -> bool: ...

    async def mutate(self, request: Request, rounds: Rounds) -> Document | None: ...

    async def validate(self, request: Request) -> None: ...


class Rounds:
    """Which webhooks are asked in this round, and which would be in the next. Upstream: reinvocationcontext.go."""

    def __init__(self) -> None:
        self.second = self.changed = False
        self._seen: set[int] = set()  # asked since the last change, and willing to be asked again
        self._again: set[int] = set()

    def includes(self, index: int) -> bool:
        return not self.second or index in self._again

    def note(self, index: int, *, changed: bool, again: bool) -> None:
        if changed:
            self.changed = True
            self.require()
        if again:
            self._seen.add(index)

    def require(self) -> None:
        """Something changed after those that were asked so far."""
        self._again |= self._seen
        self._seen = set()


Step = Callable[[Request, View], object]
MOST_QUESTIONS = 4096


class Chain:
    """The hooks, in the order they were given."""

    def __init__(self, hooks: Sequence[object], view: View, webhooks: Webhooks | None = None) -> None:
        self.hooks, self.view, self.webhooks = tuple(hooks), view, webhooks
        self._asked: dict[tuple[str, Rules, str, str], tuple[tuple[object, Step], ...]] = {}

    async def mutate(self, request: Request) -> Request:
        """The request as the hooks want it; what webhooks changed, everybody who wants to sees once more."""
        request = self._changed(request)
        if self.webhooks is None or not self.webhooks.are_there():
            return request
        rounds = Rounds()
        request = request.about(await self.webhooks.mutate(request, rounds))
        if rounds.changed:
            again = self._changed(request)
            if again.new != request.new:
                rounds.require()
            rounds.second = True
            request = again.about(await self.webhooks.mutate(again, rounds))
        request.amended = True
        return request

    def _changed(self, request: Request) -> Request:
        asked = request
        for hook, step in self._steps("mutate", request):
            try:
                changed = step(request, self.view)
            except ApiError as refusal:
                raise denied(hook, refusal) from refusal
            if isinstance(changed, dict):
                amended = request.amended or (getattr(hook, "prefix", True) and _beyond_metadata(changed, request.new))
                request = request.about(changed) if request is asked else request
                request.new, request.amended = changed, amended
        return request

    async def deleting(self, request: Request) -> None:
        """Raise the first refusal of a deletion; mutating webhooks are asked too, though there is nothing to change."""
        if self.webhooks is not None and self.webhooks.are_there():
            await self.webhooks.mutate(request, Rounds())
        await self.validate(request)

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

    def treats_alike(self, request: Request) -> bool:
        """Whether whoever may change this document would do the same to the next one of its batch."""
        if self.asks_outside():  # nobody knows what a webhook would do
            return False
        steps = self._steps("mutate", request)
        return all(_is_alike(getattr(hook, "alike", False), request.new) for hook, _ in steps)

    def asks_outside(self) -> bool:
        """Whether anybody outside this process has a say."""
        return self.webhooks is not None and self.webhooks.are_there()

    def _steps(self, point: str, request: Request) -> tuple[tuple[object, Step], ...]:
        question = (point, request.rules, request.operation, request.subresource)
        steps = self._asked.get(question)
        if steps is None:
            interested = [hook for hook in self.hooks if hasattr(hook, point) and cares(hook, request)]
            if len(self._asked) >= MOST_QUESTIONS:  # a definition that changes brings new rules
                self._asked.clear()
            steps = self._asked[question] = tuple((hook, getattr(hook, point)) for hook in interested)
        return steps


def _is_alike(says: bool | Callable[[Document | None], bool], document: Document | None) -> bool:
    return says if isinstance(says, bool) else says(document)


def _beyond_metadata(new: Document, old: Document | None) -> bool:
    """Whether a hook touched more than metadata, which has no defaults."""
    old = old or {}
    return len(new) != len(old) or any(old.get(name) is not part for name, part in new.items() if name != "metadata")


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
