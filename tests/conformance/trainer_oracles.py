"""Second opinions for rows where the reference is wrong: exact arithmetic of quantities, and how ports merge."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

UNITS = {suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate(["n", "u", "m", "", "k", *"MGTPE"], -3)}
UNITS |= {f"{suffix}i": Fraction(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", 1)}


def number(text: str) -> Fraction:
    """What a quantity says, by fractions: the reference's own arithmetic runs over in the rows marked as quirks."""
    digits, suffix = re.fullmatch(r"([+-]?[0-9.]*)(.*)", text).groups()  # type: ignore[union-attr]
    unit = Fraction(10) ** int(suffix[1:]) if re.fullmatch(r"[eE][+-]?\d+", suffix) else UNITS[suffix]
    found = Fraction(digits or 0) * unit
    # Binary suffixes stop at the largest number of 64 bits, which is the API's own rule.
    return min(max(found, Fraction(-(2**63) + 1)), Fraction(2**63 - 1)) if suffix.endswith("i") else found


def away(amount: Fraction) -> int:
    """Rounded to a whole number, away from zero."""
    return -math.floor(-amount) if amount > 0 else math.floor(amount)


def exactly(text: str, ours: Any) -> Any:
    """What is right of a quantity; its canonical text is right if it says the same to the last nano."""
    meant = Fraction(away(number(text) * 10**9), 10**9)
    canonical = ours["canonical"] if number(ours["canonical"]) == meant else f"a text that says {meant}"
    sign = (meant > 0) - (meant < 0)
    values = {"milliValue": away(meant * 1000), "value": away(meant), "sign": sign}
    return {"canonical": canonical, "format": ours["format"], **values}


def merged_ports(existing: list[Any], new: list[Any]) -> list[Any]:
    """Ports told apart by number and protocol, or by the name they have."""
    result = list(existing)
    for port in new:
        same = [at for at, old in enumerate(result) if _place(old) == _place(port) or _is_namesake(old, port)]
        at = same[0] if same else len(result)
        result[at : at + 1] = [port]
    return result


def _place(port: Any) -> tuple[Any, str]:
    return port.get("containerPort"), port.get("protocol") or "TCP"


def _is_namesake(old: Any, new: Any) -> bool:
    return bool(old.get("name")) and old.get("name") == new.get("name")
