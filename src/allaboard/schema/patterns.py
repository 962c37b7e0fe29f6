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
    if _REFUSED.search(re.sub(r"\\[\\()\[\]]", "", pattern)):
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
