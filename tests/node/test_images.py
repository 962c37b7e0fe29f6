"""Which interpreters stand behind the shipped profiles."""

import sys

from allaboard.node import images


def test_we_know_of_ourselves_what_we_would_say_if_asked(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    known = images.modules_of(sys.executable)
    monkeypatch.setenv("PYTHONPATH", "/nowhere")  # then a fresh interpreter is asked
    assert images.modules_of(sys.executable) == known


def test_an_interpreter_that_is_not_one_has_nothing():
    assert images.modules_of("/bin/false") == frozenset()
