"""Numbers as people write them: the scheduler counts milli-cores and bytes, its messages speak of cores and Gi."""

from __future__ import annotations

UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
BYTES = ("memory", "ephemeral-storage")


def quantity(resource: str, number: float) -> str:
    """The number alone: `1.5` of 1500 milli-cores, `4 Gi` of so many bytes."""
    if resource == "cpu":
        return f"{number / 1000:g}"
    if resource in BYTES:
        unit, size = next(((unit, size) for unit, size in UNITS if number >= size), ("", 1))
        return f"{number / size:.3g} {unit}".rstrip()
    return f"{number:g}"


def amount(resource: str, number: float) -> str:
    """With its resource: `1.5 cpu`, `4 Gi memory`, `2 gpu`."""
    return f"{quantity(resource, number)} {resource}"
