"""Our CustomResourceDefinitions: `documents()` gives what a cluster is given; the *.yaml beside are their sources."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from allaboard.api.documents import Document

_FOLDER = Path(__file__).parent


@cache
def documents() -> tuple[Document, ...]:
    """Every CRD we ship, ordered by name; shared, so never change one."""
    return tuple(msgspec.json.decode(path.read_bytes(), type=Document) for path in sorted(_FOLDER.glob("*.json")))


def crd(name: str) -> Document:
    """The CRD with this name (`trainjobs.trainer.kubeflow.org`); KeyError where we ship no such one."""
    found = {document["metadata"]["name"]: document for document in documents()}
    return found[name]
