"""The JSONPath of printer columns: fields, indexes, slices, `*`, filters by equality; missing is nothing.

Upstream accepts all of kubectl's JSONPath here; a column whose path we cannot read shows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Step = Callable[[list[object]], list[object]]
TOKEN = re.compile(
    r"""\.\.(?P<deep>[\w-]+)|\.(?P<field>(?:[\w$/-]|\\.)+|\*)|\[(?P<quoted>'[^']*'|"[^"]*")\]|\[(?P<any>\*)\]"""
    r"""|\[\?\(\s*@(?P<path>[^=!<>)\s]*)\s*(?P<operator>==|!=)?\s*(?P<value>'[^']*'|"[^"]*"|[^)\s]*)\s*\)\]"""
    r"""|\[(?P<slice>-?\d*:-?\d*)\]|\[(?P<index>-?\d+)\]"""
)


def find(path: str, document: object) -> list[object]:
    """Every value at a path, in order."""
    values = [document]
    for step in compiled(path):
        values = step(values)
    return values


@lru_cache(maxsize=1024)
def compiled(path: str) -> tuple[Step, ...]:
    """The steps of a path; a path that makes no sense leads nowhere."""
    text, steps, place = path.strip().removeprefix("{").removesuffix("}").removeprefix("$"), list[Step](), 0
    while place < len(text):
        token = TOKEN.match(text, place)
        if token is None:
            return (lambda values: [],)
        steps.append(_step(token))
        place = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    kind, given = token.lastgroup, token.groupdict()
    if given["path"] is not None:
        return _filter(given["path"], given["operator"], given["value"] or "")
    text = str(given[str(kind)])
    if kind == "deep":
        return lambda values: [found for value in values for found in _deep(value, text)]
    if kind in ("field", "quoted") and text != "*":
        name = text[1:-1] if kind == "quoted" else re.sub(r"\\(.)", r"\1", text)
        return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]
    if kind == "index":
        return lambda values: [item for value in values for item in _at(value, int(text))]
    if kind == "slice":
        first, _, last = text.partition(":")
        part = slice(int(first) if first else None, int(last) if last else None)
        return lambda values: [item for value in values if isinstance(value, list) for item in value[part]]
    return lambda values: [item for value in values for item in _items(value)]


def _at(value: object, index: int) -> list[object]:
    return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []


def _items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _deep(value: object, name: str) -> list[object]:
    here = [value[name]] if isinstance(value, dict) and name in value else []
    return here + [found for item in _items(value) for found in _deep(item, name)]


def _filter(path: str, operator: str | None, text: str) -> Step:
    wanted = text[1:-1] if text[:1] in ("'", '"') else text

    def keep(item: object) -> bool:
        found = find(path, item) if path else [item]
        if operator is None:
            return bool(found)
        same = any(_plain(value) == wanted for value in found)
        return same if operator == "==" else bool(found) and not same

    return lambda values: [item for value in values for item in _items(value) if keep(item)]


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
