"""Patch: part of a document changes; server-side apply: a manager states what it wants, and owns what it stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from allaboard.api.documents import Document
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.plane import Cluster
from allaboard.cluster.store import Item


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch and how to read it."""

    type: str
    body: object
    duplicates: Sequence[str] = ()


async def patch(cluster: Cluster, place: Place, patch: Patch, ask: Ask) -> Item:
    raise NotImplementedError


async def apply(cluster: Cluster, place: Place, document: Document, ask: Ask) -> tuple[Item, bool]:
    raise NotImplementedError
