"""The checks a schema makes of a value: type, bounds, length, pattern, format, enum, and the junctors (anyOf …)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from allaboard.api.documents import Document
from allaboard.schema.findings import INVALID, TOO_LONG, TOO_MANY, TYPE, UNSUPPORTED, Path, Run, dotted, quoted, shown
from allaboard.schema.formats import FORMATS
from allaboard.schema.nodes import Node
from allaboard.schema.patterns import compiled

Check = Callable[[Any, Path, Run], None]
Walk = Callable[[Node], Callable[[Any, Path, Run], Any]]

_NAMES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
_NAMES |= {dict: "object", type(None): "null"}
_RANGES = {"int32": 2**31, "int64": 2**63}
_PYTHON = {"string": str, "boolean": bool, "object": dict, "array": list}
_NUMERIC = ("minimum", "maximum", "multipleOf")
_TEXTUAL = ("minLength", "maxLength", "pattern")
_SIZED = ("minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems")


def type_name(value: Any) -> str:
    """The JSON type of a value; an integer beyond 64 bits is a float to Go."""
    name = _NAMES[type(value)]
    return "number" if name == "integer" and not -(2**63) <= value < 2**63 else name


def is_plain(node: Node) -> type | None:
    """The Python type that settles everything, where a node checks its type and nothing else."""
    known = {"type", "description", "default", "nullable", "x-kubernetes-validations", "title", "example"}
    known.add("x-omit-empty")  # about what is absent, which whoever holds the value sees to
    wanted = _PYTHON.get(node.type)
    return wanted if wanted in (str, bool) and not set(node.schema) - known else None


_KNOWN = frozenset(
    {"type", "description", "default", "nullable", "title", "example", "format", "x-kubernetes-int-or-string"}
    | {"x-kubernetes-validations", "minimum", "maximum", "minLength", "maxLength", "pattern", "enum", "anyOf"}
)
_EITHER = ([{"type": "integer"}, {"type": "string"}], [{"type": "string"}, {"type": "integer"}])


def accepting(node: Node) -> Callable[[Any], bool] | None:
    """A quick yes to the texts a scalar usually has; whatever it does not accept is looked at in full."""
    if _is_simple(node) and node.type in ("string", "int-or-string") and "format" not in node.schema:
        return _accepting_text(node.schema, numbers=node.type != "string")
    return None


def whole_range(node: Node) -> tuple[float, float] | None:
    """Between which integers, both included, there is nothing more to look at."""
    schema = node.schema
    if node.type != "integer" or not _is_simple(node) or schema.get("format", "") not in ("", *_RANGES):
        return None
    bound = _RANGES.get(schema.get("format", ""), 2**63)
    return max(schema.get("minimum", -bound), -bound), min(schema.get("maximum", bound), bound - 1)


def _is_simple(node: Node) -> bool:
    schema = node.schema
    return not set(schema) - _KNOWN and schema.get("anyOf", _EITHER[0]) in _EITHER and "enum" not in schema


def _accepting_text(schema: Document, *, numbers: bool) -> Callable[[Any], bool]:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength", math.inf)
    matches = lru_cache(maxsize=1024)(compiled(schema["pattern"]).search) if schema.get("pattern") else None

    def accepts(value: Any) -> bool:
        if type(value) is not str:
            return numbers and type(value) is int and -(2**63) <= value < 2**63
        return shortest <= len(value) <= longest and (matches is None or matches(value) is not None)

    return accepts


def type_check(node: Node) -> Check | None:
    """The check that a value has the type (and numeric format) its schema declares."""
    if not node.type:
        return None
    wanted = "integer,string" if node.type == "int-or-string" else node.type
    accepted = frozenset(wanted.split(",")) | ({"integer"} if wanted == "number" else set())
    form = node.schema.get("format", "") if node.type in ("integer", "number") else ""

    def check(value: Any, path: Path, run: Run) -> None:
        found = type_name(value)
        if found in accepted or (found == "number" and "integer" in accepted and _is_whole(value)):
            return
        if form and found not in ("string", "array", "null"):
            run.wrong_type(path, form, "float64" if found == "number" else "")
        else:
            run.wrong_type(path, wanted, found)

    return check


def _is_whole(value: float) -> bool:
    return abs(value) < 2**53 and value == int(value)


def checks_of(node: Node, walk: Walk) -> list[Check]:
    """Every check of a node but its type, in the order the API server reports them."""
    schema = node.schema
    found = [*_junctors(schema, walk)]
    if any(key in schema for key in _TEXTUAL):
        found.append(_text(schema))
    if node.type in ("string", "") and schema.get("format") in FORMATS:
        found.append(_format(schema["format"]))
    if node.type in ("integer", "number") or any(key in schema for key in _NUMERIC):
        found.append(_number(schema, node.type))
    if any(key in schema for key in _SIZED):
        found.append(_size(schema))
    if "enum" in schema:
        found.append(_enum(schema["enum"]))
    return found


def _text(schema: Document) -> Check:
    shortest, longest, pattern = schema.get("minLength", 0), schema.get("maxLength"), schema.get("pattern")
    matches = compiled(pattern).search if pattern else None

    def check(value: Any, path: Path, run: Run) -> None:
        if not isinstance(value, str):
            return
        # Upstream stops at the first of the three.
        if longest is not None and len(value) > longest:
            run.add(TOO_LONG, path, f"Too long: may not be more than {longest} bytes")
        elif len(value) < shortest:
            run.invalid(path, value, f"should be at least {shortest} chars long")
        elif matches and not matches(value):
            run.invalid(path, value, f"should match '{pattern}'")

    return check


def _format(name: str) -> Check:
    holds = FORMATS[name]

    def check(value: Any, path: Path, run: Run) -> None:
        if isinstance(value, str) and not holds(value):
            text = quoted(value)
            run.add(TYPE, path, f"Invalid value: {text}: {dotted(path)} in body must be of type {name}: {text}")

    return check


def _number(schema: Document, kind: str) -> Check:
    form, factor = schema.get("format", ""), schema.get("multipleOf")
    above = (schema.get("maximum"), schema.get("exclusiveMaximum"), 1)
    below = (schema.get("minimum"), schema.get("exclusiveMinimum"), -1)
    bound = _RANGES.get(form, 2**63)

    def check(value: Any, path: Path, run: Run) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if kind == "integer" and not (-bound <= value < bound and value == int(value)):
            form_words = f"with format {form}" if form else "(default format)"
            run.nowhere(path, f"Checked value must be of type integer {form_words} in {dotted(path)}")
        if factor is not None:
            _multiple(value, factor, path, run)
        for limit, exclusive, side in (above, below):
            if limit is not None:
                _limit(value, limit, path, run, side=side * (2 if exclusive else 1))

    return check


def _multiple(value: float, factor: float, path: Path, run: Run) -> None:
    # Upstream: an integer is measured with the factor cut to an integer, so 0.5 becomes 0 and is refused itself.
    step = int(factor) if isinstance(value, int) else factor
    if step <= 0:
        words = f"factor MultipleOf declared for {dotted(path)} must be positive: {shown(step)}"
        run.add(INVALID, path, f"Invalid value: {shown(step)}: {words}")
    elif abs(value / step - round(value / step)) > 1e-9:
        run.invalid(path, value, f"should be a multiple of {shown(step)}")


def _limit(value: float, limit: float, path: Path, run: Run, *, side: int) -> None:
    limit = int(limit) if isinstance(value, int) else limit
    broken = {1: value > limit, 2: value >= limit, -1: value < limit, -2: value <= limit}[side]
    words = {1: "less than or equal to", 2: "less than", -1: "greater than or equal to", -2: "greater than"}[side]
    if broken:
        run.invalid(path, value, f"should be {words} {shown(limit)}")


def _size(schema: Document) -> Check:
    bounds: dict[type, tuple[str, str, str]] = {
        list: ("minItems", "maxItems", "items"),
        dict: ("minProperties", "maxProperties", "properties"),
    }

    def check(value: Any, path: Path, run: Run) -> None:
        if type(value) not in bounds:
            return
        fewest, most, noun = bounds[type(value)]
        if len(value) < schema.get(fewest, 0):
            run.invalid(path, len(value), f"should have at least {schema[fewest]} {noun}")
        if most in schema and len(value) > schema[most]:
            things = "item" if schema[most] == 1 else "items"
            run.add(TOO_MANY, path, f"Too many: {len(value)}: must have at most {schema[most]} {things}")
        if schema.get("uniqueItems") and any(item in value[:index] for index, item in enumerate(value)):
            run.invalid(path, value, "shouldn't contain duplicates")

    return check


def _enum(allowed: list[Any]) -> Check:
    def check(value: Any, path: Path, run: Run) -> None:
        if not any(value == option and isinstance(value, bool) == isinstance(option, bool) for option in allowed):
            options = ", ".join(quoted(option if isinstance(option, str) else shown(option)) for option in allowed)
            run.add(UNSUPPORTED, path, f"Unsupported value: {shown(value)}: supported values: {options}")

    return check


def _junctors(schema: Document, walk: Walk) -> list[Check]:
    makers = {"allOf": _all_of, "anyOf": _any_of, "oneOf": _one_of}
    found = [make([_branch(part, walk) for part in schema[key]]) for key, make in makers.items() if schema.get(key)]
    return [*found, _not(_branch(schema["not"], walk))] if schema.get("not") else found


def _branch(schema: Document, walk: Walk) -> Callable[[Any, Path], Run]:
    """A schema that only judges: it neither prunes nor fills in."""
    node = Node({"x-kubernetes-preserve-unknown-fields": True, **schema})

    def judge(value: Any, path: Path) -> Run:
        run = Run()
        walk(node)(value, path, run)
        return run

    return judge


def _all_of(branches: list[Callable[[Any, Path], Run]]) -> Check:
    def check(value: Any, path: Path, run: Run) -> None:
        failed = [found for found in (judge(value, path).findings for judge in branches) if found]
        if failed:
            none = ". None validated" if len(failed) == len(branches) else ""
            run.nowhere(path, f"{quoted(dotted(path))} must validate all the schemas (allOf){none}")
            run.findings.extend(finding for found in failed for finding in found)

    return check


def _any_of(branches: list[Callable[[Any, Path], Run]]) -> Check:
    def check(value: Any, path: Path, run: Run) -> None:
        runs = [judge(value, path) for judge in branches]
        if all(judged.findings for judged in runs):
            run.nowhere(path, f"{quoted(dotted(path))} must validate at least one schema (anyOf)")
            run.findings.extend(runs[0].findings)

    return check


def _one_of(branches: list[Callable[[Any, Path], Run]]) -> Check:
    def check(value: Any, path: Path, run: Run) -> None:
        runs = [judge(value, path) for judge in branches]
        valid = sum(not judged.findings for judged in runs)
        if valid == 1:
            return
        count = f"Found {valid} valid alternatives" if valid else "Found none valid"
        run.nowhere(path, f"{quoted(dotted(path))} must validate one and only one schema (oneOf). {count}")
        run.findings.extend([] if valid else runs[0].findings)

    return check


def _not(judge: Callable[[Any, Path], Run]) -> Check:
    def check(value: Any, path: Path, run: Run) -> None:
        if not judge(value, path).findings:
            run.nowhere(path, f"{quoted(dotted(path))} must not validate the schema (not)")

    return check


def pattern_complaint(pattern: str) -> str:
    """Why a pattern cannot be used, or the empty text."""
    try:
        compiled(pattern)
    except re.error as problem:
        return str(problem)
    return ""
