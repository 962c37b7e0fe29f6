"""Paths to fields as rules and selectable fields name them: `.spec.a`, `.m['k']`; checked against a schema."""

from __future__ import annotations

import re

from allaboard.api.documents import Document

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+[^.\[\]]*|'.*", re.DOTALL)


class BadPath(ValueError):
    """A path that leads nowhere; its text is the API server's."""


def follow(path: str, schema: Document, *, brackets: bool = True) -> Document:
    """The schema of what a path points to."""
    tokens, at = _TOKEN.findall(path), 0
    while at < len(tokens):
        token = tokens[at]
        if token == "[" and not brackets:
            raise BadPath("array notation is not allowed")
        if token not in (".", "["):
            raise BadPath(f"expected [ or . but got: {token}")
        if at + 1 == len(tokens):
            raise BadPath("unexpected end of JSON path")
        name = tokens[at + 1]
        if token == ".":
            schema, at = _child(schema, name), at + 2
            continue
        if len(name) < 2 or name[0] != "'" or name[-1] != "'":
            raise BadPath(f"expected single quoted string but got {name}")
        schema = _child(schema, re.sub(r"\\(.)", r"\1", name[1:-1]))
        if at + 2 == len(tokens):
            raise BadPath("unexpected end of JSON path")
        if tokens[at + 2] != "]":
            raise BadPath(f"expected ] but got {tokens[at + 2]}")
        at += 3
    return schema


def _child(schema: Document, name: str) -> Document:
    fields, values = schema.get("properties"), schema.get("additionalProperties")
    if fields:
        if name not in fields:
            raise BadPath("does not refer to a valid field")
        return fields[name] or {}
    if values is None:
        raise BadPath("does not refer to a valid field")
    return values if isinstance(values, dict) else {}
