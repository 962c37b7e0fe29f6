"""The rules (CEL) that stand in a schema, evaluated over a document and its old self."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.schema.cel.compiler import CelCompileError, Program, check_rule, compile_rule
from allaboard.schema.cel.operators import converter, equality
from allaboard.schema.cel.scope import DOCUMENT_LIMIT, TOO_COSTLY, Scope
from allaboard.schema.cel.syntax import Expr
from allaboard.schema.cel.types import Type, type_of
from allaboard.schema.cel.values import CelError, Optional
from allaboard.schema.findings import FORBIDDEN, INVALID, NOWHERE, REQUIRED, MapKey, Path, bracketed, shown
from allaboard.schema.nodes import LIST, MAP, Node

_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_MOST_HELD, _LONGEST_HELD = 1024, 1024


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule: its program, the program of its message, and what the schema says about it."""

    facts: Document
    program: Program
    message: Program | None
    is_transition: bool
    has_optional_old: bool
    at: tuple[str, ...] | None  # the only place that the rule reads, if there is such a one
    held: dict[str, int] = field(default_factory=dict)  # texts in that place with which it held, and what that cost

    def text_in(self, value: Any) -> str | None:
        """The text that decides whether the rule holds, if one does."""
        if self.at is None or self.is_transition:
            return None
        for step in self.at:
            value = value.get(step) if type(value) is dict else None
        return value if type(value) is str else None

    def keep(self, text: str, cost: int) -> None:
        if len(self.held) >= _MOST_HELD:
            self.held.clear()
        if len(text) <= _LONGEST_HELD:
            self.held[text] = cost

    @property
    def text(self) -> str:
        """How the rule is named when it could not be evaluated."""
        return str(self.facts.get("message") or self.facts["rule"]).strip()


def broken_rules(root: Node, document: Any, old: Any) -> list[Cause]:
    """What the rules of a schema say against a document."""
    judge = _Judge()
    judge.visit(root, document, old, None)
    return judge.causes


class _Judge:
    """One evaluation of all rules of a document: the causes found, and the budget left."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self.budget = DOCUMENT_LIMIT

    def visit(self, node: Node, value: Any, old: Any, path: Path) -> None:
        if value is None or self.budget <= 0 or (value is old and node.is_steady):
            return
        if node.rules:
            self.judge(node, value, old, path)
        if node.shape == MAP and isinstance(value, dict):
            ruled, others = _ruled(node, old), node.values if _is_ruled(node.values, old) else None
            for name, item in value.items():
                child = ruled.get(name) or (others if others and name not in node.fields else None)
                if child is not None:
                    step = name if name in ruled else MapKey(name)
                    self.visit(child, item, old.get(name) if isinstance(old, dict) else None, (path, step))
        elif node.shape == LIST and isinstance(value, list) and _is_ruled(node.items, old):
            for index, item in enumerate(value):
                self.visit(node.items, item, counterpart(node, item, old), (path, index))

    def judge(self, node: Node, value: Any, old: Any, path: Path) -> None:
        for rule in rules_of(node, root=path is None):
            if rule.is_transition and old is None and not rule.has_optional_old:
                continue
            if value is old and not rule.is_transition:
                continue  # whatever it said would be tolerated
            known = len(self.causes)
            self.evaluate(rule, node, value, old, path)
            # What was wrong before and did not change is tolerated, unless the rule is about the change itself.
            if len(self.causes) > known and not rule.is_transition and old is not None and _is_same(node, value, old):
                self.causes.pop()
            if self.budget <= 0:
                self.causes.append(Cause(INVALID, bracketed(path) or NOWHERE, f"Invalid value: {_OUT_OF_BUDGET}"))
                return

    def evaluate(self, rule: Rule, node: Node, value: Any, old: Any, path: Path) -> None:
        text = rule.text_in(value)
        if text and text in rule.held:
            self.budget -= rule.held[text]
            return
        scope = _scope(rule, node, value, old)
        try:
            scope.cost = rule.program.cost
            holds = rule.program.run(scope)
            scope.spend(0)
        except CelError as problem:
            words = _failure(str(problem), rule)
            kind = node.type or "object"
            self.causes.append(Cause(INVALID, bracketed(path) or NOWHERE, f'Invalid value: "{kind}": {words}'))
        else:
            if holds is not True:
                self.causes.append(_cause(rule, value, path, _message(rule, scope)))
            elif text:
                rule.keep(text, scope.cost)
        self.budget -= scope.cost


def _ruled(node: Node, old: Any) -> dict[str, Node]:
    """The declared fields of a struct under which rules stand that have something to say; most have none."""
    if node.ruled is None or node.ruled_new is None:
        node.ruled = {name: child for name, child in node.fields.items() if child.is_ruled}
        node.ruled_new = {name: child for name, child in node.ruled.items() if child.is_ruled_new}
    return node.ruled_new if old is None else node.ruled


def _is_ruled(node: Node | None, old: Any) -> bool:
    """Whether rules stand under a node; that something stays as it is says nothing of what is new."""
    return node is not None and (node.is_ruled_new if old is None else node.is_ruled)


def _is_same(node: Node, value: Any, old: Any) -> bool:
    same = equality(Type("list", None, node), Type("list", None, node))
    return same is not None and same(value, old)


def _scope(rule: Rule, node: Node, value: Any, old: Any) -> Scope:
    convert = converter(type_of(node))
    before = convert(old) if convert and old is not None else old
    if rule.has_optional_old:
        before = Optional(before, present=old is not None)
    return Scope({"self": convert(value) if convert else value, "oldSelf": before})


def _failure(problem: str, rule: Rule) -> str:
    if problem.startswith("no such overload"):
        words = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{problem}': {words}: {rule.text}"
    if problem == TOO_COSTLY:
        words = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{problem}': {words}: {rule.text}"
    return f"{problem} evaluating rule: {rule.text}"


def _message(rule: Rule, scope: Scope) -> str:
    """The words for a broken rule: its expression's, else its own, else the rule itself."""
    if rule.message:
        try:
            found = rule.message.run(scope)
        except CelError:
            found = ""
        if isinstance(found, str) and found.strip() and "\n" not in found.strip():
            return found.strip()
    return str(rule.facts.get("message") or f"failed rule: {rule.facts['rule']}").strip()


def _cause(rule: Rule, value: Any, path: Path, words: str) -> Cause:
    where = bracketed(path) + _pointed(rule.facts.get("fieldPath") or "")
    where = where.removeprefix(".") or NOWHERE
    reason = rule.facts.get("reason") or INVALID
    if reason == FORBIDDEN:
        return Cause(reason, where, f"Forbidden: {words}")
    if reason == REQUIRED:
        return Cause(reason, where, f"Required value: {words}")
    if reason == "FieldValueDuplicate":
        return Cause(reason, where, f"Duplicate value: {shown(value)}")
    plain = isinstance(value, str | int | float) and not rule.facts.get("fieldPath")
    return Cause(INVALID, where, f"Invalid value: {shown(value)}: {words}" if plain else f"Invalid value: {words}")


def _pointed(path: str) -> str:
    """A rule's `fieldPath` below its own place: `.a['b.c']` is `.a[b.c]` for a map's key."""
    return re.sub(r"\['([^']*)'\]", r"[\1]", path)


def counterpart(node: Node, item: Any, old: Any) -> Any:
    """The old item with the same keys; only keyed lists tell which one that is."""
    if node.list_type != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return None
    keys = [item.get(key) for key in node.keys]
    return next((o for o in old if isinstance(o, dict) and [o.get(key) for key in node.keys] == keys), None)


def rules_of(node: Node, *, root: bool) -> list[Rule]:
    """The rules of a node, compiled once; those that do not compile were never admitted, and are left out."""
    if node.programs is None:
        node.programs = []
        for facts in node.rules:
            try:
                node.programs.append(_compiled(facts, node, root=root))
            except CelCompileError:
                continue
    found: list[Rule] = node.programs
    return found


def _compiled(facts: Document, node: Node, *, root: bool) -> Rule:
    kind = type_of(node, root=root)
    variables = {"self": kind, "oldSelf": Type("optional", kind) if facts.get("optionalOldSelf") else kind}
    message = None
    if facts.get("messageExpression"):
        message = compile_rule(facts["messageExpression"], variables)
    checked = check_rule(facts["rule"], variables)
    about_change, optional = "oldSelf" in checked.program.reads, bool(facts.get("optionalOldSelf"))
    return Rule(facts, checked.program, message, about_change, optional, only_place(checked.tree))


def only_place(tree: Expr) -> tuple[str, ...] | None:
    """The path below `self` that an expression reads, if it reads no other: `("metadata", "name")`."""
    places = set(_places(tree))
    found = places.pop() if len(places) == 1 else None
    # What an escaped name stands for depends on where it stands.
    return None if found is None or any("__" in step for step in found) else found


def _places(expr: Expr) -> Iterator[tuple[str, ...]]:
    """Every path below `self` that is read."""
    steps = list[str]()
    while expr.op == "select":
        steps.append(expr.value)
        expr = expr.args[0]
    if expr.op == "name" and expr.value == "self":
        yield tuple(reversed(steps))
    for part in expr.args:
        yield from _places(part)
