"""Local servers that speak like the providers: small, on loopback, and able to misbehave."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass
class Answer:
    body: bytes = b""
    code: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None  # end the connection after so many bytes


@dataclass
class Asked:
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


Responder = Callable[[Asked], Answer]


@contextmanager
def serving(respond: Responder) -> Iterator[tuple[str, list[Asked]]]:
    """A server for the length of a block: its address, and everything it was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            request = Asked(parts.path, parse_qs(parts.query), {k.lower(): v for k, v in self.headers.items()})
            asked.append(request)
            answer = ranged(respond(request), request)
            self.send_response(answer.code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body if answer.cut is None else answer.body[: answer.cut])
            self.close_connection = True

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ranged(answer: Answer, request: Asked) -> Answer:
    """The rest of the body, where only the rest is wanted."""
    wanted = request.headers.get("range", "")
    if answer.code != 200 or not wanted:
        return answer
    start = int(wanted.removeprefix("bytes=").rstrip("-"))
    headers = {**answer.headers, "Content-Range": f"bytes {start}-{len(answer.body) - 1}/{len(answer.body)}"}
    return Answer(answer.body[start:], 206, headers, answer.cut)


def git_sum(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


class Hub:
    """A Hugging Face hub with one repository; one file to a page, large files by way of another host."""

    def __init__(self, files: dict[str, bytes], *, token: str = "", cdn: str = "") -> None:
        self.files, self.token, self.cdn = files, token, cdn
        self.damaged: set[str] = set()
        self.cuts: dict[str, int] = {}

    def __call__(self, request: Asked) -> Answer:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return Answer(code=401)
        if "/tree/" in request.path:
            return self._page(request)
        if "/resolve/" in request.path:
            return self._file(request.path.partition("/resolve/")[2].partition("/")[2])
        return Answer(code=404)

    def _page(self, request: Asked) -> Answer:
        names, at = sorted(self.files), int(request.query.get("cursor", ["0"])[0])
        body = json.dumps([self._entry(names[at])]).encode()
        more = {"Link": f'<http://{request.headers["host"]}{request.path}?cursor={at + 1}>; rel="next"'}
        return Answer(body, headers=more if at + 1 < len(names) else {})

    def _entry(self, name: str) -> dict[str, object]:
        body = self.files[name]
        entry: dict[str, object] = {"type": "file", "path": name, "size": len(body), "oid": git_sum(body)}
        if name.endswith(".safetensors"):
            entry["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body)}
        return entry

    def _file(self, name: str) -> Answer:
        if self.cdn and name.endswith(".safetensors"):
            return Answer(code=302, headers={"Location": f"{self.cdn}/{name}"})
        if name not in self.files:
            return Answer(code=404)
        body = self.files[name]
        if name in self.damaged:
            body = body[:-1] + bytes([body[-1] ^ 1])
        return Answer(body, cut=self.cuts.pop(name, None))
