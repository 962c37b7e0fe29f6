"""The first minute: one command trains, and leaves nothing behind."""

import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")


def test_hello_trains_and_leaves_nothing_behind(newcomer):
    before = MOUNTS.read_text().count(str(newcomer.home))
    said = newcomer.aboard("run", "hello")
    assert said.code == 0, said.err
    losses = [float(loss) for loss in re.findall(r"r0 │ step \d+/\d+ loss ([\d.]+)", said.out)]
    assert len(losses) >= 5 and losses == sorted(losses, reverse=True)
    assert "hello from rank 0 of 2" in said.out and "hello from rank 1 of 2" in said.out
    for word in ("plane started", "queued", "scheduled", "running", "Complete", "plane stopped"):
        assert word in said.err
    assert newcomer.processes() == []
    assert MOUNTS.read_text().count(str(newcomer.home)) == before


def test_progress_reports_reach_the_screen(newcomer):
    said = newcomer.aboard("run", "hello")
    assert re.search(r"progress 100 %  loss 0\.\d+", said.err), said.err
