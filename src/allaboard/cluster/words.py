"""The words in which documents of one batch may differ without being anything else: their names, mostly.

Such a word has a rule of its own at most, and nothing but itself depends on it: no default, no other field's rule, no
owner of fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, Union

from allaboard.cluster.metadata import NameRule, label_value, masked
from allaboard.schema.nodes import MAP, Node

Word = Callable[[str], bool]  # whether this text may stand there
Apart: TypeAlias = dict[str, Union[Word, "Apart"]]
EACH = ""  # every key of a map; no field has this name
_PLAIN = frozenset({"type", "description"})


def text(word: str) -> bool:
    """Any text but the empty one, which is as good as none."""
    return word != ""


def label(word: str) -> bool:
    return word != "" and not label_value(word)


def identity(word: str) -> bool:
    return word.isascii() and word.replace("-", "").isalnum()


def named(rule: NameRule) -> dict[str, Word | Apart]:
    """What tells objects of any kind apart."""
    return {
        "name": lambda word: word != "" and not rule(word),
        "generateName": lambda word: word != "" and not rule(masked(word)),
        "ownerReferences": {"name": text, "uid": identity},
    }


def together(own: Apart, rule: NameRule) -> Apart:
    """What tells objects of any kind apart, and what a kind adds to it."""
    worn = own.get("metadata", {})
    assert isinstance(worn, dict)
    return {**own, "metadata": {**named(rule), **worn}}


def of_custom(root: Node, rule: NameRule) -> Apart:
    """The words of a custom kind: what its schema calls a text and says nothing else about, where no rule looks on."""
    if root.rules or root.schema.get("properties", {}).get("metadata", {}).get("properties"):
        return {}
    own = {name: found for name, found in _free(root).items() if name not in ("apiVersion", "kind", "metadata")}
    worn: dict[str, Word | Apart] = {"labels": {EACH: label}, "annotations": {EACH: text}}
    return together({**own, "metadata": worn}, rule)


def _free(node: Node) -> dict[str, Word | Apart]:
    return {name: found for name, child in node.fields.items() if (found := _of(child))}


def _of(node: Node) -> Word | Apart | None:
    if node.shape == MAP:
        return None if node.rules or node.embedded or node.open else _free(node)
    return text if node.type == "string" and node.schema.keys() <= _PLAIN else None
