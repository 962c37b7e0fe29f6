"""What Kubernetes' own validation (v1.35.0) says about documents with something wrong in them; ours says the same."""

import json
from pathlib import Path

import pytest

from allaboard.api.kinds import kind_of
from tests.cluster.judging import complaints

CASES = json.loads((Path(__file__).parent.parent / "golden" / "cluster" / "verdicts.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[f"{case['sent']['kind']} {n}" for n, case in enumerate(CASES)])
def test_the_verdict_is_kubernetes_own(case):
    assert sorted(set(complaints(kind_of(case["sent"]), case["sent"]))) == case["want"]
