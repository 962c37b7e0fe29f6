"""Refusals in Kubernetes' words: what the API server answers when a request cannot be granted."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document
from allaboard.api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    TimedOut,
)
from allaboard.api.kinds import Kind

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def details(kind: Kind, name: str) -> Document:
    """How an error names an object: the plural as its kind."""
    return {"name": name} | ({"group": kind.group} if kind.group else {}) | {"kind": kind.plural}


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found', details=details(kind, name))


def already_exists(kind: Kind, name: str) -> AlreadyExists:
    return AlreadyExists(f'{kind.resource} "{name}" already exists', details=details(kind, name))


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> Conflict:
    return Conflict(f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}', details=details(kind, name))


def uid_differs(kind: Kind, place: str, wanted: str, found: str) -> Conflict:
    """A precondition on the uid failed; the store's own words are part of the answer."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    store = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
    return conflict(kind, place.rpartition("/")[2], store)


def forbidden(kind: Kind, name: str, why: str) -> Forbidden:
    return Forbidden(f'{kind.resource} "{name}" is forbidden: {why}', details=details(kind, name))


def nameless(name: str) -> BadRequest:
    """A body without a name, sent to a place that has one."""
    return BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


def title(kind: Kind) -> str:
    """A kind as a refusal names it: `Job.batch`."""
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def invalid(kind: Kind, name: str, causes: Iterable[Cause]) -> Invalid:
    """One sentence and one cause for each broken rule."""
    broken = tuple(causes)
    about: Document = {"name": name} if name else {}
    about |= {"group": kind.group} if kind.group else {}
    return Invalid(
        f'{title(kind)} "{name}" is invalid: {summed(broken)}', details=about | {"kind": kind.kind}, causes=broken
    )


def summed(causes: tuple[Cause, ...]) -> str:
    """Every cause in one line; more than one stands in brackets, each said once."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    return lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"


def options_invalid(kind: str, causes: Iterable[Cause]) -> Invalid:
    return invalid(Kind("meta.k8s.io", "v1", kind, ""), "", causes)


def no_resource() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def no_method() -> MethodNotAllowed:
    return MethodNotAllowed("the server does not allow this method on the requested resource", details={})


def not_supported(kind: Kind, verb: str) -> MethodNotAllowed:
    """A verb that custom resources do not have here, as their own handler says it."""
    words = f'{verb} is not supported on resources of kind "{kind.resource}"'
    return MethodNotAllowed(words, details={"group": kind.group, "kind": kind.plural})


def too_old(revision: int, floor: int) -> Gone:
    return Gone(f"too old resource version: {revision} ({floor})")


def from_the_future(revision: int, current: int) -> TimedOut:
    """The answer to a revision nobody has handed out yet."""
    message = f"Too large resource version: {revision}, current: {current}"
    cause = Cause("ResourceVersionTooLarge", "", "Too large resource version")
    return TimedOut(f"Timeout: {message}", details={"retryAfterSeconds": 1}, causes=[cause])


def bare(code: int, message: str) -> ApiError:
    """An error without a reason, as the storage layer's own complaints are."""
    error = ApiError(message)
    error.code, error.reason = code, ""
    return error
