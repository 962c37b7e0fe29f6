"""Rows of the reference's own unit tests."""

from __future__ import annotations
from collections.abc import Iterator
from typing import Any


def judge(row: dict[str, Any]) -> Iterator[str]:
    return iter(())
