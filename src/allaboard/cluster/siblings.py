"""Documents of one batch that say nearly the same: what became of one becomes of the next, but for its words.

A Job's pods, a gang's bind requests and the events about them differ in a few names (`words.py`). Between two writes
of one batch nothing else happens, so that whatever was found out about the first holds for the second.
"""

from __future__ import annotations

from collections.abc import Mapping

from allaboard.api.documents import Document, Documents
from allaboard.api.meta import stamp
from allaboard.cluster.metadata import is_long
from allaboard.cluster.rules import Rules
from allaboard.cluster.words import EACH, Apart
from allaboard.cluster.world import World

_NOTHING: Document = {}
_OWNERS = "f:ownerReferences"


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
        entries = _owners_of_fields(made["metadata"], last["metadata"]) if made is not None else None
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
        found = _word(word, was, made.get(name), apart.get(name) or apart.get(EACH))
        if found is None:
            return None
        changed[name] = found
    return {**made, **changed} if changed else made


def _word(word: object, was: object, there: object, rule: object) -> object:
    """What stands in a place where two documents differ; None where no two siblings may."""
    if isinstance(rule, Mapping):
        if type(word) is dict and type(was) is dict and type(there) is dict:
            return _with_words(word, was, there, rule)
        if (
            type(word) is list
            and type(was) is list
            and type(there) is list
            and len(word) == len(was) == len(there) == 1
        ):
            one = _word(word[0], was[0], there[0], rule)
            return None if one is None else [one]
        return None
    is_word = callable(rule) and type(word) is str and there == was and rule(word)
    return word if is_word else None


def _owners_of_fields(metadata: Document, last: Document) -> Documents | None:
    """Whose the fields are when the words are in place; None where the words do not fit after all."""
    if metadata["name"] == last["name"] or is_long(metadata.get("annotations") or _NOTHING):
        return None
    owners, others = metadata.get("ownerReferences"), last.get("ownerReferences")
    entries: Documents = metadata["managedFields"]
    return entries if owners is others else _renamed(entries, _step(others), _step(owners))


def _step(owners: Documents | None) -> str:
    return f'k:{{"uid":"{owners[0]["uid"]}"}}' if owners else ""


def _renamed(entries: Documents, before: str, now: str) -> Documents | None:
    """The owners of fields, where an owner reference has another uid."""
    if len(entries) != 1:
        return None
    fields = entries[0]["fieldsV1"]
    of_owners = fields.get("f:metadata", _NOTHING).get(_OWNERS, _NOTHING)
    if before not in of_owners:
        return None
    renamed = {now if step == before else step: place for step, place in of_owners.items()}
    return [{**entries[0], "fieldsV1": {**fields, "f:metadata": {**fields["f:metadata"], _OWNERS: renamed}}}]
