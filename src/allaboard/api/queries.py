"""What is asked of a cluster and what it tells: selections, listings and changes, the same for every client."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from allaboard.api.documents import Document, Documents


@dataclass(frozen=True, slots=True)
class Select:
    """Which documents of a kind: one namespace ("" is all), and selectors in Kubernetes' own text form."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYTHING = Select()


class Change(msgspec.Struct, frozen=True):
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK, and the document as it is (or last was)."""

    type: str
    document: Document


@dataclass(frozen=True, slots=True)
class Listing:
    """The documents of a kind at one revision; a watch from that revision misses nothing."""

    items: Documents
    revision: str
