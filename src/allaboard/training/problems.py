"""What is wrong with a document, field by field, in the words Kubernetes uses for such things."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from allaboard.api.documents import Documents
from allaboard.api.errors import Cause

INVALID, FORBIDDEN, REQUIRED = "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"


def invalid(field: str, value: object, words: str) -> Cause:
    return Cause(INVALID, field, f"Invalid value: {msgspec.json.encode(value).decode()}: {words}")


def forbidden(field: str, words: str) -> Cause:
    return Cause(FORBIDDEN, field, f"Forbidden: {words}")


def required(field: str, words: str = "") -> Cause:
    return Cause(REQUIRED, field, f"Required value: {words}" if words else "Required value")


def told(causes: Sequence[Cause]) -> str:
    """All of them in one sentence, each once: alone as it is, several in brackets."""
    said = (f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes)
    sentences = list(dict.fromkeys(said))
    return sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"


def reserved_names(env: Documents, reserved: Iterable[str]) -> list[str]:
    """The variables a TrainJob sets although a plugin owns them, sorted."""
    return sorted({entry["name"] for entry in env} & set(reserved))
