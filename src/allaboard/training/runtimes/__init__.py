"""The shipped runtimes, one file each: what a TrainJob may name on the day the plane is installed.

Each file begins with the contract its pods can rely on. They are ClusterTrainingRuntimes, so every namespace sees them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from allaboard.api.documents import Document

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    folder = Path(__file__).parent
    return tuple((path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml")))


def shipped_runtimes() -> list[Document]:
    """Every shipped runtime, by name; fresh documents, to be applied when the plane starts."""
    return [yaml.load(text, _Loader) for _, text in _texts()]


def contracts() -> dict[str, str]:
    """What each shipped runtime promises its pods, as its file says it."""
    return {name: _opening(text) for name, text in _texts()}


def _opening(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return "\n".join(lines)
