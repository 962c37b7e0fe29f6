"""What a real API server (v1.37) makes of expressions: what they answer, and why it refuses some; ours do the same."""

import json
from pathlib import Path

import pytest

from allaboard.schema.cel.compiler import CelCompileError, compile_rule
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.types import type_of
from allaboard.schema.nodes import Node

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "schema" / "cel.json").read_text())
KIND = type_of(Node(GOLDEN["schema"]))


@pytest.mark.parametrize(("text", "want"), GOLDEN["answers"], ids=[text for text, _ in GOLDEN["answers"]])
def test_an_expression_answers_as_in_kubernetes(text, want):
    assert compile_rule(text, {"self": KIND}).run(Scope({"self": GOLDEN["value"]})) == want


@pytest.mark.parametrize(("text", "want"), GOLDEN["refused"], ids=[text for text, _ in GOLDEN["refused"]])
def test_an_expression_is_refused_as_in_kubernetes(text, want):
    with pytest.raises(CelCompileError) as refusal:
        compile_rule(text, {"self": KIND, "oldSelf": KIND})
    assert str(refusal.value) == want
