"""Protobuf bodies: what typed Go clients send becomes the document they would have sent as JSON."""

import pytest

from allaboard.cluster import wire


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def body(version: str, kind: str, raw: bytes) -> bytes:
    return wire.MAGIC + text(1, text(1, version) + text(2, kind)) + text(2, raw)


META = text(1, text(1, "x") + text(3, "ns"))

BODIES = {
    "a map of texts": (
        body("v1", "ConfigMap", META + text(2, text(1, "k") + text(2, "v"))),
        {"metadata": {"name": "x", "namespace": "ns"}, "data": {"k": "v"}},
    ),
    "bytes are base64": (
        body("v1", "Secret", META + text(2, text(1, "k") + text(2, b"\x00\xff"))),
        {"metadata": {"name": "x", "namespace": "ns"}, "data": {"k": "AP8="}},
    ),
    "a negative number": (
        body("scheduling.k8s.io/v1", "PriorityClass", META + whole(2, -5)),
        {"metadata": {"name": "x", "namespace": "ns"}, "value": -5},
    ),
    "a number or a name": (
        body("v1", "Service", META + text(2, text(1, whole(3, 80) + text(4, whole(1, 0) + whole(2, 8080))))),
        {"metadata": {"name": "x", "namespace": "ns"}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
    ),
    "a quantity": (
        body("v1", "ResourceQuota", META + text(2, text(1, text(1, "pods") + text(2, text(1, "3"))))),
        {"metadata": {"name": "x", "namespace": "ns"}, "spec": {"hard": {"pods": "3"}}},
    ),
    "a time in microseconds": (
        body("coordination.k8s.io/v1", "Lease", META + text(2, text(4, whole(1, 1_700_000_000) + whole(2, 5000)))),
        {"metadata": {"name": "x", "namespace": "ns"}, "spec": {"renewTime": "2023-11-14T22:13:20.000005Z"}},
    ),
    "numbers nobody knows are passed over": (
        body("v1", "ConfigMap", META + whole(99, 7) + text(98, "zzz")),
        {"metadata": {"name": "x", "namespace": "ns"}},
    ),
}


@pytest.mark.parametrize(("data", "want"), BODIES.values(), ids=BODIES)
def test_a_body_is_read(data, want):
    document = wire.read(data)
    document.pop("apiVersion"), document.pop("kind")
    assert document == want


BROKEN = {
    "no magic": (b"\x00\x00\x00", "expected prefix"),
    "an end that comes early": (wire.MAGIC + b"\n", "unexpected EOF"),
    "a length past the end": (wire.MAGIC + b"\x12\x7fabc", "unexpected EOF"),
    "a kind nobody knows": (body("v9", "Nothing", b""), 'no kind "Nothing" is registered'),
    "text where a number belongs": (body("scheduling.k8s.io/v1", "PriorityClass", text(2, "x")), "wrong wireType"),
    "a number where text belongs": (body("v1", "ConfigMap", whole(1, 7)), "wrong wireType"),
    "text that is no text": (body("v1", "ConfigMap", text(1, text(1, b"\xff"))), "invalid UTF-8"),
    "a number that never ends": (wire.MAGIC + b"\x08" + b"\xff" * 20, "integer overflow"),
    "a wire type nobody uses": (wire.MAGIC + b"\x0f", "illegal wireType"),
}


@pytest.mark.parametrize(("data", "words"), BROKEN.values(), ids=BROKEN)
def test_a_body_that_cannot_be_read_is_refused(data, words):
    with pytest.raises(wire.Malformed, match=words):
        wire.read(data)
