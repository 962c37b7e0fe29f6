"""Documents of one batch that say nearly the same: what became of one becomes of the next, but for its words.

A Job's pods, a gang's bind requests and the events about them differ in a few names (`words.py`). Between two writes
of one batch nothing else happens, so that whatever was found out about the first holds for the second.
"""

from __future__ import annotations

from allaboard.api.documents import Document, Documents
from allaboard.api.meta import stamp
from allaboard.cluster.metadata import is_long
from allaboard.cluster.rules import Rules
from allaboard.cluster.words import EACH, Apart
from allaboard.cluster.world import World
from allaboard.merge.likeness import with_owner
from allaboard.merge.trees import child_of, step_of

_NOTHING: Document = {}


class Siblings:
    """The document made last, as it was sent and as it was stored."""

    __slots__ = ("_made", "_rules", "_sent")

    def __init__(self) -> None:
        self._rules: Rules | None = None
        self._sent = self._made = _NOTHING

    def note(self, rules: Rules, sent: Document, made: Document) -> None:
        """The next one may be like this one."""
        self._rules, self._sent, self._made = rules, sent, made

    def like_the_last(self, rules: Rules, sent: Document, world: World) -> Document | None:
        """What becomes of a document that differs from the last in words only; None of any other."""
        last = self._made
        if rules is not self._rules or last["metadata"]["creationTimestamp"] != stamp(world.now()):
            return None
        made = _with_words(sent, self._sent, last, rules.apart)
        entries = _owners_of_fields(rules, made["metadata"], last["metadata"]) if made is not None else None
        if made is None or entries is None:
            return None
        return {**made, "metadata": {**made["metadata"], "managedFields": entries, "uid": world.uid()}}


def _with_words(sent: Document, before: Document, made: Document, apart: Apart) -> Document | None:
    """What was made of the one before, with the words of this one; None where anything else differs."""
    if sent.keys() != before.keys():
        return None
    changed: Document = {}
    for name, word in sent.items():
        was = before[name]
        if word is was or word == was:
            continue
        rule, there = apart.get(name) or apart.get(EACH), made.get(name)
        if isinstance(rule, dict):
            word = _part(word, was, there, rule)
        elif rule is None or type(word) is not str or there != was or not rule(word):
            return None
        if word is None:
            return None
        changed[name] = word
    return {**made, **changed} if changed else made


def _part(sent: object, before: object, made: object, apart: Apart) -> object:
    """The same for a part of a document, or for the one item of a list."""
    if type(sent) is dict and type(before) is dict and type(made) is dict:
        return _with_words(sent, before, made, apart)
    if (
        type(sent) is list
        and type(before) is list
        and type(made) is list
        and len(sent) == len(before) == len(made) == 1
    ):
        one = _part(sent[0], before[0], made[0], apart)
        return None if one is None else [one]
    return None


def _owners_of_fields(rules: Rules, metadata: Document, last: Document) -> Documents | None:
    """Whose the fields are when the words are in place; None where the words do not fit after all."""
    if metadata["name"] == last["name"] or is_long(metadata.get("annotations") or _NOTHING):
        return None
    owners, others = metadata.get("ownerReferences"), last.get("ownerReferences")
    entries: Documents = metadata["managedFields"]
    if owners is others or not owners or not others:
        return entries
    node = child_of(child_of(rules.structure.root, "metadata"), "ownerReferences")
    before, now = step_of(node, others[0]), step_of(node, owners[0])
    return [{**entry, "fieldsV1": with_owner(entry["fieldsV1"], before, now)} for entry in entries]
