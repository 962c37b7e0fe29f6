"""Whole results as files: a TrainJob and its runtime go in, the objects beside them come out.

`make golden` writes `want.yaml` anew; the difference is read in review.
"""

import os
from pathlib import Path

import pytest
import yaml

from allaboard.training.render import with_defaults
from tests.training.world import build

FOLDER = Path(__file__).parent.parent / "golden" / "training"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def rendered(folder):
    job, source = (yaml.safe_load((folder / name).read_text()) for name in ("trainjob.yaml", "runtime.yaml"))
    objects = build(with_defaults(source), with_defaults(job))
    for document in objects:
        if document["kind"] == "Secret":
            document["data"] = dict.fromkeys(document["data"], "<key>")
    return yaml.safe_dump_all(objects, sort_keys=True, width=120)


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    folder = FOLDER / case
    found = rendered(folder)
    if os.environ.get("GOLDEN") == "write":
        (folder / "want.yaml").write_text(found)
    assert found == (folder / "want.yaml").read_text()
