"""Names: the recorded complaints of every rule, and the shapes the recordings do not have."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.api import names

RECORDED = Path(__file__).parents[3] / "shared" / "conformance" / "trainer" / "functions.json"
RULES = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.qualified_name,
    "labelValue": names.label_value,
    "envVarName": names.env_name,
    "configMapKey": names.config_key,
    "portName": names.port_name,
    "domainPrefixedPath": lambda text: [f"{c.reason}: {c.message}" for c in names.domain_prefixed_path(text)],
}


def test_the_recorded_complaints_are_ours():
    if not RECORDED.exists():
        pytest.skip("no recorded data beside the repository")
    rows = [row for row in json.loads(RECORDED.read_text())["cases"] if row["fn"] == "validate"]
    wrong = [row for row in rows if RULES[row["args"]["rule"]](row["args"]["value"]) != row["result"]]
    assert rows and not wrong


GOOD = {
    "dns1123Label": "my-name-1",
    "dns1123Subdomain": "a.b-c.d",
    "dns1035Label": "abc-1",
    "qualifiedName": "example.com/My_Name",
    "labelValue": "",
    "envVarName": "_A.b-c",
    "configMapKey": "key.name",
    "portName": "http-1",
    "domainPrefixedPath": "a.io/x",
}


@pytest.mark.parametrize("rule", GOOD)
def test_a_good_name_raises_no_complaint(rule):
    assert RULES[rule](GOOD[rule]) == []


@given(st.sampled_from(sorted(RULES)), st.text(max_size=80))
def test_any_text_gets_an_answer(rule, text):
    assert all(isinstance(words, str) for words in RULES[rule](text))
