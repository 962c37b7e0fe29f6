"""Specs seen before, by their text: pods of one template say the same but for a host name, and are read once.

What comes out of a mold is shared by all that were cast in it: a document is never changed after it was handed over.
"""

from __future__ import annotations

from collections.abc import Callable

from allaboard.api.documents import Document
from allaboard.cluster.store import encode

_MOST = 512
_UNWRITABLE = (OverflowError, RecursionError, TypeError, ValueError)  # numbers or depths that no text can say


class Molds:
    """What reading a spec and filling in its defaults came to. `apart` is the field in which twins differ: a text that
    has no default and that reading has no rules about. `rest` fills in the defaults outside the spec."""

    def __init__(self, apart: str, rest: Callable[[Document], Document]) -> None:
        self.apart, self.rest = apart, rest
        self._known: dict[bytes, Document] = {}
        self._last: tuple[Document, bytes] = ({}, b"")

    def text_of(self, spec: object) -> bytes | None:
        """What a spec is known by; None for one that can have no twins."""
        if type(spec) is not dict or not self._is_apart(spec):
            return None
        last, text = self._last
        if not self._share_parts(spec, last):
            try:
                text = encode({**spec, self.apart: ""} if self.apart in spec else spec)
            except _UNWRITABLE:
                return None
            self._last = (spec, text)
        return text

    def _is_apart(self, spec: Document) -> bool:
        own = spec.get(self.apart)
        return self.apart not in spec if own is None else type(own) is str and own != ""

    def _share_parts(self, spec: Document, last: Document) -> bool:
        """Whether two specs hold the very same parts, as those have that were made of one template in this process."""
        if len(spec) != len(last):
            return False
        for (name, part), (other, same) in zip(spec.items(), last.items()):
            if name != other or not (part is same or name == self.apart or (type(part) is str and part == same)):
                return False
        return True

    def cast(self, text: bytes, spec: Document) -> Document | None:
        """The spec as it was settled for its twin, with its own name for itself."""
        known = self._known.get(text)
        if known is None or self.apart not in spec:
            return known
        return {**known, self.apart: spec[self.apart]}

    def keep(self, text: bytes, settled: Document) -> None:
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[text] = settled
