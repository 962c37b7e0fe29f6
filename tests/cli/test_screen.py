"""Documents on the screen: read again they are the same, and text of several lines is lines."""

import pytest
import yaml

from allaboard.cli.screen import document_as

TEXTS = (
    "word",
    "no",
    "1",
    "",
    "a\nb\n",
    "a\nb",
    "a\n\n",
    "\n",
    " indented\nline",
    "end \nof line",
    "tab\tü\n",
    "a\r\nb",
)


@pytest.mark.parametrize("text", TEXTS, ids=repr)
@pytest.mark.parametrize("output", ["yaml", "json"])
def test_what_is_shown_can_be_read_again(output, text):
    document = {"spec": {"args": [text, text]}, "last": text}
    assert yaml.safe_load(document_as(output, document) + "\n") == document


def test_a_script_is_shown_as_it_was_written():
    document = {"args": ['cat <<END\nsay "hello"\nEND\n']}
    assert document_as("yaml", document) == 'args:\n- |\n  cat <<END\n  say "hello"\n  END'
