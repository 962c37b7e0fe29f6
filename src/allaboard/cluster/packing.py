"""The bytes of an item as memory holds them: exactly as long as they are, and what many items say alike held once.

The owners of fields are nearly half of a pod, and the same text in every pod of a template.
"""

from __future__ import annotations

import msgspec

from allaboard.api.documents import Document, Documents
from allaboard.api.twins import made_once

Pieces = tuple[bytes, ...]  # own, shared, own, shared, …, own: together they are the text

_encoder = msgspec.json.Encoder()
_buffer = bytearray()
_HERE = b"\0"  # no text of JSON contains this byte
# What stands before the uid of an owner, the one part in which sets of twins differ, and how long that is.
_OWNER, _UID = b'"k:{\\"uid\\":\\"', 36
_WORTH_SHARING = 300
_MOST_SHARED = 4096
_shared: dict[bytes, bytes] = {}


def pack(document: Document) -> bytes | Pieces:
    """A document as an item holds it. An encoder's own answer would keep up to half as much room again."""
    metadata = document["metadata"]
    entries: Documents | None = metadata.get("managedFields")
    if entries and "spec" in document:  # the sets of a flat document are small
        marked, sets = _marked(entries)
        document = {**document, "metadata": {**metadata, "managedFields": marked}}
        if sets:
            return _parted(_encoder.encode(document), sets)
    _encoder.encode_into(document, _buffer)
    return bytes(_buffer)


def _parted(text: bytes, sets: list[bytes]) -> Pieces:
    """The text with the shared parts where their marks were. `split` would look at each byte, `partition` leaps."""
    pieces = list[bytes]()
    for shared in sets:
        own, _, text = text.partition(_HERE)
        pieces += (own, shared)
    return (*pieces, text)


def restamped(held: bytes | Pieces, before: int, now: int) -> bytes | Pieces:
    """The same object at another revision: its metadata stands first, and only names before what it says of that."""
    was, stamp = b'"resourceVersion":"%d"' % before, b'"resourceVersion":"%d"' % now
    if isinstance(held, bytes):
        return held.replace(was, stamp, 1)
    return (held[0].replace(was, stamp, 1), *held[1:])


def _marked(entries: Documents) -> tuple[Documents, list[bytes]]:
    """The entries with a mark where each large set of fields was, and those sets."""
    marked, sets = list[Document](), list[bytes]()
    for entry in entries:
        if "fieldsV1" not in entry:
            marked.append(entry)
            continue
        shared, text = _told(entry["fieldsV1"])
        sets += shared
        marked.append({**entry, "fieldsV1": text})
    return marked, sets


def _text_of(fields: Document) -> tuple[list[bytes], msgspec.Raw]:
    text = _encoder.encode(fields)
    shared, text = _apart(text) if len(text) >= _WORTH_SHARING else ([], text)
    return shared, msgspec.Raw(text)


_told = made_once(_text_of, 64)  # the owners a write leaves alone are the very ones that were there


def _apart(text: bytes) -> tuple[list[bytes], bytes]:
    """What a set shares with others, and what is its own, with marks where the shared parts were."""
    at = text.find(_OWNER)
    if at < 0:
        return [_held(text)], _HERE
    start = at + len(_OWNER)
    end = start + _UID
    return [_held(text[:start]), _held(text[end:])], _HERE + text[start:end] + _HERE


def _held(text: bytes) -> bytes:
    """The text, or the same one where it is held already."""
    known = _shared.get(text)
    if known is None:
        if len(_shared) >= _MOST_SHARED:
            _shared.clear()
        known = bytes(bytearray(text))  # as long as it is
        _shared[known] = known
    return known
