"""`make conformance`: run the recordings, count, compare with the floors, and write down what differs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import yaml

from tests.conformance import kube, lifecycle, scheduler, trainer
from tests.conformance.results import HERE, Result, read_accepted, score

Suites = Iterable[tuple[str, Iterable[Result]]]
BUILD = HERE.parent.parent / "build" / "conformance"


def one(name: str, run: Callable[[Path], Iterable[Result]]) -> Callable[[Path], Suites]:
    """A suite without sub-suites."""
    return lambda data: [(name, run(data))]


SUITES: dict[str, Callable[[Path], Suites]] = {
    "kube": kube.run,
    "trainer": one("trainer", trainer.run),
    "lifecycle": one("lifecycle", lifecycle.run_planes),
    "scheduler": one("scheduler", scheduler.run),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", choices=list(SUITES), action="append", help="only this suite")
    parser.add_argument("--data", type=Path, required=True, help="where the recordings are")
    options = parser.parse_args()
    floors = yaml.safe_load((HERE / "floors.yaml").read_text())
    accepted, below = read_accepted(), []
    for name in options.suite or SUITES:
        data = options.data / name
        if not data.is_dir():
            print(f"{name}: skipped, no recordings in {data}", file=sys.stderr)
            continue
        for suite, results in SUITES[name](data):
            began = time.monotonic()
            total = score(suite, results, accepted)
            print(total, flush=True)
            print(f"    {time.monotonic() - began:.0f} s", file=sys.stderr)
            _write_down(suite, total.failures)
            if total.passed < floors.get(suite, 0):
                below.append(f"{suite}: {total.passed} passed, the floor is {floors[suite]}")
    for sentence in below:
        print(f"below the floor: {sentence}", file=sys.stderr)
    return 1 if below else 0


def _write_down(suite: str, failures: Iterable[str]) -> None:
    path = BUILD / f"{suite.replace('/', '-')}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{failure}\n" for failure in failures))


if __name__ == "__main__":
    sys.exit(main())
