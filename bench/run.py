"""`make bench`: every number beside its bar, as a table and as JSON in build/bench.json."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import yaml

from bench import api, decisions, fanout, hello, jobs, memory, node, reads, scheduling, trainjobs
from bench.rows import Row, print_rows

HERE = Path(__file__).parent
GROUPS: dict[str, Callable[[], Iterable[Row]]] = {
    "api": api.measure,
    "reads": reads.measure,
    "fanout": fanout.measure,
    "decisions": decisions.measure,
    "trainjobs": trainjobs.measure,
    "memory": memory.measure,
    "jobs": jobs.measure,
    "hello": hello.measure,
    "node": node.measure,
    "scheduling": scheduling.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=list(GROUPS), help=f"which: {', '.join(GROUPS)}")
    limits = yaml.safe_load((HERE / "limits.yaml").read_text()) or {}
    rows = [row for name in parser.parse_args().groups for row in measured(name)]
    print_rows(rows)
    report = HERE.parent / "build" / "bench.json"
    report.parent.mkdir(exist_ok=True)
    report.write_text(json.dumps([row.document() for row in rows], indent=1))
    past = [row for row in rows if row.name in limits and is_past(row, limits[row.name]["limit"])]
    for row in past:
        print(f"past its limit: {row.name}: {row.value:.4g} {row.unit}", file=sys.stderr)
    return 1 if past else 0


def measured(group: str) -> Iterable[Row]:
    print(f"measuring {group} …", file=sys.stderr, flush=True)
    return GROUPS[group]()


def is_past(row: Row, limit: float) -> bool:
    return row.value < limit if row.higher_is_better else row.value > limit


if __name__ == "__main__":
    sys.exit(main())
