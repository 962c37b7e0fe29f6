"""What a real cluster is given."""

import pytest

from allaboard.api.documents import dig
from allaboard.main.install import scheduled_by
from allaboard.training.runtimes import shipped_runtimes

RUNTIMES = {runtime["metadata"]["name"]: runtime for runtime in shipped_runtimes()}


def schedulers(runtime):
    jobs = dig(runtime, "spec", "template", "spec", "replicatedJobs")
    return {dig(job, "template", "spec", "template", "spec", "schedulerName") for job in jobs}


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_a_runtime_beside_another_scheduler_names_ours(runtime):
    assert schedulers(scheduled_by(runtime, "aboard")) == {"aboard"}
    assert schedulers(runtime) == {None}, "the shipped one is not touched"


def test_a_runtime_keeps_the_scheduler_it_asks_for():
    chosen = scheduled_by(RUNTIMES["torch-distributed"], "volcano")
    assert schedulers(scheduled_by(chosen, "aboard")) == {"volcano"}


def test_without_a_scheduler_of_ours_a_runtime_is_as_shipped():
    runtime = RUNTIMES["torch-distributed"]
    assert scheduled_by(runtime, "") is runtime
