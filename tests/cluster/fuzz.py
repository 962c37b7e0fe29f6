"""Requests with something wrong in them, as many as asked for: `python -m tests.cluster.fuzz 100000`.

No answer may be the server's own failure, nothing acknowledged may be lost, and nothing may be left behind.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.cluster.plane import Answered, Plane, config_map, plain, pod

NS = "/api/v1/namespaces/default"
CMS = f"{NS}/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 1},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                },
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
            },
            "x-kubernetes-validations": [{"rule": "!has(self.tags) || self.size >= size(self.tags)"}],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
NAMES = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
DEFINITION = plain(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "widgets.example.com",
    spec={
        "group": "example.com",
        "scope": "Namespaced",
        "names": NAMES,
        "versions": [{**VERSION, "subresources": {"status": {}}}],
    },
)
# Where to send what: whole documents of many kinds, to be spoilt.
DOCUMENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (CMS, config_map("a", k="v")),
    (f"{NS}/secrets", plain("v1", "Secret", "s", data={"k": "dg=="}, type="Opaque")),
    (
        f"{NS}/pods",
        pod(
            "p",
            initContainers=[{"name": "i", "image": "x", "env": [{"name": "A", "value": "1"}]}],
            volumes=[{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "a"}}],
            tolerations=[{"key": "k", "operator": "Exists"}],
            affinity={"nodeAffinity": {}},
        ),
    ),
    (f"{NS}/services", plain("v1", "Service", "svc", spec={"ports": [{"port": 80}], "selector": {"a": "b"}})),
    (
        f"{NS}/limitranges",
        plain("v1", "LimitRange", "l", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}}]}),
    ),
    (f"{NS}/resourcequotas", plain("v1", "ResourceQuota", "q", spec={"hard": {"pods": "100"}})),
    (f"{NS}/serviceaccounts", plain("v1", "ServiceAccount", "sa", imagePullSecrets=[{"name": "x"}])),
    (
        f"{NS}/persistentvolumeclaims",
        plain(
            "v1",
            "PersistentVolumeClaim",
            "pvc",
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        ),
    ),
    (
        f"{NS}/events",
        plain("v1", "Event", "e", involvedObject={"kind": "Pod", "namespace": "default"}, reason="R", type="Normal"),
    ),
    ("/api/v1/namespaces", plain("v1", "Namespace", "other")),
    ("/api/v1/nodes", plain("v1", "Node", "n", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})),
    ("/apis/batch/v1/namespaces/default/jobs", plain("batch/v1", "Job", "j", spec={"template": TEMPLATE})),
    (
        "/apis/batch/v1/namespaces/default/cronjobs",
        plain(
            "batch/v1", "CronJob", "cj", spec={"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
        ),
    ),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", plain("coordination.k8s.io/v1", "Lease", "l", spec={})),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", plain("scheduling.k8s.io/v1", "PriorityClass", "pc", value=7)),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        plain(
            "rbac.authorization.k8s.io/v1",
            "Role",
            "r",
            rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        ),
    ),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
    (WIDGETS, plain("example.com/v1", "Widget", "w", spec={"size": 2, "tags": ["a"], "parts": [{"name": "x"}]})),
)
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1.5, 1e308, "", "x", "a" * 300, "../..", "\u0000", "Ünï", [], {}, [None], [[]], [{}],
    {"": ""}, {"name": "x"}, [{"name": None}], "2020-01-01T00:00:00Z", "1Gi", "$patch",
)  # fmt: skip
WORDS = ("status", "spec", "metadata", "finalizers", "ownerReferences", "managedFields", "$patch", "$retainKeys", "zzz")
MEDIA = {
    "MERGE": "application/merge-patch+json",
    "STRATEGIC": "application/strategic-merge-patch+json",
    "JSON": "application/json-patch+json",
    "APPLY": "application/apply-patch+yaml",
}
BODIES = (*MEDIA.values(), "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/x")
# 500s that a real server answers too: typed patches that do not fit, revisions that are no numbers, and the like.
KNOWN_500 = ("strconv", "resourceVersion", "typed", "target", "merge key", "setElementOrder", "converting", "map:")
KNOWN_500 += ("retainKeys", "lists of lists", "not identical", "failed to convert new object")


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path into a document."""
    yield path
    inside = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for step, value in inside:
        yield from places(value, (*path, step))


def spoilt(document: Any, chance: random.Random) -> Any:
    """A copy with one or two things wrong."""
    document = copy.deepcopy(document)
    for _ in range(chance.randrange(1, 3)):
        path = chance.choice(list(places(document)))
        if not path:
            continue
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        what = chance.random()
        if what < 0.7:
            holder[path[-1]] = copy.deepcopy(chance.choice(ODD))
        elif what < 0.85:
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[chance.choice(WORDS)] = copy.deepcopy(chance.choice(ODD))
        else:
            holder.append(copy.deepcopy(chance.choice(ODD)))
    return document


def scrambled(data: bytes, chance: random.Random) -> bytes:
    """Bytes with some of them replaced, inserted or cut out."""
    spoiling = bytearray(data)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(spoiling) + 1)
        spoiling[at : at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
    return bytes(spoiling)


def operation(document: Any, chance: random.Random) -> dict[str, Any]:
    known = list(places(document))
    name, pointer = chance.choice(("add", "replace", "remove", "test", "move", "copy", "bad")), chance.choice(known)
    texts = ["".join(f"/{step}" for step in path) for path in (pointer, chance.choice(known))]
    return {"op": name, "path": texts[0], "from": texts[1], "value": chance.choice(ODD)}


class Fuzz:
    """Sends bad requests to one plane and notes what should not have happened."""

    def __init__(self, plane: Plane, chance: random.Random) -> None:
        self.plane, self.chance = plane, chance
        self.codes: Counter[int] = Counter()
        self.failures: list[str] = []
        self.kept: set[str] = set()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        answer = await self.plane.ask(method, path, body, **headers)
        self.codes[answer.code] += 1
        if answer.code == 500 and not any(word in answer.message for word in KNOWN_500):
            self.failures.append(f"{method} {path} {headers} {body!r:.500} -> {answer.data!r:.300}")
        return answer

    async def request(self) -> None:
        path, document = self.chance.choice(DOCUMENTS)
        name = document["metadata"]["name"]
        bad = spoilt(document, self.chance)
        match self.chance.choice(("WHOLE", "POST", "PUT", "PATCH", "PATCH", "STATUS", "DELETE", "BYTES", "GET")):
            case "WHOLE":
                await self.ask("POST", path, document)
            case "POST":
                await self.ask("POST", path + self.chance.choice(("", "?dryRun=All", "?fieldValidation=Strict")), bad)
            case "PUT":
                await self.ask("PUT", f"{path}/{name}", bad)
            case "PATCH":
                await self._patch(f"{path}/{name}", document, bad)
            case "STATUS":
                await self.ask("PATCH", f"{path}/{name}/status", bad, content_type=MEDIA["MERGE"])
            case "DELETE":
                field = self.chance.choice(("preconditions", "gracePeriodSeconds", "propagationPolicy", "dryRun"))
                await self.ask("DELETE", f"{path}/{name}", {field: self.chance.choice(ODD)})
            case "BYTES":
                data = scrambled(json.dumps(document).encode(), self.chance)
                method = self.chance.choice(("POST", "PUT", "PATCH"))
                where = path if method == "POST" else f"{path}/{name}?fieldManager=m"
                await self.ask(method, where, data, content_type=self.chance.choice(BODIES))
            case "GET":
                await self._look(path)

    async def _patch(self, path: str, document: Any, bad: Any) -> None:
        kind = self.chance.choice(tuple(MEDIA))
        body = [operation(document, self.chance)] if kind == "JSON" else bad
        query = "?fieldManager=m&force=true" if kind == "APPLY" else ""
        await self.ask("PATCH", path + query, body, content_type=MEDIA[kind])

    async def _look(self, path: str) -> None:
        forms = ("application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io")
        answer = await self.ask("GET", path, accept=self.chance.choice(forms))
        if answer.code not in (200, 404):
            self.failures.append(f"GET {path} -> {answer.code} {answer.data!r:.300}")

    async def keep(self, number: int) -> None:
        """A good write among the bad ones: once acknowledged, it must stay."""
        name = f"kept-{number}"
        if (await self.plane.ask("POST", CMS, config_map(name))).code == 201:
            self.kept.add(name)

    async def settle(self) -> None:
        await self.plane.keeper.settle()
        listed = (await self.plane.ask("GET", CMS)).body["items"]
        lost = self.kept - {item["metadata"]["name"] for item in listed}
        if lost:
            self.failures.append(f"acknowledged and lost: {sorted(lost)}")
        for table in self.plane.cluster.store.tables.values():
            if table.head or table.watchers:
                self.failures.append(
                    f"left behind in {table.name}: {len(table.head)} pending, {len(table.watchers)} watching"
                )


async def fuzz(requests: int, seed: int) -> Fuzz:
    """This many bad requests to a fresh plane."""
    plane = await Plane().furnish()
    await plane.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    run = Fuzz(plane, random.Random(seed))
    for number in range(requests):
        await run.request()
        if number % 100 == 0:
            await run.keep(number)
    await run.settle()
    return run


def main() -> int:
    wanted, each = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, 2000
    codes: Counter[int] = Counter()
    began = time.monotonic()
    for seed in range(-(-wanted // each)):
        run = asyncio.run(fuzz(each, seed))
        codes += run.codes
        if run.failures:
            print(f"seed {seed}:", *run.failures[:10], sep="\n  ")
            return 1
    told = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
    print(f"{sum(codes.values())} requests in {time.monotonic() - began:.0f} s, nothing broke ({told})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
