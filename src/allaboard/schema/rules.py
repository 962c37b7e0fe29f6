"""The validation rules (CEL) that stand in a schema, evaluated over a document and its old self."""

from __future__ import annotations

from typing import Any

from allaboard.api.errors import Cause
from allaboard.schema.nodes import Node


def broken_rules(root: Node, document: Any, old: Any) -> list[Cause]:
    return []
