"""Logs of several ranks: merged by the time each line was printed."""

import click
import pytest

from allaboard.cli.logs import merged, options_of, seconds_of
from allaboard.sdk.jobs import Rank

RANKS = [Rank("r0", (0, "node", 0), {}), Rank("r1", (0, "node", 1), {})]


def test_lines_are_in_the_order_they_were_printed_then_by_rank():
    logs = [
        ["2026-01-01T00:00:01Z one", "2026-01-01T00:00:03Z same, first rank", "2026-01-01T00:00:03Z and its next line"],
        ["2026-01-01T00:00:02Z two", "2026-01-01T00:00:03Z same, second rank"],
    ]
    told = [f"{rank.word} {line.partition(' ')[2]}" for rank, line in merged(RANKS, logs)]
    assert told == [
        "r0 one", "r1 two", "r0 same, first rank", "r0 and its next line", "r1 same, second rank",
    ]  # fmt: skip


def test_moments_of_different_precision_compare():
    logs = [["2026-01-01T00:00:01.51Z later"], ["2026-01-01T00:00:01.5Z sooner"]]
    assert [line.partition(" ")[2] for _, line in merged(RANKS, logs)] == ["sooner", "later"]


def test_our_options_in_the_words_of_the_api():
    asked = {"follow": True, "tail": 5, "timestamps": False, "previous": True, "since": "10m"}
    assert options_of(asked) == {"tailLines": "5", "previous": "true", "sinceSeconds": "600"}
    assert options_of({"tail": None, "since": ""}) == {}


def test_what_is_no_time_is_said():
    assert [seconds_of(text) for text in ("90", "90s", "2h")] == [90, 90, 7200]
    with pytest.raises(click.UsageError, match="must be a time such as"):
        seconds_of("yesterday")
