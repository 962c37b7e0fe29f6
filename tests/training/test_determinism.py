"""Same input, same bytes: whatever the seed of Python's hashes."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import hashlib
from tests.training.test_golden import CASES, FOLDER, rendered
text = "".join(rendered(FOLDER / case) for case in CASES)
print(hashlib.sha256(text.encode()).hexdigest())
"""


def digest(seed):
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return run.stdout


def test_two_seeds_give_the_same_bytes():
    assert len(digest(1)) == len(hashlib.sha256().hexdigest()) + 1
    assert digest(1) == digest(2)


@pytest.mark.slow
def test_fifty_seeds_give_the_same_bytes():
    assert len({digest(seed) for seed in range(50)}) == 1
