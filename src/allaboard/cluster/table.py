"""Tables, as kubectl asks for them: columns and rows of built-in kinds and of kinds with printer columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from allaboard.api.documents import Document
from allaboard.api.kinds import CRD, POD
from allaboard.cluster import ages
from allaboard.cluster.jsonpath import find
from allaboard.cluster.kinds import shown
from allaboard.cluster.rules import Column, Rules

NUMBERS = {"integer": int, "number": float}


def table(
    rules: Rules,
    documents: Sequence[Document],
    now: datetime,
    *,
    include: str = "Metadata",
    headers: bool = True,
    version: str = "v1",
) -> Document:
    """The body of a Table; in a watch only the first one carries its columns."""
    columns = [definition(column) for column in columns_of(rules)] if headers else None
    rows = [
        {"cells": cells(rules, document, now), **_end(rules, document), "object": _object(document, include, version)}
        for document in documents
    ]
    metadata: Document = {}
    if len(documents) == 1:
        metadata = {"resourceVersion": documents[0]["metadata"].get("resourceVersion", "")}
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows or (None if _says_null(rules) else rows),
    }


_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _end(rules: Rules, document: Document) -> Document:
    """What a row says beside its cells: that a pod has ended."""
    phase = (document.get("status") or {}).get("phase") if rules.kind == POD else None
    if phase not in _ENDS:
        return {}
    ended = {"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}
    return {"conditions": [ended]}


def _says_null(rules: Rules) -> bool:
    """Upstream: a kind without a printer of its own, or with one from elsewhere, says null where it has no rows."""
    return rules.kind == CRD or (rules.row in (None, shown.stamped_row) and not rules.custom)


def columns_of(rules: Rules) -> tuple[Column, ...]:
    if rules.custom:
        return (shown.NAME, *(_described(column) for column in rules.columns))
    return rules.columns or (shown.NAME, shown.CREATED_AT)


def _described(column: Column) -> Column:
    if column.description:
        return column
    words = f"Custom resource definition column (in JSONPath format): {column.path}"
    return Column(column.name, column.type, words, column.format, column.priority, column.path)


def definition(column: Column) -> Document:
    """A column as a Table declares it."""
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _object(document: Document, include: str, version: str) -> Document | None:
    if include == "None":
        return None
    if include == "Object":
        return document
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": document["metadata"]}


def cells(rules: Rules, document: Document, now: datetime) -> list[object]:
    """One row; the bookmark of a watch is an object without anything, and its row says so."""
    if rules.custom:
        return [shown.name_of(document), *(cell(column, document, now) for column in rules.columns)]
    return (rules.row or shown.stamped_row)(document, now)


def cell(column: Column, document: Document, now: datetime) -> object:
    """What a column of a custom resource shows: null where there is nothing, an age where it is a date."""
    found = find(column.path, document)
    if not found or found[0] is None:
        return None
    value = found[0]
    if column.type == "date":
        return ages.age(value, now) if isinstance(value, str) else "<unknown>"
    if column.type == "boolean":
        return value if isinstance(value, bool) else None
    if column.type in NUMBERS:
        return NUMBERS[column.type](value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()
