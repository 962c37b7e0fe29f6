"""How much work a step is, counted in calls: unlike its time, the same on every machine, however busy."""

import sys


def calls(step):
    """Calls of one step that has been done once before, so that what is kept is kept already."""
    step()
    counted = 0

    def count(_frame, event, _about):
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return counted
