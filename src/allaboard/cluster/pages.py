"""The server's own pages: health, version, metrics, discovery, OpenAPI and the keys of its tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from allaboard.api.documents import Document
from allaboard.cluster import discovery, refusals
from allaboard.cluster.answers import TEXT, Answer
from allaboard.cluster.plane import Cluster
from allaboard.cluster.routes import NoSuchPath
from allaboard.cluster.rules import entries
from allaboard.cluster.store import encode
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


class Pages:
    """Answers GET requests that are about no object; discovery is made once for each state of the registry."""

    def __init__(self, cluster: Cluster, signer: Signer | None, metrics: Callable[[], bytes] | None) -> None:
        self.cluster, self.signer, self.metrics = cluster, signer, metrics
        self._made: dict[tuple[int, str, bool], Answer] = {}

    def answer(self, path: str, accept: str) -> Answer:
        """The page at a path; `NoSuchPath` where there is none."""
        path = path.rstrip("/") or "/"
        if path.startswith(HEALTH):
            return self._health(path)
        if path == "/version":
            return Answer(200, encode(VERSION))
        if path == "/metrics" and self.metrics is not None:
            return Answer(200, self.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        if self.signer is not None and path == "/.well-known/openid-configuration":
            return Answer(200, encode(self.signer.discovery()))
        if self.signer is not None and path == "/openid/v1/jwks":
            return Answer(200, encode(self.signer.keys()), "application/jwk-set+json")
        return self._discovered(path, accept)

    def _health(self, path: str) -> Answer:
        if path.split("/")[1] not in ("healthz", "livez", "readyz"):
            raise NoSuchPath("404 page not found")
        return Answer(200, b"ok", TEXT)

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
            return Answer(200, encode(discovery.aggregated(served, core=path == "/api")), AGGREGATED)
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


def wants_aggregated(accept: str) -> bool:
    """Whether the first form a client asks for that we have is the aggregated one, in its final version."""
    for form in accept.replace(" ", "").split(","):
        parts = form.split(";")
        if "as=APIGroupDiscoveryList" not in parts:
            return False
        if "v=v2" in parts:
            return True
    return False


def _page(document: Document) -> Answer:
    data = encode(document)
    tag = hashlib.sha256(data).hexdigest().upper()
    return Answer(200, data, headers=[(b"etag", f'"{tag}"'.encode())])
