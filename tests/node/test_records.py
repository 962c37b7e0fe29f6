"""Records: lines that are only appended, and what a reader makes of them whatever the moment."""

import pytest

from allaboard.node import records

TEXTS = {
    "nothing was noted": (b"", None),
    "one line": (b'exit {"code": 3}\n', 3),
    "the last of a word counts": (b'exit {"code": 137}\nexit {"code": 3}\n', 3),
    "other words do not": (b'exit {"code": 3}\nstarted {"at": 1}\n', 3),
    "a line in the making is not there yet": (b'exit {"code": 3}\nexit {"co', 3),
    "nor is a line that was torn for good": (b'exit {"co\n', None),
    "which does not hide the whole one before it": (b'exit {"code": 3}\nexit {"co\nstarted {"at": 1}\n', 3),
}


@pytest.mark.parametrize(("text", "code"), TEXTS.values(), ids=TEXTS)
def test_what_a_record_says(text, code, tmp_path):
    (tmp_path / "record").write_bytes(text)
    found = records.read(tmp_path / "record").get("exit")
    assert (found or {}).get("code") == code


def test_a_record_that_was_never_begun_says_nothing(tmp_path):
    assert "exit" not in records.read(tmp_path / "record")


def test_what_is_noted_after_a_torn_line_does_not_join_it(tmp_path):
    (tmp_path / "record").write_bytes(b'exit {"code": 137}\nexit {"co')
    records.note(tmp_path / "record", "exit", {"code": 3})
    assert records.read(tmp_path / "record").get("exit") == {"code": 3}


BOOKS = {"whole": ("a\t1\nb\t2\n", ["a\t1", "b\t2"]), "torn": ("a\t1\nb\t2", ["a\t1"]), "missing": (None, [])}


@pytest.mark.parametrize(("text", "lines"), BOOKS.values(), ids=BOOKS)
def test_half_a_line_of_a_book_is_none(text, lines, tmp_path):
    if text is not None:
        (tmp_path / "book").write_text(text)
    assert records.whole_lines(tmp_path / "book") == lines


def test_what_is_noted_is_read_and_nobody_else_may(tmp_path):
    path = tmp_path / "record"
    records.note(path, "spec", {"env": {"A": "line\nline é \udce9"}})
    records.note(path, "exit", {"code": 0})
    assert records.read(path).get("spec") == {"env": {"A": "line\nline é \udce9"}}
    assert path.stat().st_mode & 0o777 == 0o600
