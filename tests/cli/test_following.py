"""A followed job in a pipe: phases on one line with their times, then what the ranks print."""

from datetime import UTC, datetime, timedelta

from allaboard.cli.following import Screen
from allaboard.sdk.follow import Line, Moved, Progressed, Waits
from allaboard.sdk.jobs import Job

START = datetime(2026, 1, 1, tzinfo=UTC)
PLACED = Job({"metadata": {"name": "j"}}, [{"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}])


def moved(phase, seconds):
    return Moved(phase, START + timedelta(seconds=seconds), PLACED)


STARTS = [moved("Pending", 0), moved("Starting", 0.5), moved("Running", 2.5)]
SHOWN = {
    "a job that starts at once": (
        [*STARTS, Line("r0", "hi"), Progressed(50, {"loss": "0.2"}, 6)],
        ["  queued 500 ms ▸ scheduled 2.0 s ▸ running on n", "  progress 50 %  eta 6.0 s  loss 0.2"],
        ["r0 │ hi"],
    ),
    "one that waits first": (
        [moved("Pending", 0), Waits("needs 2 gpu"), moved("Starting", 60), moved("Running", 61)],
        ["  queued", "  waits: needs 2 gpu", "  scheduled 1.0 s ▸ running on n"],
        [],
    ),
    "one that ends before it runs": ([moved("Pending", 0), moved("Failed", 1)], ["  queued"], []),
}


def test_what_is_shown(capsys):
    for name, (happenings, talk, data) in SHOWN.items():
        with Screen() as shown:
            for happening in happenings:
                shown.show(happening)
        said = capsys.readouterr()
        assert (said.err.splitlines(), said.out.splitlines()) == (talk, data), name
