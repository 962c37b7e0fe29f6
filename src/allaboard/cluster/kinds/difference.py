"""Two specs side by side, as a refusal shows what may not change."""

from __future__ import annotations

import difflib

from allaboard.api.documents import Document
from allaboard.schema import gostructs


def between(kind: str, before: Document, after: Document) -> str:
    """A unified difference of the two as the server's own structs (`core.PodSpec`), which upstream prints here."""
    then, now = (gostructs.text(gostructs.printed(kind, spec), 1).splitlines() for spec in (before, after))
    lines = list(difflib.unified_diff(then, now, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)
