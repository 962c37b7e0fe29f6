"""The channel protocol of exec, attach and port-forward: one byte says which stream a frame belongs to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from allaboard.api.documents import Document

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
PORT_FORWARD = "portforward.k8s.io"


def agreed(offered: Sequence[str], spoken: Sequence[str]) -> str:
    """The first subprotocol we speak among those offered; "" where there is none."""
    return next((name for name in spoken if name in offered), "")


def frame(channel: int, data: bytes) -> bytes:
    return bytes([channel]) + data


def verdict(code: int, message: str = "") -> Document:
    """How a command ended, as the last frame of the error channel says it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    words = f"command terminated with non-zero exit code: {message or f'exit status {code}'}"
    causes = [{"reason": "ExitCode", "message": str(code)}]
    failure = {"metadata": {}, "status": "Failure", "message": words, "reason": "NonZeroExitCode"}
    return {**failure, "details": {"causes": causes}}


def refusal(message: str) -> Document:
    """A command that could not be run at all."""
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}


def last_words(document: Document) -> bytes:
    return frame(ERROR, json.dumps(document).encode())


def port_greeting(index: int, port: int) -> list[bytes]:
    """The first frame of a forwarded port's two channels: its number, little end first."""
    number = port.to_bytes(2, "little")
    return [frame(2 * index, number), frame(2 * index + 1, number)]


def window(data: bytes) -> tuple[int, int]:
    """Rows and columns a resize frame asks for."""
    size = json.loads(data)
    return int(size.get("Height", 24)), int(size.get("Width", 80))
