"""The SchedulingShard in force: the policy a cluster's operators wrote down, and whether they ask for a check."""

from __future__ import annotations

from allaboard.api import labels
from allaboard.api.documents import Document
from allaboard.api.meta import annotations_of, name_of
from allaboard.scheduling.policy import DEFAULT, Policy, read

# One scheduler serves all nodes, so one shard counts: the one KAI's own installation makes.
NAME = "default"


def spec_of(shard: Document) -> Document:
    """What a shard asks for; our own two settings are annotations, as KAI's kind has no fields for them."""
    said = annotations_of(shard)
    ours: Document = {}
    if labels.POLICY in said:
        ours["policy"] = said[labels.POLICY]
    if labels.FEWEST_VICTIMS in said:
        ours["fewestVictims"] = said[labels.FEWEST_VICTIMS] == "true"
    return {**(shard.get("spec") or {}), **ours}


class Shard:
    """The policy as last told. One that makes no sense changes nothing and leaves its `fault`."""

    def __init__(self, usual: Policy = DEFAULT) -> None:
        self.usual = self.policy = usual
        self.document: Document = {}
        self.spec: Document = {"policy": usual.name}
        self.fault = ""
        self.moved = self.news = False
        self._checked = ""

    def hear(self, old: Document | None, new: Document | None) -> None:
        """A shard was written or is gone; those of another name are nobody's."""
        if name_of(new or old or {}) != NAME:
            return
        spec = spec_of(new) if new is not None else {"policy": self.usual.name}
        self.document, before, self.fault = new or {}, self.fault, ""
        if spec != self.spec:
            try:
                self.policy = read(spec) if new is not None else self.usual
            except (TypeError, ValueError) as error:
                self.fault = str(error)
            else:
                self.spec, self.moved = spec, True
        self.news = self.news or self.moved or self.fault != before or self.wants_check()

    def settle(self) -> bool:
        """The policy is about to be used; whether it is another one than before."""
        moved, self.moved, self.news = self.moved, False, False
        return moved

    def wants_check(self) -> bool:
        """Whether somebody asked, since the last time, for the state to be compared with one built anew."""
        return annotations_of(self.document).get(labels.CHECK, "") not in ("", self._checked)

    def checked(self) -> None:
        self._checked = annotations_of(self.document).get(labels.CHECK, "")
