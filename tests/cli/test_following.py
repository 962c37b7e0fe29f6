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


# A job that was just made, as seen by somebody who looks now and then.
RUNS = "  queued 2.5 s ▸ scheduled ▸ running on n"
GLANCES = {
    "every phase": (STARTS, "  queued 500 ms ▸ scheduled 2.0 s ▸ running on n"),
    "first seen with a place": (STARTS[1:], "  queued 500 ms ▸ scheduled 2.0 s ▸ running on n"),
    "first seen at work": (STARTS[2:], RUNS),
    "seen waiting and at work": ([STARTS[0], STARTS[2]], RUNS),
    "first seen when it was over": ([moved("Complete", 2.5)], RUNS),
    "seen at work and when it was over": ([STARTS[2], moved("Complete", 9)], RUNS),
    "failed before it ran": ([moved("Failed", 1)], "  queued"),
    "begun again": (
        [STARTS[2], moved("Pending", 5), moved("Running", 7)],
        f"{RUNS}\n  queued 2.0 s ▸ scheduled ▸ running on n",
    ),
}


def test_a_new_job_has_passed_what_nobody_saw(capsys):
    for name, (happenings, talk) in GLANCES.items():
        with Screen(made=START) as shown:
            for happening in happenings:
                shown.show(happening)
        assert capsys.readouterr().err.rstrip("\n") == talk, name


def test_what_is_shown(capsys):
    for name, (happenings, talk, data) in SHOWN.items():
        with Screen() as shown:
            for happening in happenings:
                shown.show(happening)
        said = capsys.readouterr()
        assert (said.err.splitlines(), said.out.splitlines()) == (talk, data), name
