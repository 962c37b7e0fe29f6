"""What can go wrong, as one tree; each leaf is one Kubernetes `Status` reason.

    AboardError                 anything we say to a user; carries an exit code
    └── ApiError                an answer of an API server: code, reason, message, causes
        ├── BadRequest          400  the request makes no sense
        ├── Unauthorized        401  who are you
        ├── Forbidden           403  you may not, or a policy (admission, quota) says no
        ├── NotFound            404  no such object, kind or path
        ├── MethodNotAllowed    405
        ├── NotAcceptable       406
        ├── AlreadyExists       409  the name is taken
        ├── Conflict            409  somebody else wrote first, or owns the field
        ├── Gone                410  that revision is no longer remembered: list again
        ├── TooLarge            413
        ├── UnsupportedMedia    415
        ├── Invalid             422  the document breaks its rules; one cause per broken field
        ├── TooManyRequests     429
        ├── Internal            500
        ├── Unavailable         503
        ├── TimedOut            504
        └── NoSpace             507  the store cannot write

A message has four parts — where, what, rule, remedy: lower case, no full stop, the offending value quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from allaboard.api.documents import Document


@dataclass(frozen=True, slots=True)
class Cause:
    """One broken field: what kind of breach (`FieldValueInvalid`), where, and in which words."""

    reason: str
    field: str
    message: str

    def document(self) -> Document:
        document = {"reason": self.reason, "message": self.message, "field": self.field}
        return {name: value for name, value in document.items() if value or name == "message"}


class AboardError(Exception):
    """Something a user should read: one sentence with the next step in it."""

    exit_code: ClassVar[int] = 1


class ApiError(AboardError):
    """An answer of an API server that is not what was asked for."""

    code: int = 500
    reason: str = "InternalError"

    def __init__(self, message: str, *, details: Document | None = None, causes: Sequence[Cause] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or {}
        self._says_details = details is not None  # some answers carry empty details, some none
        self.causes = tuple(causes)

    def status(self) -> Document:
        """The body a Kubernetes API server sends for this error."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [cause.document() for cause in self.causes]
        body: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message, "reason": self.reason} if self.reason else {"message": self.message}
        return body | ({"details": details} if details or self._says_details else {}) | {"code": self.code}


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Gone(ApiError):
    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMedia(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class Internal(ApiError):
    code, reason = 500, "InternalError"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class TimedOut(ApiError):
    code, reason = 504, "Timeout"


class NoSpace(ApiError):
    code, reason = 507, "InsufficientStorage"


def _leaves(root: type[ApiError]) -> list[type[ApiError]]:
    return [leaf for child in root.__subclasses__() for leaf in (child, *_leaves(child))]


def from_status(code: int, body: Any) -> ApiError:
    """The error an answer's `Status` body means, by reason first and by code where the reason is unknown."""
    status: Document = body if isinstance(body, dict) else {"message": str(body)}
    leaves = _leaves(ApiError)
    kind = next((leaf for leaf in leaves if leaf.reason == status.get("reason")), None)
    kind = kind or next((leaf for leaf in leaves if leaf.code == code), ApiError)
    details = dict(status.get("details") or {})
    causes = [Cause(c.get("reason", ""), c.get("field", ""), c.get("message", "")) for c in details.pop("causes", [])]
    said = details if "details" in status else None
    error = kind(str(status.get("message") or f"the server answered {code}"), details=said, causes=causes)
    error.code = code
    error.reason = str(status.get("reason", kind.reason))
    return error
