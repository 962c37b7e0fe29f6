"""What is made of a part that documents share is made once."""

from allaboard.api.twins import REMEMBERED, made_once


def counting():
    calls = []

    @made_once
    def made(part, other=None, *, chosen=""):
        calls.append(chosen)
        return [part, other, chosen]

    return made, calls


def test_the_same_objects_get_the_same_answer_and_equal_ones_a_new_one():
    made, calls = counting()
    part = ["a"]
    assert made(part) is made(part)
    assert made(["a"]) is not made(part)
    assert made(part, part) is not made(part)
    assert len(calls) == 3


def test_what_is_chosen_freely_stays_what_was_chosen_first():
    made, _ = counting()
    part = ["a"]
    assert made(part, chosen="x") is made(part, chosen="y")


def test_what_it_remembers_is_bounded_and_never_mistaken():
    made, calls = counting()
    for number in range(10 * REMEMBERED):
        assert made([number])[0] == [number]  # lists that come and go may stand in each other's places
    assert len(calls) == 10 * REMEMBERED
