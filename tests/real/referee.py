"""One question, two servers: what a real control plane answers is what ours should answer.

What cannot be the same twice — uids, revisions, times — is told by its shape.
"""

import http.client
import json
import re
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.conformance.kube import API
from tests.conformance.plane import plane

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)")
REVISION = re.compile(r'(\\*"resourceVersion\\*": ?\\*")\d+')
RANDOM = re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")


@dataclass(frozen=True)
class Answer:
    code: int
    body: object
    warnings: list[str] = field(default_factory=list)

    @property
    def shape(self):
        """The answer without what is different every time."""
        text = json.dumps(self.body, sort_keys=True)
        for pattern, word in ((UID, "UID"), (TIME, "TIME"), (REVISION, r"\g<1>N"), (RANDOM, "RANDOM")):
            text = pattern.sub(word, text)
        return self.code, _said_once(json.loads(text)), [UID.sub("UID", line) for line in self.warnings]


def _said_once(body):
    """A refusal with each of its causes once: how often upstream repeats one differs from kind to kind."""
    causes = (body.get("details") or {}).get("causes") if isinstance(body, dict) else None
    if not causes:
        return body
    once = [cause for index, cause in enumerate(causes) if cause not in causes[:index]]
    return {**body, "details": {**body["details"], "causes": once}}


class Side:
    """One of the two: a connection that is kept, and an administrator's token."""

    def __init__(self, server, token="admin-token"):
        self.where, self.token = urlsplit(server), token
        self.line = None

    def ask(self, method, path, body=None, media="application/json"):
        headers = {"Authorization": f"Bearer {self.token}", "User-Agent": "referee/1"}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["Content-Type"] = media
        line = self.line = self.line or self._open()
        try:
            line.request(method, path, data, headers)
            answer = line.getresponse()
            text = answer.read()
        except (http.client.HTTPException, ConnectionError):
            self.line = None
            raise
        told = json.loads(text) if text[:1] in (b"{", b"[") else text.decode()
        return Answer(answer.status, told, answer.headers.get_all("Warning") or [])

    def _open(self):
        if self.where.scheme == "http":
            return http.client.HTTPConnection(self.where.netloc, timeout=60)
        trusting = ssl._create_unverified_context()  # both are ours, on loopback
        return http.client.HTTPSConnection(self.where.netloc, timeout=60, context=trusting)


@contextmanager
def ours(controllers=API, *options):
    """Our server, with these controllers and no admission of our own unless an option names it."""
    with plane([f"--controllers={controllers}", "--admission=", "--auth=rbac", "--plain", *options]) as server:
        yield Side(server.server)


def differences(want, got, path=""):
    """Where two values differ, one line each."""
    if isinstance(want, dict) and isinstance(got, dict):
        keys = sorted(want.keys() | got.keys())
        return [line for key in keys for line in differences(want.get(key), got.get(key), f"{path}.{key}")]
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return [line for n, (a, b) in enumerate(zip(want, got)) for line in differences(a, b, f"{path}[{n}]")]
    return [] if want == got else [f"{path or '.'}: want {short(want)}, got {short(got)}"]


def short(value, most=600):
    text = json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text)})"
