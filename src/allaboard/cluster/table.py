"""Tables, as kubectl asks for them: columns and rows of built-in kinds and of kinds with printer columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from allaboard.api.documents import Document
from allaboard.cluster import ages
from allaboard.cluster.jsonpath import find
from allaboard.cluster.kinds import shown
from allaboard.cluster.rules import Column, Rules

NUMBERS = {"integer": int, "number": float}


def table(
    rules: Rules, documents: Sequence[Document], now: datetime, *, include: str = "Metadata", headers: bool = True
) -> Document:
    """The body of a Table; in a watch only the first one carries its columns."""
    columns = [_definition(column) for column in columns_of(rules)] if headers else None
    rows = [{"cells": cells(rules, document, now), "object": _object(document, include)} for document in documents]
    metadata: Document = {}
    if len(documents) == 1:
        metadata = {"resourceVersion": documents[0]["metadata"].get("resourceVersion", "")}
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        # Upstream: a kind without a printer of its own says null where it has no rows.
        "rows": rows or (None if rules.row in (None, shown.stamped_row) and not rules.custom else rows),
    }


def columns_of(rules: Rules) -> tuple[Column, ...]:
    if rules.custom:
        return (shown.NAME, *(_described(column) for column in rules.columns))
    return rules.columns or (shown.NAME, shown.CREATED_AT)


def _described(column: Column) -> Column:
    if column.description:
        return column
    words = f"Custom resource definition column (in JSONPath format): {column.path}"
    return Column(column.name, column.type, words, column.format, column.priority, column.path)


def _definition(column: Column) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _object(document: Document, include: str) -> Document | None:
    if include == "None":
        return None
    if include == "Object":
        return document
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}


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
    return " ".join(_text(value) for value in found)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()
