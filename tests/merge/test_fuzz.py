"""Odd documents and odd patches: all are merged, or refused as an API server refuses; nothing given is changed."""

import json
import random

import pytest

from allaboard.api import crds
from allaboard.api.errors import ApiError, BadRequest
from allaboard.merge.apply import SPEC, STATUS, Actor, apply, track
from allaboard.merge.patch import json_patch, merge_patch, strategic_merge
from allaboard.schema import structure
from allaboard.schema.nodes import ANY, LIST, MAP, Node

BUILT_IN = ("core.v1.Pod", "batch.v1.Job", "core.v1.Service", "core.v1.ConfigMap", "core.v1.Node", "core.v1.Secret")
WORDS = ["a", "b", "name", "TCP", "node", "", "é\n", "500m", "1Gi", "2024-01-01T00:00:00Z", "$patch", "delete", "AAEC"]
ODD = [None, True, False, 0, 1, -1, 2**31, 2**63, 2**70, 1.5, 1e300, *WORDS]
KEYS = [*WORDS, "containers", "$setElementOrder/containers", "$retainKeys", "metadata", "spec"]
PATHS = ["spec", "metadata", "containers", "0", "-", "name", "labels"]


class Chance:
    """Documents shaped by a schema, with something odd in them now and then."""

    def __init__(self, seed):
        self.of = random.Random(seed)

    def some(self, most):
        return range(self.of.randint(0, most))

    def odd(self, depth=0):
        if self.of.random() < 0.6 or depth > 3:
            return self.of.choice(ODD)
        if self.of.random() < 0.5:
            return [self.odd(depth + 1) for _ in self.some(3)]
        return {self.of.choice(KEYS): self.odd(depth + 1) for _ in self.some(3)}

    def value(self, node: Node, depth=0):
        if self.of.random() < 0.03 or node.shape == ANY or depth > 7:
            return self.odd(depth)
        if node.shape == LIST:
            return [self.value(node.items, depth + 1) for _ in self.some(3)]
        if node.shape == MAP:
            return self.struct(node, depth)
        numbers = {"boolean": True, "integer": 3, "number": 2, "int-or-string": "50%"}
        return numbers.get(node.type) or self.of.choice(WORDS)

    def struct(self, node, depth):
        names = self.of.sample(list(node.fields), min(len(node.fields), self.of.randint(0, 4)))
        found = {name: self.value(node.fields[name], depth + 1) for name in names}
        if node.values is not None:
            found |= {self.of.choice(WORDS): self.value(node.values, depth + 1) for _ in self.some(2)}
        return found

    def document(self, node):
        found = self.struct(node, 0)
        return {
            **found,
            "apiVersion": "v1",
            "kind": "K",
            "metadata": {"name": "x", "labels": {"a": self.of.choice(WORDS)}},
        }

    def patch(self, value):
        if isinstance(value, list):
            return [self.patch(item) for item in value]
        if not isinstance(value, dict):
            return value if self.of.random() < 0.8 else self.of.choice(ODD)
        found = {name: self.patch(item) for name, item in value.items() if self.of.random() < 0.7}
        if self.of.random() < 0.1:
            found["$patch"] = self.of.choice(["delete", "replace", "merge", "frob", 1])
        for name in [name for name, item in found.items() if isinstance(item, list) and self.of.random() < 0.3]:
            found[f"$setElementOrder/{name}"] = self.of.choice([found[name], [], 1, found[name][::-1]])
        return found

    def operations(self):
        kinds = ["add", "remove", "replace", "test", "copy", "move", "frob"]
        return [
            {
                "op": self.of.choice(kinds),
                "path": "/" + "/".join(self.of.choices(PATHS, k=2)),
                "from": "/spec",
                "value": self.odd(),
            }
            for _ in self.some(3)
        ]


def decoded(kind, document, *, sent=True):
    admitted = kind.admit(document, sent=sent)
    if admitted.malformed:
        raise BadRequest(admitted.malformed)
    return admitted.document


def written(chance, kind, live, actor):
    document = chance.document(kind.root)
    how = chance.of.choice(["apply", "apply", "update", "merge", "strategic", "json"])
    if how == "apply":
        return decoded(kind, apply(live, document, kind, actor, force=chance.of.random() < 0.6), sent=False)
    if live is not None and how == "merge":
        document = merge_patch(live, chance.patch(document))
    elif live is not None and how == "strategic":
        document = strategic_merge(live, chance.patch(chance.of.choice([live, document])), kind.root)
    elif live is not None and how == "json":
        document = json_patch(live, chance.operations())
    return track(live, decoded(kind, document), kind, actor)


@pytest.mark.parametrize("seed", range(6))
def test_odd_documents_are_merged_or_refused(seed):
    chance = Chance(seed)
    kinds = [structure.compile({"$ref": name}) for name in BUILT_IN]
    kinds += [
        structure.compile(v["schema"]["openAPIV3Schema"]) for crd in crds.documents() for v in crd["spec"]["versions"]
    ]
    done = 0
    for _ in range(300):
        kind, live = chance.of.choice(kinds), None
        for second in range(3):
            actor = Actor(chance.of.choice("abc"), "v1", f"t{second}", "", chance.of.choice([{}, STATUS, SPEC]))
            before = json.dumps(live, sort_keys=True)
            try:
                new = written(chance, kind, live, actor)
                kind.validate(new, live)
            except ApiError as refusal:
                assert refusal.status()["message"]
                continue
            assert json.dumps(live, sort_keys=True) == before
            if isinstance(new.get("metadata"), dict):
                live = {**new, "metadata": {**new["metadata"], "uid": "u"}}
                done += 1
    assert done > 300
