"""What a room may say about a document before it is stored: change it, refuse it, warn about it.

A hook is a class with a `name` (upstream's webhook name), the `kinds`, `operations` and `subresources` it cares
about, and one or both of `mutate` and `validate`. Embedded, `cluster/admission.py` asks it in process; on a real
cluster `kube/webhook.py` serves it. Hooks are pure: they see a request and a view of other documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from allaboard.api.documents import Document, Documents, Key
from allaboard.api.errors import ApiError
from allaboard.api.kinds import Kind


class Request(Protocol):
    """What is about to happen. `new` is None for DELETE, `old` for CREATE."""

    @property
    def operation(self) -> str: ...  # CREATE, UPDATE or DELETE
    @property
    def kind(self) -> Kind: ...
    @property
    def key(self) -> Key: ...
    @property
    def new(self) -> Document | None: ...
    @property
    def old(self) -> Document | None: ...
    @property
    def subresource(self) -> str: ...


class View(Protocol):
    """Other documents, as the server knows them at this moment."""

    def get(self, kind: Kind, key: Key) -> Document | None: ...

    def list(self, kind: Kind, namespace: str = "") -> Documents: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a validating hook answers; the server puts `admission webhook "NAME" denied the request: ` before it."""

    refusal: ApiError | None = None
    warnings: tuple[str, ...] = ()


ALLOWED = Verdict()


class Hook(Protocol):
    """Who asks to be asked.

    Both methods are optional: `mutate(request, view) -> Document | None` (None: unchanged) and
    `validate(request, view) -> Verdict`. Also optional, and for a real API server only: `selector` (labels) and
    `condition` (a CEL expression) say which documents it asks about, `is_courtesy` that it may go on without us.
    For our own server only: `alike`, or `alike(document)`, says that `mutate` would do to documents made together that
    differ in their names and numbers what it did to the first of them, so that it need not be asked about the others.
    """

    name: str
    kinds: tuple[Kind, ...]
    operations: tuple[str, ...]
    subresources: tuple[str, ...]  # "" is the object itself
