"""What Kubernetes' own validation (v1.35, v1.37) says about documents with something wrong; ours says the same."""

import json
from pathlib import Path

import pytest

from allaboard.api.kinds import kind_of
from tests.cluster.judging import complaints

GOLDEN = Path(__file__).parent.parent / "golden" / "cluster"
CASES = [case for path in sorted(GOLDEN.glob("verdicts*.json")) for case in json.loads(path.read_text())]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['sent']['kind']} {n}" for n, case in enumerate(CASES)])
def test_the_verdict_is_kubernetes_own(case):
    assert sorted(set(complaints(kind_of(case["sent"]), case["sent"]))) == case["want"]
