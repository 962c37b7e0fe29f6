"""Completion indexes as text, and the lowest free ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.jobs.indexes import first_free, parse, render

TEXTS = {"nothing": ("", ()), "one": ("3", (3,)), "neighbours": ("4,5", (4, 5)), "a run": ("0,2,4-6", (0, 2, 4, 5, 6))}


@pytest.mark.parametrize(("text", "numbers"), TEXTS.values(), ids=TEXTS)
def test_a_set_and_its_text(text, numbers):
    assert parse(text, 100) == set(numbers)
    assert render(numbers) == text


def test_a_job_that_shrank_forgets_what_is_beyond():
    assert parse("1,3-9", 5) == {1, 3, 4}


@given(st.sets(st.integers(0, 60)))
def test_text_is_memory(numbers):
    assert parse(render(numbers), 61) == numbers


@given(st.sets(st.integers(0, 30)), st.integers(0, 10))
def test_free_indexes_are_the_lowest(taken, count):
    assert first_free(taken, count, 31) == [index for index in range(31) if index not in taken][:count]
