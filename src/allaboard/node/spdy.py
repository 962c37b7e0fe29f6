"""SPDY/3.1 frames, as much of them as a port-forward tunnel speaks: streams with headers, data, pings."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY = 1, 2, 3, 4, 6, 7
VERSION, FIN, REFUSED = 3, 1, 3
LARGEST = 1 << 24

# The dictionary the protocol's header compression starts from: words with their length, then plain text.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _dictionary() -> bytes:
    words = (word.replace("_", " ").encode() for word in _WORDS.split())
    return b"".join(struct.pack("!I", len(word)) + word for word in words) + _TEXT.encode()


DICTIONARY = _dictionary()


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: a control frame of a type, or (type 0) data of a stream."""

    type: int
    stream: int
    data: bytes = b""
    fin: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


class Reader:
    """Bytes in, frames out; a frame may arrive in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def take(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= 8:
            first, second = struct.unpack_from("!II", self._buffer)
            length = second & 0xFFFFFF
            if len(self._buffer) < 8 + length:
                return
            body = bytes(self._buffer[8 : 8 + length])
            del self._buffer[: 8 + length]
            fin = bool(second >> 24 & FIN)
            if first >> 31:
                yield self._control(first & 0xFFFF, body, fin=fin)
            else:
                yield Frame(0, first, body, fin)

    def _control(self, kind: int, body: bytes, *, fin: bool) -> Frame:
        if kind not in (SYN_STREAM, SYN_REPLY, RST_STREAM, PING):
            return Frame(kind, 0, body)
        stream = struct.unpack_from("!I", body)[0]
        if kind == SYN_STREAM:
            return Frame(kind, stream & 0x7FFFFFFF, b"", fin, self._headers(body[10:]))
        if kind == SYN_REPLY:
            return Frame(kind, stream & 0x7FFFFFFF, b"", fin, self._headers(body[4:]))
        return Frame(kind, stream, body[4:])

    def _headers(self, packed: bytes) -> dict[str, str]:
        data = self._inflate.decompress(packed, LARGEST)
        place, found = 4, {}
        for _ in range(struct.unpack_from("!I", data)[0]):
            words = []
            for _ in range(2):
                length = struct.unpack_from("!I", data, place)[0]
                words.append(data[place + 4 : place + 4 + length].decode())
                place += 4 + length
            found[words[0].lower()] = words[1]
        return found


class Writer:
    """Frames as bytes; headers are compressed with one memory for the whole connection."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def control(self, kind: int, body: bytes, *, fin: bool = False) -> bytes:
        return struct.pack("!HHI", 0x8000 | VERSION, kind, (FIN if fin else 0) << 24 | len(body)) + body

    def reply(self, stream: int, headers: Mapping[str, str] = {}) -> bytes:
        return self.control(SYN_REPLY, struct.pack("!I", stream) + self._pack(headers))

    def syn(self, stream: int, headers: Mapping[str, str]) -> bytes:
        return self.control(SYN_STREAM, struct.pack("!IIH", stream, 0, 0) + self._pack(headers))

    def data(self, stream: int, body: bytes, *, fin: bool = False) -> bytes:
        return struct.pack("!II", stream, (FIN if fin else 0) << 24 | len(body)) + body

    def reset(self, stream: int) -> bytes:
        return self.control(RST_STREAM, struct.pack("!II", stream, REFUSED))

    def ping(self, number: int) -> bytes:
        return self.control(PING, struct.pack("!I", number))

    def _pack(self, headers: Mapping[str, str]) -> bytes:
        block = struct.pack("!I", len(headers))
        for name, value in headers.items():
            for word in (name.lower().encode(), value.encode()):
                block += struct.pack("!I", len(word)) + word
        return self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
