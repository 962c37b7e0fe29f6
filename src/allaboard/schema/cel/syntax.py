"""CEL text to a tree: the words of the language, its operators by precedence, and what is no CEL at all."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<bytes>[bB][rR]?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<raw>[rR](?:'''.*?'''|\"\"\".*?\"\"\"|'[^'\n]*'|"[^"\n]*"))
    |(?P<string>'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|X[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BINARY = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
_RESERVED = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
    }
    | {"return", "var", "void", "while"}
)
_EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
DEEPEST = 200


class UInt(int):
    """An unsigned number: `1u`."""


class CelSyntaxError(Exception):
    """Everything that is no CEL: where (offset) and what."""

    def __init__(self, *problems: tuple[int, str]) -> None:
        super().__init__(problems[0][1])
        self.all = list(problems)


@dataclass(frozen=True, slots=True)
class Expr:
    """A piece of the tree: what it is (`op`), its parts, and where it stands in the text.

    op: const, name, select, has, index, call, member, list, map, cond, and the operators themselves.
    """

    op: str
    at: int
    value: Any = None
    args: tuple[Expr, ...] = ()
    optional: tuple[bool, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Expr:
    """The tree of an expression; raises `CelSyntaxError`."""
    tokens, unreadable = _tokens(text)
    parser = _Parser(tokens)
    try:
        tree = parser.expression()
        if parser.peek.kind != "end":
            raise CelSyntaxError(
                (parser.peek.at, f"Syntax error: extraneous input '{parser.peek.text}' expecting <EOF>")
            )
    except CelSyntaxError as problem:
        raise CelSyntaxError(*sorted([*unreadable, *problem.all])) from None
    if unreadable:
        raise CelSyntaxError(*unreadable)
    return tree


def _tokens(text: str) -> tuple[list[Token], list[tuple[int, str]]]:
    """The words of a text, and what in it is none; reading goes on behind that."""
    found, unreadable, at = list[Token](), list[tuple[int, str]](), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            noise = _noise(text, at)
            unreadable.append((at, f"Syntax error: token recognition error at: '{noise}'"))
            at += len(noise)
            continue
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup or "", match[0], at))
        at = match.end()
    return [*found, Token("end", "<EOF>", len(text))], unreadable


def _noise(text: str, at: int) -> str:
    """What upstream's reader swallows of something that is no word: half an operator takes the next sign with it."""
    if text[at] in "'\"":
        end = text.find("\n", at)
        return text[at:] if end < 0 else text[at : end + 1]
    return text[at : at + 2] if text[at] in "=&|" else text[at]


class _Parser:
    """Recursive descent, one method per level of the grammar."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.position, self.depth = tokens, 0, 0

    @property
    def peek(self) -> Token:
        return self.tokens[self.position]

    def take(self, text: str = "") -> Token:
        token = self.peek
        if text and (token.text != text or token.kind in ("string", "raw")):
            raise CelSyntaxError((token.at, f"Syntax error: mismatched input '{token.text}' expecting '{text}'"))
        self.position += 1
        return token

    def at_op(self, *texts: str) -> bool:
        return self.peek.kind in ("op", "name") and self.peek.text in texts

    def expression(self) -> Expr:
        self.depth += 1
        if self.depth > DEEPEST:
            raise CelSyntaxError((self.peek.at, "expression recursion limit exceeded: 250"))
        condition = self.binary(0)
        if self.at_op("?"):
            mark = self.take()
            yes = self.binary(0)
            self.take(":")
            condition = Expr("cond", mark.at, None, (condition, yes, self.expression()))
        self.depth -= 1
        return condition

    def binary(self, level: int) -> Expr:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.at_op(*_BINARY[level]):
            token = self.take()
            left = Expr(token.text, token.at, None, (left, self.binary(level + 1)))
        return left

    def unary(self) -> Expr:
        if not self.at_op("!", "-"):
            return self.postfix(self.primary())
        token = self.take()
        if token.text == "-" and self.peek.kind in ("int", "float"):
            number = self.primary() if self.peek.text != str(2**63) else Expr("const", self.take().at, 2**63)
            return self.postfix(Expr("const", token.at, _negated(number, token.at)))
        self.depth += 1
        if self.depth > DEEPEST:
            raise CelSyntaxError((token.at, "expression recursion limit exceeded: 250"))
        operand = self.unary()
        self.depth -= 1
        return Expr("not" if token.text == "!" else "neg", token.at, None, (operand,))

    def postfix(self, operand: Expr) -> Expr:
        while self.at_op(".", "["):
            operand = self.member(operand) if self.peek.text == "." else self.index(operand)
        return operand

    def member(self, operand: Expr) -> Expr:
        dot = self.take(".")
        optional = bool(self.at_op("?") and self.take())
        name = self.take()
        if name.kind != "name":
            raise CelSyntaxError((name.at, f"Syntax error: mismatched input '{name.text}' expecting IDENTIFIER"))
        if not self.at_op("("):
            return Expr("select", dot.at, name.text, (operand,), (optional,))
        opening = self.take("(")
        return Expr("member", opening.at, name.text, (operand, *self.arguments(")")))

    def index(self, operand: Expr) -> Expr:
        opening = self.take("[")
        optional = bool(self.at_op("?") and self.take())
        key = self.expression()
        self.take("]")
        return Expr("index", opening.at, None, (operand, key), (optional,))

    def arguments(self, closing: str) -> list[Expr]:
        found: list[Expr] = []
        while not self.at_op(closing):
            found.append(self.expression())
            if not self.at_op(closing):
                self.take(",")
                if self.at_op(closing) and closing == ")":
                    raise self.unexpected()
        self.take(closing)
        return found

    def primary(self) -> Expr:
        token = self.take()
        if token.kind in _LITERALS:
            return Expr("const", token.at, _LITERALS[token.kind](token))
        if token.kind == "name" or token.text == ".":
            return self.name(token)
        if token.text == "(":
            inside = self.expression()
            self.take(")")
            return inside
        if token.text == "[":
            return self.list_literal(token)
        if token.text == "{":
            return self.map_literal(token)
        self.position -= 1
        raise self.unexpected()

    def unexpected(self) -> CelSyntaxError:
        words = f"Syntax error: mismatched input '{self.peek.text}' expecting {_EXPECTED}"
        return CelSyntaxError((self.peek.at, words))

    def name(self, token: Token) -> Expr:
        if token.text == ".":
            token = self.take()
        if token.text in ("true", "false", "null"):
            return Expr("const", token.at, {"true": True, "false": False, "null": None}[token.text])
        if token.text in _RESERVED or token.text == "in":
            raise CelSyntaxError((token.at, f"reserved identifier: {token.text}"))
        if not self.at_op("("):
            return Expr("name", token.at, token.text)
        opening = self.take("(")
        return Expr("call", opening.at, token.text, tuple(self.arguments(")")))

    def list_literal(self, token: Token) -> Expr:
        items: list[Expr] = []
        flags: list[bool] = []
        while not self.at_op("]"):
            flags.append(bool(self.at_op("?") and self.take()))
            items.append(self.expression())
            if not self.at_op("]"):
                self.take(",")
        self.take("]")
        return Expr("list", token.at, None, tuple(items), tuple(flags))

    def map_literal(self, token: Token) -> Expr:
        parts: list[Expr] = []
        flags: list[bool] = []
        while not self.at_op("}"):
            flags.append(bool(self.at_op("?") and self.take()))
            parts.append(self.expression())
            self.take(":")
            parts.append(self.expression())
            if not self.at_op("}"):
                self.take(",")
        self.take("}")
        return Expr("map", token.at, None, tuple(parts), tuple(flags))


def _negated(number: Expr, at: int) -> Any:
    value = -number.value
    if isinstance(number.value, UInt):
        raise CelSyntaxError((at, "found no matching overload for '-_' applied to '(uint)'"))
    return value


def _number(token: Token) -> int:
    text = token.text.lower()
    value = int(text.rstrip("u"), 16 if text.startswith("0x") else 10)
    if text.endswith("u"):
        return UInt(value)
    if value >= 2**63:
        raise CelSyntaxError((token.at, "invalid int literal"))
    return value


def _string(token: Token) -> str:
    text = token.text
    quotes = 3 if text[:3] in ("'''", '"""') else 1
    return unescaped(text[quotes:-quotes], token.at)


def _raw(token: Token) -> str:
    text = token.text[1:]
    quotes = 3 if text[:3] in ("'''", '"""') else 1
    return text[quotes:-quotes]


def _bytes(token: Token) -> bytes:
    rest = token.text[1:]
    if rest[0] in "rR":
        return _raw(Token("raw", rest, token.at)).encode()
    return _string(Token("string", rest, token.at)).encode()


def unescaped(text: str, at: int) -> str:
    """A quoted text with its escapes read."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xXuU":
            return chr(int(code[1:], 16))
        if len(code) == 3:
            return chr(int(code, 8))
        if code in _LETTERS or code in "\\?\"'`":
            return _LETTERS.get(code, code)
        raise CelSyntaxError((at, f"Syntax error: token recognition error at: '{match[0]}'"))

    return _ESCAPE.sub(one, text)


_LITERALS: dict[str, Any] = {
    "int": _number,
    "float": lambda token: float(token.text),
    "string": _string,
    "raw": _raw,
    "bytes": _bytes,
}
