"""Regular expressions in the dialect of Kubernetes (RE2), compiled for Python."""

from __future__ import annotations

import re
from functools import lru_cache

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PIECE = re.compile(r"\\.|\[:(\^?)(\w+):\]|\[|\]|\$|\(\?[a-zA-Z-]+[:)]|\(\?<|.", re.DOTALL)
_REFUSED = re.compile(r"\\[1-9]|\(\?(?:[=!]|<[=!]|P=|P>|\(|>)|[*+?}]\+")
_FLAGS = {"m": re.MULTILINE, "i": re.IGNORECASE, "s": re.DOTALL}


@lru_cache(maxsize=2048)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, meaning what RE2 means by it; `re.error` where RE2 would refuse it too."""
    if _REFUSED.search(re.sub(r"\\[\\()\[\]]|\[\^?\]?[^\]]*\]", "x", pattern)):
        raise re.error(f"invalid or unsupported Perl syntax: `{pattern}`")
    flags, text = _leading_flags(pattern)
    return re.compile(_translated(text, multiline=bool(flags & re.MULTILINE)), flags | re.ASCII)


def _leading_flags(pattern: str) -> tuple[int, str]:
    found = re.match(r"\(\?([ims]+)\)", pattern)
    if not found:
        return 0, pattern
    flags = 0
    for letter in found[1]:
        flags |= _FLAGS[letter]
    return flags, pattern[found.end() :]


def _translated(pattern: str, *, multiline: bool) -> str:
    out, inside = [], False
    for found in _PIECE.finditer(pattern):
        piece = found[0]
        if inside and found[2]:
            piece = _POSIX.get(found[2], "") if not found[1] else ""
        elif piece in ("[", "]"):
            piece, inside = ("\\[", True) if inside and piece == "[" else (piece, piece == "[")
        elif piece == "\\z" or (piece == "$" and not inside and not multiline):
            piece = "\\Z"
        elif piece == "(?<":
            piece = "(?P<"
        out.append(piece)
    return "".join(out)


_NESTED = re.compile(r"(?:[*+?]|\{\d+,?\d*\})(?:[*+]|\{\d+,?\d*\})")
_COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
MOST = 1000  # Upstream: nothing may be repeated more often


def complaint(pattern: str) -> str:
    """What Go says of a pattern that it cannot read; nothing where it can."""
    plain = re.sub(r"\\.|\[[^\]]*\]", "x", pattern)
    try:
        words = _repeats(plain)
        compiled(pattern)
    except re.error as problem:
        words = words or _go_words(pattern, problem)
    except (RecursionError, OverflowError):
        words = f"expression nests too deeply: `{pattern}`"
    return f"error parsing regexp: {words}" if words else ""


def _repeats(plain: str) -> str:
    if nested := _NESTED.search(plain):
        return f"invalid nested repetition operator: `{nested[0]}`"
    for found in _COUNT.finditer(plain):
        least, most = int(found[1]), int(found[2] or found[1])
        if max(least, most) > MOST or most < least:
            return f"invalid repeat count: `{found[0]}`"
    return ""


def _go_words(pattern: str, problem: re.error) -> str:
    """Python's complaint in Go's words, with the piece of the pattern that Go quotes."""
    text, at = str(problem), problem.pos or 0
    if perl := re.search(r"\(\?(?:<[=!]|P[=>]|[=!>(])", pattern):
        return f"invalid or unsupported Perl syntax: `{perl[0]}`"
    if found := re.search(r"\\[1-9]", pattern):
        return f"invalid escape sequence: `{found[0]}`"
    if (found := re.search(r"\[:\w*:\]", pattern)) and found[0][2:-2] not in _POSIX:
        return f"invalid character class range: `{found[0]}`"
    if "unterminated character set" in text:
        return f"missing closing ]: `{pattern[at:]}`"
    if "unterminated subpattern" in text or "missing )" in text:
        return f"missing closing ): `{pattern}`"
    if "unbalanced parenthesis" in text:
        return f"unexpected ): `{pattern}`"
    if "nothing to repeat" in text:
        return f"missing argument to repetition operator: `{pattern[at : at + 1]}`"
    if "bad escape (end of pattern)" in text:
        return "trailing backslash at end of expression: ``"
    if found := re.match(r"bad escape (\S+)", text):
        return f"invalid escape sequence: `{found[1]}`"
    if found := re.match(r"bad character range (\S+)", text):
        return f"invalid character class range: `{found[1]}`"
    return f"invalid or unsupported Perl syntax: `{pattern}`"
