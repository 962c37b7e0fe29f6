"""Counting: what agrees, what differs, and which differences were accepted with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import yaml

HERE = Path(__file__).parent


class Result(NamedTuple):
    """One unit of a suite: its id and every difference from what was recorded."""

    id: str
    differences: list[str]


@dataclass(frozen=True)
class Accepted:
    """Differences we want: the units and difference lines it covers (globs), and what wants it."""

    suite: str
    unit: str
    difference: str
    because: str

    def covers(self, suite: str, unit: str, difference: str) -> bool:
        meant = self.suite in (suite, suite.partition("/")[0])
        return meant and _match(unit, self.unit) and _match(difference, self.difference)


def _match(text: str, glob: str) -> bool:
    # In fnmatch brackets are sets; in our lines they are indexes.
    return fnmatchcase(text, glob.replace("[", "[[]"))


def read_accepted(path: Path = HERE / "accepted.yaml") -> list[Accepted]:
    entries = yaml.safe_load(path.read_text()) or []
    return [Accepted(e["suite"], e["unit"], e.get("difference", "*"), str(e["because"])) for e in entries]


@dataclass
class Score:
    """How a suite did."""

    suite: str
    passed: int = 0
    failed: int = 0
    accepted: int = 0
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.suite}: {self.passed} passed, {self.failed} failed, {self.accepted} accepted"


def score(suite: str, results: Iterable[Result], accepted: list[Accepted]) -> Score:
    """A unit passes when nothing differs; one whose every difference is accepted counts as accepted."""
    total, failures = Score(suite), []
    for result in results:
        unit, differences = result.id, result.differences
        open_ones = [d for d in differences if not any(a.covers(suite, unit, d) for a in accepted)]
        if not differences:
            total.passed += 1
        elif not open_ones:
            total.accepted += 1
        else:
            total.failed += 1
            failures.append(unit + "".join(f"\n    {difference}" for difference in open_ones[:20]))
    total.failures = tuple(failures)
    return total
