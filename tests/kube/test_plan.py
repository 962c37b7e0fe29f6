"""Plans add up, and an empty one is false."""

from datetime import UTC, datetime, timedelta

from allaboard.api.documents import Key
from allaboard.api.kinds import POD
from allaboard.kube.plan import NOTHING, Create, Delete, Plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CREATE, DELETE = Create(POD, {}), Delete(POD, Key("ns", "a"))


def test_plans_add_up_field_by_field_and_the_earlier_return_wins():
    one = Plan(create=(CREATE,), again=NOW + timedelta(seconds=5))
    two = Plan(delete=(DELETE,), again=NOW)
    assert one + two == Plan(create=(CREATE,), delete=(DELETE,), again=NOW)


def test_every_field_adds_up_and_counts():
    fields = [name for name in Plan.__struct_fields__ if name != "again"]
    full = Plan(**{name: (name,) for name in fields})
    assert full + full == Plan(**{name: (name, name) for name in fields})
    assert all(Plan(**{name: (name,)}) for name in fields)


def test_nothing_is_nothing():
    assert not NOTHING
    assert NOTHING + Plan(create=(CREATE,)) == Plan(create=(CREATE,))
    assert Plan(again=NOW)
