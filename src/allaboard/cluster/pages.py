"""The server's own pages: health, version, metrics, discovery, OpenAPI and the keys of its tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime

from allaboard.api.documents import Document
from allaboard.cluster import discovery, refusals
from allaboard.cluster.answers import JSON, TEXT, Answer
from allaboard.cluster.plane import Cluster
from allaboard.cluster.routes import NoSuchPath
from allaboard.cluster.rules import entries
from allaboard.cluster.store import decode, encode
from allaboard.cluster.tokens import Signer
from allaboard.schema import openapi

VERSION = {
    "major": "1",
    "minor": "35",
    "emulationMajor": "1",
    "emulationMinor": "35",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "34",
    "gitVersion": "v1.35.0+aboard",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
HEALTH = ("/healthz", "/livez", "/readyz")
YEAR = timedelta(days=365)
CHECKS = ("ping",)  # what health is made of: a server that answers has what it needs


class Pages:
    """Answers GET requests that are about no object; discovery is made once for each state of the registry."""

    def __init__(self, cluster: Cluster, signer: Signer | None, metrics: Callable[[], bytes] | None) -> None:
        self.cluster, self.signer, self.metrics = cluster, signer, metrics
        self._made: dict[tuple[int, str, bool], Answer] = {}

    def answer(self, path: str, accept: str, query: Mapping[str, Sequence[str]]) -> Answer:
        """The page at a path; `NoSuchPath` where there is none."""
        path = path.rstrip("/") or "/"
        if path.startswith(HEALTH):
            return Answer(200, health(path.strip("/"), query).encode(), TEXT)
        if path == "/version":
            return Answer(200, encode(VERSION))
        if path == "/metrics" and self.metrics is not None:
            return Answer(200, self.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        if self.signer is not None and path == "/.well-known/openid-configuration":
            return Answer(200, encode(self.signer.discovery()))
        if self.signer is not None and path == "/openid/v1/jwks":
            return Answer(200, encode(self.signer.keys()), "application/jwk-set+json")
        if path.startswith("/openapi/v3/"):
            return self._described(path, query)
        return self._discovered(path, accept)

    def _described(self, path: str, query: Mapping[str, Sequence[str]]) -> Answer:
        """An OpenAPI document; under the hash of its content it may be kept for good, under another it has moved."""
        page, said = self._discovered(path, ""), "".join(query.get("hash", ())[:1])
        if not said or page.code != 200:
            return page
        index = decode(self._discovered("/openapi/v3", "").body)["paths"]
        address = str(index[path.removeprefix("/openapi/v3/")]["serverRelativeURL"])
        if not address.endswith(f"?hash={said}"):
            return Answer(301, b"", "", [(b"location", address.encode()), (b"cache-control", b"no-cache, private")])
        until = format_datetime(self.cluster.world.now() + YEAR, usegmt=True)
        kept = [(b"cache-control", b"public, immutable"), (b"expires", until.encode())]
        return replace(page, headers=[*page.headers, *kept])

    def _discovered(self, path: str, accept: str) -> Answer:
        wants_all = path in ("/api", "/apis") and wants_aggregated(accept)
        key = (self.cluster.registry.generation, path, wants_all)
        answer = self._made.get(key)
        if answer is None:
            if len(self._made) > 256:
                self._made.clear()
            answer = self._made[key] = self._make(path, aggregated=wants_all)
        return answer

    def _make(self, path: str, *, aggregated: bool) -> Answer:
        served = self.cluster.registry.rules()
        parts = path.strip("/").split("/")
        if aggregated:
            return _page(discovery.aggregated(served, core=path == "/api"), AGGREGATED)
        match parts:
            case [""]:
                return Answer(200, encode({"paths": self._paths()}))
            case ["api"]:
                return _page(discovery.api_versions())
            case ["apis"]:
                return _page(discovery.groups(served))
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._group(group)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["openapi", "v2"]:
                return Answer(200, openapi.version2(), openapi.VERSION2)
            case ["openapi", "v3"]:
                return Answer(200, encode(openapi.index(entries(served))), TEXT)
            case ["openapi", "v3", *where]:
                return self._openapi(where)
        raise NoSuchPath("404 page not found")

    def _paths(self) -> list[str]:
        """Where this server can be asked."""
        served = self.cluster.registry.rules()
        groups = {(rules.kind.group, rules.kind.version) for rules in served if rules.kind.group}
        places = {f"/apis/{group}" for group, _ in groups} | {f"/apis/{group}/{version}" for group, version in groups}
        own = ["/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3", "/version", *HEALTH]
        own += ["/metrics"] if self.metrics is not None else []
        own += ["/.well-known/openid-configuration", "/openid/v1/jwks"] if self.signer is not None else []
        return sorted([*own, *places])

    def _group(self, group: str) -> Answer:
        if not self.cluster.registry.has_group(group):
            raise NoSuchPath("404 page not found")
        return _page(discovery.group(self.cluster.registry.rules(), group))

    def _resources(self, group: str, version: str) -> Answer:
        served = [rules for rules in self.cluster.registry.rules() if rules.kind.group == group]
        if not any(rules.kind.version == version for rules in served):
            raise refusals.no_resource() if group in self.cluster.registry.builtin_groups else NoSuchPath("")
        return _page(discovery.resource_list(served, f"{group}/{version}" if group else version))

    def _openapi(self, where: list[str]) -> Answer:
        group, version = ("", where[1]) if where[0] == "api" and len(where) == 2 else ("", "")
        if where[0] == "apis" and len(where) == 3:
            group, version = where[1], where[2]
        served = [rules for rules in self.cluster.registry.rules() if rules.kind.group == group]
        if not any(rules.kind.version == version for rules in served):
            return Answer(404, b"", "")
        return _page(openapi.document(group, version, entries(served)))


def health(path: str, query: Mapping[str, Sequence[str]]) -> str:
    """How the server is, as a whole (`verbose`: check by check) or by one of its checks."""
    whole, _, check = path.partition("/")
    if f"/{whole}" not in HEALTH or check not in ("", *CHECKS):
        raise NoSuchPath("404 page not found")
    if check or "verbose" not in query:
        return "ok"
    left_out = query.get("exclude", ())
    lines = [f"[+]{each} {'excluded: ok' if each in left_out else 'ok'}" for each in CHECKS]
    if strangers := sorted(set(left_out).difference(CHECKS)):
        names = ",".join(f'"{name}"' for name in strangers)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    return "\n".join([*lines, f"{whole} check passed", ""])


def wants_aggregated(accept: str) -> bool:
    """Whether the first form a client asks for that we have is the aggregated one, in its final version."""
    for form in accept.replace(" ", "").split(","):
        parts = form.split(";")
        if "as=APIGroupDiscoveryList" not in parts:
            return False
        if "v=v2" in parts:
            return True
    return False


def _page(document: Document, media: str = JSON) -> Answer:
    data = encode(document)
    tag = hashlib.sha256(data).hexdigest().upper()
    return Answer(200, data, media, [(b"etag", f'"{tag}"'.encode()), (b"vary", b"Accept")])


def unless_known(answer: Answer, tag: str) -> Answer:
    """The answer, or no more than that a client has it already."""
    return Answer(304, b"", "", answer.headers) if tag and (b"etag", tag.encode()) in answer.headers else answer
