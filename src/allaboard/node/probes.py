"""Probes as values: when one is due, and what so many good or bad answers in a row mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from allaboard.api.documents import Document

KINDS = ("startup", "liveness", "readiness")


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe of a container, with Kubernetes' defaults."""

    kind: str
    action: Document
    delay: timedelta
    period: timedelta
    timeout: float
    good: int
    bad: int


def probe_of(container: Document, kind: str) -> Probe | None:
    spec: Document | None = container.get(f"{kind}Probe")
    if not spec:
        return None
    return Probe(
        kind=kind,
        action=spec,
        delay=timedelta(seconds=spec.get("initialDelaySeconds") or 0),
        period=timedelta(seconds=spec.get("periodSeconds") or 10),
        timeout=float(spec.get("timeoutSeconds") or 1),
        good=int(spec.get("successThreshold") or 1),
        bad=int(spec.get("failureThreshold") or 3),
    )


@dataclass(frozen=True, slots=True)
class Score:
    """Answers so far: the present run of good or bad ones, and what was last concluded (None: nothing yet)."""

    holds: bool | None = None
    good: int = 0
    bad: int = 0


def after(score: Score, probe: Probe, answer: bool) -> Score:
    """The score after one more answer; a conclusion changes only when its threshold is reached."""
    good, bad = (score.good + 1, 0) if answer else (0, score.bad + 1)
    if good >= probe.good:
        return Score(True, good, bad)  # noqa: FBT003
    if bad >= probe.bad:
        return Score(False, good, bad)  # noqa: FBT003
    return Score(score.holds, good, bad)


def port_of(container: Document, port: int | str) -> int:
    """A port by number, or by the name the container gave it."""
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for entry in container.get("ports") or []:
        if entry.get("name") == port:
            return int(entry["containerPort"])
    raise ValueError(f'no port named "{port}" in container "{container.get("name", "")}"')


def grpc_request(service: str) -> bytes:
    """The bytes of one health check call: HTTP/2 preface, settings, headers, and a one-field message."""
    headers = b"".join(
        _literal(name, value)
        for name, value in (
            (":method", "POST"), (":scheme", "http"), (":path", "/grpc.health.v1.Health/Check"),
            (":authority", "localhost"), ("content-type", "application/grpc"), ("te", "trailers"),
        )
    )  # fmt: skip
    name = service.encode()
    message = b"\x0a" + bytes([len(name)]) + name if name else b""
    body = b"\0" + len(message).to_bytes(4, "big") + message
    start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    return start + h2_frame(4, 0, 0, b"") + h2_frame(1, 4, 1, headers) + h2_frame(0, 1, 1, body)


def _literal(name: str, value: str) -> bytes:
    """A header that is neither in a table nor put into one."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def h2_frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def grpc_verdict(frames: bytes) -> str | None:
    """What a server answered so far: "" for serving, words for anything else, None while it has not said."""
    place = 0
    while place + 9 <= len(frames):
        length, kind = int.from_bytes(frames[place : place + 3], "big"), frames[place + 3]
        body = frames[place + 9 : place + 9 + length]
        if len(body) < length:
            return None
        if kind == 0 and len(body) >= 5:
            return "" if body[5:] == b"\x08\x01" else "service unhealthy"
        if kind in (3, 7):
            return "the server closed the call"
        place += 9 + length
    return None
