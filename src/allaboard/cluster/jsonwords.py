"""What the reference implementation's JSON reader says of a text that is no JSON."""

from __future__ import annotations

END = "unexpected end of JSON input"
SPACE = b" \t\r\n"
DEEPEST = 10_000
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_ESCAPES = b'bfnrt\\/"'
_HEX = b"0123456789abcdefABCDEF"


class _Complaint(Exception):
    pass


def complaint(data: bytes) -> str:
    """The sentence about the first thing wrong; "" where nothing is."""
    try:
        reader = _Reader(data)
        reader.value(0)
        reader.blank()
        if reader.at < len(data):
            reader.fail("after top-level value")
    except _Complaint as found:
        return str(found)
    except RecursionError:
        return "exceeded max depth"
    return ""


def shown(byte: int) -> str:
    """A byte as Go quotes it."""
    if byte == ord("'"):
        return "'\\''"
    if byte == ord('"'):
        return "'\"'"
    letter = chr(byte)
    names = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    if letter in names:
        return f"'{names[letter]}'"
    if letter.isprintable():
        return f"'{letter}'"
    return f"'\\x{byte:02x}'" if byte < 0x80 else f"'\\u{byte:04x}'"


class _Reader:
    """Reads from left to right and stops at the first fault."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fail(self, where: str) -> None:
        if self.at >= len(self.data):
            raise _Complaint(END)
        raise _Complaint(f"invalid character {shown(self.data[self.at])} {where}")

    def blank(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in SPACE:
            self.at += 1

    def peek(self) -> int:
        self.blank()
        return self.data[self.at] if self.at < len(self.data) else -1

    def value(self, depth: int) -> None:
        if depth > DEEPEST:
            raise _Complaint("exceeded max depth")
        first = self.peek()
        if first == ord("{"):
            self._object(depth)
        elif first == ord("["):
            self._array(depth)
        elif first == ord('"'):
            self._string()
        elif first in _LITERALS:
            self._literal(_LITERALS[first])
        elif first == ord("-") or 48 <= first <= 57:
            self._number()
        else:
            self.fail("looking for beginning of value")

    def _object(self, depth: int) -> None:
        self.at += 1
        if self.peek() == ord("}"):
            self.at += 1
            return
        while True:
            if self.peek() != ord('"'):
                self.fail("looking for beginning of object key string")
            self._string()
            self._expect(b":", "after object key")
            self.value(depth + 1)
            if self._ended(b"}", "after object key:value pair"):
                return

    def _array(self, depth: int) -> None:
        self.at += 1
        if self.peek() == ord("]"):
            self.at += 1
            return
        while True:
            self.value(depth + 1)
            if self._ended(b"]", "after array element"):
                return

    def _expect(self, mark: bytes, where: str) -> None:
        if self.peek() != mark[0]:
            self.fail(where)
        self.at += 1

    def _ended(self, closing: bytes, where: str) -> bool:
        found = self.peek()
        if found not in (closing[0], ord(",")):
            self.fail(where)
        self.at += 1
        return found == closing[0]

    def _string(self) -> None:
        self.at += 1
        while self.at < len(self.data):
            byte = self.data[self.at]
            if byte == ord('"'):
                self.at += 1
                return
            if byte < 0x20:
                self.fail("in string literal")
            self.at += 1
            if byte == ord("\\"):
                self._escape()
        raise _Complaint(END)

    def _escape(self) -> None:
        if self.at < len(self.data) and self.data[self.at] == ord("u"):
            for _ in range(4):
                self.at += 1
                self._one_of(_HEX, "in \\u hexadecimal character escape")
        else:
            self._one_of(_ESCAPES, "in string escape code")
        self.at += 1

    def _one_of(self, allowed: bytes, where: str) -> None:
        if self.at >= len(self.data) or self.data[self.at] not in allowed:
            self.fail(where)

    def _literal(self, word: bytes) -> None:
        for letter in word:
            if self.at >= len(self.data) or self.data[self.at] != letter:
                self.fail(f"in literal {word.decode()} (expecting {shown(letter)})")
            self.at += 1

    def _number(self) -> None:
        if self.data[self.at] == ord("-"):
            self.at += 1
            self._one_of(b"0123456789", "in numeric literal")
        if self.data[self.at] == ord("0"):
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self.at < len(self.data) and self.data[self.at] == ord("."):
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self.at < len(self.data) and self.data[self.at] in b"eE":
            self.at += 1
            if self.at < len(self.data) and self.data[self.at] in b"+-":
                self.at += 1
            self._digits("in exponent of numeric literal")

    def _is_digit(self) -> bool:
        return self.at < len(self.data) and 48 <= self.data[self.at] <= 57

    def _digits(self, where: str) -> None:
        if not self._is_digit():
            self.fail(where)
        while self._is_digit():
            self.at += 1
