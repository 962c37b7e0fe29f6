"""One measured number: its name, ours, the bar, and which side of the bar is good."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """A number from a run; `bar` is None where there is none."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    higher_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times better than the bar; below 1 is worse."""
        if self.bar is None or not self.value or not self.bar:
            return None
        return self.value / self.bar if self.higher_is_better else self.bar / self.value

    def cells(self) -> list[str]:
        bar = "" if self.bar is None else f"{'≥' if self.higher_is_better else '≤'} {self.bar:g} {self.unit}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}x"
        return [self.name, f"{self.value:.4g} {self.unit}", bar, ratio]

    def document(self) -> dict[str, object]:
        return asdict(self) | {"ratio": self.ratio}


def print_rows(rows: list[Row]) -> None:
    lines = [["what", "ours", "bar", "ratio"], *[row.cells() for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
