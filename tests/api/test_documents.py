"""Keys as values: ordered, compared and unpacked as the pair they are."""

from hypothesis import given
from hypothesis import strategies as st

from allaboard.api.documents import Key

PAIRS = st.tuples(st.sampled_from(["", "a", "ab", "b"]), st.text(max_size=3))


@given(st.lists(PAIRS))
def test_keys_are_ordered_and_told_apart_as_their_pairs_are(pairs):
    keys = [Key(*pair) for pair in pairs]
    assert [tuple(key) for key in sorted(keys)] == sorted(pairs)
    assert {tuple(key) for key in set(keys)} == set(pairs) and len(set(keys)) == len(set(pairs))


def test_a_key_reads_as_people_write_it():
    assert str(Key("team", "run")) == "team/run" and str(Key("", "node")) == "node"
