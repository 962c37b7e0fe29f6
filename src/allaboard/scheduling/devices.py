"""Devices handed out by claims: who uses a claim on which node, and what that takes of the node's GPUs.

A claim stands on one node and its devices are taken once, however many pods use it. They are idle again when the
last user is gone; while all users are leaving they count as being released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from allaboard.scheduling.facts import GPU_DEVICE_CLASS, Claim, Status

MAX_CONSUMERS = 256
HOLDING, LEAVING, PROMISED = range(3)


class Devices:
    """Users per claim and node, by how firmly they hold it."""

    def __init__(self) -> None:
        self.users: dict[str, dict[int, list[int]]] = {}
        self.claims: dict[str, Claim] = {}

    def enter(self, claim: Claim, row: int, status: Status, sign: int) -> tuple[float, float]:
        """A user comes (+1) or goes (-1); what changes on the node: idle and releasing GPUs."""
        self.claims[claim.name] = claim
        counts = self.users.setdefault(claim.name, {}).setdefault(row, [0, 0, 0])
        before = _effect(counts)
        counts[_firmness(status)] += sign
        after = _effect(counts)
        if not any(counts):
            del self.users[claim.name][row]
        if claim.device_class != GPU_DEVICE_CLASS:
            return 0.0, 0.0
        return claim.count * (after[0] - before[0]), claim.count * (after[1] - before[1])

    def moved(self, rows: Mapping[int, int]) -> Devices:
        """The same users on renumbered nodes."""
        other = Devices()
        other.claims = self.claims
        for name, places in self.users.items():
            other.users[name] = {rows[row]: counts for row, counts in places.items() if row in rows}
        return other

    def place_of(self, claim: Claim) -> set[int]:
        """Nodes where the claim is in use; one whose users all leave is as good as free."""
        return {row for row, counts in self.users.get(claim.name, {}).items() if counts[HOLDING] or counts[PROMISED]}

    def consumers(self, claim: Claim) -> int:
        return sum(sum(counts) for counts in self.users.get(claim.name, {}).values())

    def taken(self, device_class: str, row: int, *, idle: bool) -> int:
        """Devices of a class that are not free on a node; with `idle`, those being released are not free either."""
        total = 0
        for name, places in self.users.items():
            claim = self.claims[name]
            if row in places and claim.device_class == device_class:
                gone, back = _effect(places[row])
                total -= claim.count * (gone if idle else gone + back)
        return total

    def fit(self, offers: list[Mapping[str, int]], claims: Iterable[Claim], *, idle: bool) -> npt.NDArray[np.bool_]:
        """Nodes that have the devices for all these claims: where a claim stands already, only that node."""
        mask = np.ones(len(offers), dtype=bool)
        wanted: dict[str, int] = {}
        for claim in claims:
            places = self.place_of(claim)
            if places:
                mask &= np.isin(np.arange(len(offers)), list(places))
            else:
                wanted[claim.device_class] = wanted.get(claim.device_class, 0) + claim.count
        for device_class, count in wanted.items():
            for row, offer in enumerate(offers):
                free = offer.get(device_class, 0) - self.taken(device_class, row, idle=idle)
                mask[row] &= free >= count
        return mask


def _firmness(status: Status) -> int:
    return PROMISED if status == Status.PIPELINED else LEAVING if status == Status.RELEASING else HOLDING


def _effect(counts: list[int]) -> tuple[int, int]:
    """Per device: what its users take of idle and give to releasing."""
    holding, leaving, promised = counts
    if holding:
        return -1, 0
    if leaving:
        return -1, 0 if promised else 1
    return (0, -1) if promised else (0, 0)
