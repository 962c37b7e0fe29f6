"""All gangs by name, and which of them need attention."""

from __future__ import annotations

from allaboard.scheduling.gangs import GangRow


class Roster(dict[str, GangRow]):
    """`waiting` have tasks that wait; `incomplete` hold something but not their minimum; `changed` since the last
    time gangs were put in order."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, GangRow] = {}
        self.incomplete: dict[str, GangRow] = {}
        self.changed: dict[str, GangRow] = {}

    def review(self, gang: GangRow) -> None:
        """Look again at a gang that changed, came or went."""
        self.changed[gang.name] = gang
        here = self.get(gang.name)
        if here is not None and here is not gang:
            return
        for gangs, member in ((self.waiting, gang.waits()), (self.incomplete, gang.is_incomplete())):
            if member and here is gang:
                gangs[gang.name] = gang
            else:
                gangs.pop(gang.name, None)
