"""What is wrong with the rules of a schema to be accepted: they must compile, and must not cost too much."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.schema.cel.compiler import CelCompileError, CelHopeless, Checked, check_rule
from allaboard.schema.cel.estimate import Estimator
from allaboard.schema.cel.sizes import below, capped, cardinality
from allaboard.schema.cel.types import Type, is_exposed, is_map, type_of
from allaboard.schema.findings import FORBIDDEN, INVALID, REQUIRED, UNSUPPORTED, shown
from allaboard.schema.nodes import MAP, Node

RULE_LIMIT, SCHEMA_LIMIT = 10_000_000, 100_000_000  # Upstream: of one rule, and of all rules of a schema
WORTH_NAMING = SCHEMA_LIMIT // 100
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


@dataclass(slots=True)
class Bill:
    """What all rules of a schema can cost together, and the dearest of them."""

    total: int = 0
    dearest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, cost: int, path: str) -> None:
        self.total = capped(self.total + cost)
        if cost >= WORTH_NAMING:
            self.dearest = sorted([*self.dearest, (cost, path)], key=lambda entry: -entry[0])[:4]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a schema a node stands: how often it can be there (None: nothing bounds it), and the nearest place
    above it whose old and new contents cannot be told to belong together."""

    path: str
    root: bool = False
    times: int | None = 1
    uncorrelated: str = ""

    def inner(self, step: str, node: Node, *, correlates: bool = True) -> Place:
        lost = self.uncorrelated or ("" if correlates else self.path)
        return Place(f"{self.path}.{step}", root=False, times=below(node, self.times), uncorrelated=lost)


def rule_faults(node: Node, path: str) -> list[Cause]:
    """What is wrong with the rules of a whole schema; what each costs too much, and all of them together."""
    bill = Bill()
    found = _faults_at(node, Place(path, root=True), bill)
    if bill.total > SCHEMA_LIMIT:
        named = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        found += [Cause(FORBIDDEN, where, f"Forbidden: {named}") for _, where in bill.dearest]
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        found.append(Cause(FORBIDDEN, path, _too_dear(what, bill.total, SCHEMA_LIMIT)))
    return found


def _faults_at(node: Node, place: Place, bill: Bill) -> list[Cause]:
    """Of what stands below a node, then of its own rules: those only where everything below is sound."""
    schema, found = node.schema, list[Cause]()
    if isinstance(schema.get("additionalProperties"), dict):
        inner = Node(schema["additionalProperties"])
        found += _faults_at(inner, place.inner("additionalProperties", node), bill)
    for name, part in (schema.get("properties") or {}).items():
        if isinstance(part, dict):
            found += _faults_at(Node(part), place.inner(f"properties[{name}]", node), bill)
    if isinstance(schema.get("items"), dict):
        keyed = node.list_type == "map"
        found += _faults_at(Node(schema["items"]), place.inner("items", node, correlates=keyed), bill)
    return found + _own(node, place, bill)


def _own(node: Node, place: Place, bill: Bill) -> list[Cause]:
    wheres = [f"{place.path}.x-kubernetes-validations[{index}]" for index in range(len(node.rules))]
    unsaid = [cause for facts, where in zip(node.rules, wheres) for cause in _unsaid(facts, where, node)]
    if unsaid:
        return unsaid
    if node.rules and not is_exposed(node):
        words = "failed to construct type information for x-kubernetes-validations rules"
        words = f"Internal error: internal error: {words}: unable to convert structural schema to CEL declarations"
        return [Cause("InternalError", f"{place.path}.x-kubernetes-validations", words)]
    return [
        cause for facts, where in zip(node.rules, wheres) for cause in _Rule(facts, where, node, place).faults(bill)
    ]


def _unsaid(facts: Document, where: str, node: Node) -> list[Cause]:
    """What a rule leaves out or says in a way nobody can print."""
    rule, message = str(facts.get("rule") or "").strip(), str(facts.get("message") or "")
    found: list[Cause] = []
    if not rule:
        found.append(Cause(REQUIRED, f"{where}.rule", "Required value: rule is not specified"))
    elif message and not message.strip():
        found.append(_invalid(f"{where}.message", message, "must be non-empty if specified"))
    elif _has_lines(message.strip()):
        found.append(_invalid(f"{where}.message", message, "must not contain line breaks"))
    elif _has_lines(rule) and not message.strip():
        words = "Required value: message must be specified if rule contains line breaks"
        found.append(Cause(REQUIRED, f"{where}.message", words))
    if facts.get("messageExpression") and not str(facts["messageExpression"]).strip():
        words = "Required value: messageExpression must be non-empty if specified"
        found.append(Cause(REQUIRED, f"{where}.messageExpression", words))
    if facts.get("reason") is not None and facts["reason"] not in REASONS:
        known = ", ".join(f'"{reason}"' for reason in REASONS)
        words = f"Unsupported value: {shown(facts['reason'])}: supported values: {known}"
        found.append(Cause(UNSUPPORTED, f"{where}.reason", words))
    if path := str(facts.get("fieldPath") or ""):
        found += [_invalid(f"{where}.fieldPath", path, why) for why in _misleading(path, node)]
    return found


_STEP = re.compile(r"\.([^.\[\]\s']+)|\['([^']*)'\]")


def _misleading(path: str, node: Node) -> list[str]:
    """Why a path below a rule's own place leads nowhere."""
    found = [] if path.strip() else ["must be non-empty if specified"]
    if _has_lines(path):
        found.append("must not contain line breaks")
    at, here = 0, node
    while at < len(path):
        step = _STEP.match(path, at)
        below = here.fields.get(step[1] or step[2]) if step else None
        if step and below is None and is_map(here):
            below = here.values
        if step is None or below is None or here.shape != MAP:
            return [*found, "must be a valid path"]
        at, here = step.end(), below
    return found


def _has_lines(text: str) -> bool:
    return bool(re.search(r"[\n\r]", text))


def _invalid(where: str, value: object, why: str) -> Cause:
    return Cause(INVALID, where, f"Invalid value: {shown(value)}: {why}")


class _Rule:
    """One rule on its way into a schema."""

    def __init__(self, facts: Document, where: str, node: Node, place: Place) -> None:
        self.facts, self.where, self.node, self.place = facts, where, node, place
        kind = type_of(node, root=place.root)
        self.variables = {"self": kind, "oldSelf": Type("optional", kind) if facts.get("optionalOldSelf") else kind}

    def faults(self, bill: Bill) -> list[Cause]:
        rule, found = self._checked("rule", "bool")
        if rule is not None:
            found += self._dear("rule", self._most(rule, self._times()), bill)
            if self.facts.get("messageExpression"):
                message, more = self._checked("messageExpression", "string")
                found += more
                if message is not None:
                    found += self._dear("messageExpression", self._most(message, 1), bill)
            found += self._about_the_past(rule)
        return found

    def _checked(self, name: str, wanted: str) -> tuple[Checked | None, list[Cause]]:
        try:
            checked = check_rule(self.facts[name], self.variables)
        except CelHopeless as problem:
            what = "program" if name == "rule" else name
            words = f"{what} instantiation failed: {problem}"
        except CelCompileError as problem:
            words = f"compilation failed: {problem}"
            if name == "messageExpression":
                words = f"messageExpression {words}"
        else:
            if checked.program.type.name in (wanted, "dyn"):
                return checked, []
            subject = "cel expression" if name == "rule" else name
            words = f"{subject} must evaluate to a {wanted}"
        return None, [Cause(INVALID, f"{self.where}.{name}", f"Invalid value: {_printed(self.facts)}: {words}")]

    def _times(self) -> int:
        return cardinality(self.node) if self.place.times is None else self.place.times

    def _most(self, checked: Checked, times: int) -> int:
        return capped(Estimator(self.node, checked.types, root=self.place.root).of(checked.tree).cost * times)

    def _dear(self, name: str, cost: int, bill: Bill) -> list[Cause]:
        where = f"{self.where}.{name}"
        bill.add(cost, where)
        if cost <= RULE_LIMIT:
            return []
        return [Cause(FORBIDDEN, where, _too_dear(f"estimated {name} cost", cost, RULE_LIMIT))]

    def _about_the_past(self, rule: Checked) -> list[Cause]:
        if "oldSelf" in rule.program.reads:
            if not self.place.uncorrelated:
                return []
            words = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
            return [_invalid(f"{self.where}.rule", self.facts["rule"], f"{words} {self.place.uncorrelated}")]
        if self.facts.get("optionalOldSelf") is None:
            return []
        why = "may not be set if oldSelf is not used in rule"
        return [_invalid(f"{self.where}.optionalOldSelf", self.facts["optionalOldSelf"], why)]


def _too_dear(what: str, cost: int, limit: int) -> str:
    times = cost / limit
    factor = "more than 100x" if times > 100 else f"{times:f}x" if times < 1.5 else f"{times:.1f}x"
    remedy = (
        "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings"
    )
    return f"Forbidden: {what} exceeds budget by factor of {factor} ({remedy} are declared)"


def _printed(facts: Document) -> str:
    """A rule as the API server prints it: Go's JSON of its struct."""
    names = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
    empty: dict[str, Any] = {"reason": None, "optionalOldSelf": None}
    values = {name[0].upper() + name[1:]: facts.get(name, empty.get(name, "")) for name in names}
    text = msgspec.json.encode(values).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
