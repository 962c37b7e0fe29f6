"""What the query of a request says, read and checked in Kubernetes' words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, Cause
from allaboard.api.selectors import BadSelector, FieldSelector, Selector, parse_fields, parse_labels
from allaboard.cluster import refusals
from allaboard.cluster.read import Query
from allaboard.cluster.rules import Rules

Values = Mapping[str, Sequence[str]]
LONGEST_MANAGER = 128


def first(values: Values, name: str) -> str:
    found = values.get(name)
    return found[0] if found else ""


def number(values: Values, name: str) -> int:
    if name not in values:
        return 0
    text = first(values, name)
    try:
        found = int(text) if text.isascii() and text.strip() == text and "_" not in text else int("x")
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if not -(2**63) <= found < 2**63:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return found


def no_revision(text: str) -> str:
    """What is wrong with a text as a resource version; "" where nothing is."""
    if not text or (text.isdecimal() and text.isascii() and int(text) < 2**64):
        return ""
    why = "value out of range" if text.isdecimal() else "invalid syntax"
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}'


def truth(values: Values, name: str) -> bool:
    """Upstream: a parameter that is there is true, unless it says `false` or `0`."""
    found = values.get(name)
    return bool(found) and found[0].lower() != "false" and found[0] != "0"  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What a list or watch asks for."""

    query: Query
    watch: bool = False
    timeout: int = 0
    bookmarks: bool = False
    initial: bool = False  # sendInitialEvents: what is there first, then a bookmark that says so
    silent: bool = False  # sendInitialEvents=false: only what happens from now on


def read_list(rules: Rules, values: Values) -> ListOptions:
    """The options of a list, a watch or a deletecollection."""
    limit, timeout, watch = number(values, "limit"), number(values, "timeoutSeconds"), truth(values, "watch")
    labels, fields = read_selectors(rules, values)
    start, revision = first(values, "continue"), first(values, "resourceVersion")
    match = first(values, "resourceVersionMatch")
    initial = "sendInitialEvents" in values
    causes = (
        _watch_causes(match, initial=initial, start=start) if watch else _list_causes(values, match, revision, start)
    )
    if causes:
        raise refusals.options_invalid("ListOptions", causes)
    query = Query(labels, fields, limit, start, revision, match)
    wants = truth(values, "sendInitialEvents")
    return ListOptions(query, watch, timeout, truth(values, "allowWatchBookmarks"), wants, initial and not wants)


def _forbidden(words: str, field: str = "resourceVersionMatch") -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {words}")


def _unsupported_match(match: str) -> list[Cause]:
    if match in ("Exact", "NotOlderThan"):
        return []
    words = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
    return [Cause("FieldValueNotSupported", "resourceVersionMatch", words)]


def _list_causes(values: Values, match: str, revision: str, start: str) -> list[Cause]:
    causes = []
    if match:
        if not revision:
            causes.append(_forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if start:
            causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
        causes += _unsupported_match(match)
        if match == "Exact" and revision == "0":
            causes.append(_forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if "sendInitialEvents" in values:
        causes.append(_forbidden("sendInitialEvents is forbidden for list", "sendInitialEvents"))
    return causes


def _watch_causes(match: str, *, initial: bool, start: str) -> list[Cause]:
    causes = []
    if initial and match != "NotOlderThan":
        causes.append(_forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match and not initial:
        causes.append(_forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
    if match not in ("", "NotOlderThan"):
        words = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
        causes.append(Cause("FieldValueNotSupported", "resourceVersionMatch", words))
    if start:
        causes.append(_forbidden("resourceVersionMatch is forbidden when continue is provided"))
    return causes


def read_selectors(rules: Rules, values: Values) -> tuple[Selector, FieldSelector]:
    labels = parse_labels(first(values, "labelSelector"))
    fields = parse_fields(first(values, "fieldSelector"))
    for path in fields.fields:
        if path not in _general(rules) and path not in rules.fields and path not in rules.accepted:
            raise BadSelector(_unknown_field(rules, path))
    return labels, fields


def _general(rules: Rules) -> tuple[str, ...]:
    """What objects are selected by whatever their kind; upstream asks no node, but a role, for its namespace."""
    if rules.kind.namespaced or not rules.fields:
        return ("metadata.name", "metadata.namespace")
    return ("metadata.name",)


def _unknown_field(rules: Rules, path: str) -> str:
    if rules.kind.kind == "Job" and not rules.custom:
        return f'field label "{path}" not supported for Job'
    if rules.custom or rules.fields or rules.accepted:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a create, update or patch asks for."""

    dry_run: bool = False
    manager: str = ""
    validation: str = "Warn"
    force: bool = False
    document: Document = field(default_factory=dict)  # as admission is shown them


def read_write(kind: str, values: Values, *, apply: bool = False) -> WriteOptions:
    """The options of a write; `kind` is how errors name them: CreateOptions, UpdateOptions, PatchOptions."""
    dry_run, manager = list(values.get("dryRun", ())), first(values, "fieldManager")
    validation = first(values, "fieldValidation")
    causes = [*dry_run_causes(dry_run), *_manager_causes(manager), *_validation_causes(validation)]
    if kind == "PatchOptions":
        causes += _apply_causes(values, manager) if apply else _plain_patch_causes(values)
    if causes:
        raise refusals.options_invalid(kind, causes)
    force, said = truth(values, "force"), dict[str, object]()
    said |= {"dryRun": dry_run} if dry_run else {}
    said |= {"fieldManager": manager} if manager else {}
    said |= {"fieldValidation": validation} if validation else {}
    return WriteOptions(bool(dry_run), manager, validation or "Warn", force, said)


def _apply_causes(values: Values, manager: str) -> list[Cause]:
    if manager:
        return []
    return [Cause("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")]


def _plain_patch_causes(values: Values) -> list[Cause]:
    return [_forbidden("may not be specified for non-apply patch", "force")] if "force" in values else []


def dry_run_causes(values: Sequence[str]) -> list[Cause]:
    if all(value == "All" for value in values):
        return []
    shown = "[" + ",".join(f'"{value}"' for value in values) + "]"
    return [Cause("FieldValueNotSupported", "dryRun", f'Unsupported value: {shown}: supported values: "All"')]


def _manager_causes(manager: str) -> list[Cause]:
    causes = []
    if len(manager.encode()) > LONGEST_MANAGER:
        words = f"Too long: may not be more than {LONGEST_MANAGER} bytes"
        causes.append(Cause("FieldValueTooLong", "fieldManager", words))
    for index, letter in enumerate(manager):
        if not letter.isprintable():
            words = f'Invalid value: "{_quoted(manager)}": invalid character U+{ord(letter):04X} (at position {index})'
            return [*causes, Cause("FieldValueInvalid", "fieldManager", words)]
    return causes


def _quoted(text: str) -> str:
    return text.encode("unicode_escape").decode().replace('"', '\\"')


def _validation_causes(validation: str) -> list[Cause]:
    if validation in ("", "Ignore", "Warn", "Strict"):
        return []
    words = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
    return [Cause("FieldValueNotSupported", "fieldValidation", words)]


def read_delete(values: Values) -> Document:
    """DeleteOptions as the query says them, in the form of a body."""
    options: Document = {}
    if "gracePeriodSeconds" in values:
        options["gracePeriodSeconds"] = number(values, "gracePeriodSeconds")
    if "orphanDependents" in values:
        options["orphanDependents"] = truth(values, "orphanDependents")
    if "propagationPolicy" in values:
        options["propagationPolicy"] = first(values, "propagationPolicy")
    if "dryRun" in values:
        options["dryRun"] = list(values["dryRun"])
    preconditions = {name: first(values, name) for name in ("uid", "resourceVersion") if first(values, name)}
    return options | ({"preconditions": preconditions} if preconditions else {})


def delete_causes(options: Document) -> list[Cause]:
    """What is wrong with DeleteOptions."""
    causes = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        words = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        causes.append(Cause("FieldValueInvalid", "propagationPolicy", words))
    if policy not in (None, "Foreground", "Background", "Orphan"):
        words = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        causes.append(Cause("FieldValueNotSupported", "propagationPolicy", words))
    return [*causes, *dry_run_causes(options.get("dryRun") or [])]
