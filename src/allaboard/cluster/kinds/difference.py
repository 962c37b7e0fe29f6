"""Two specs side by side, as a refusal shows what may not change."""

from __future__ import annotations

import difflib
import json

from allaboard.api.documents import Document


def between(before: Document, after: Document) -> str:
    """A unified difference of the two as JSON. Upstream prints its internal Go structs here; we print the document."""
    then, now = (json.dumps(spec, indent=1, sort_keys=True).splitlines() for spec in (before, after))
    lines = list(difflib.unified_diff(then, now, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)
