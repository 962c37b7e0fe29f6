"""Jobs and CronJobs: told the same story, upstream's controllers and ours come to the same end, line by line."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tools import real_operators

from .referee import ours
from .teller import Lookout, read, tell

pytestmark = pytest.mark.real

CONTROLLERS = "namespaces,accounts,rootca,garbage,claim-protection,job,ttl,cronjob,quota,jobset,placement,trainjob"
OPTIONS = ("--admission=trainjob,jobset", "--feature-gates=TrainJobStatus=false")  # as upstream's defaults have it
AT_ONCE = 40
FILES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
STORIES = {title: story for path in FILES for title, story in read(path).items()}
# What may differ: a pattern of stories, one of differences in them, and why.
ACCEPTED = (
    (
        "somebody puts|somebody wakes|a Job is asleep when its set starts again|a set of which one Job",
        r"Suspended|Resumed|Resume|Deleted pod|status\.conditions|status\.startTime|InOrderStartup",
        "upstream: who acts first, who put it to sleep or who wakes it, is a race that both sides run",
    ),
    ("", r"MissingJob", "upstream: of a Job that goes the controller may hear before it sees its own status"),
    (
        "somebody forgets the Jobs at work",
        r"UnexpectedJob|status\.active|SawCompletedJob",
        "ours: the Job of the last moment is known by its name, so that a crash before the status forgets nothing",
    ),
    (
        "somebody forgets when it began",
        r"lastScheduleTime",
        "upstream: looks for the Job that is there in no namespace, fails, and tries for ever",
    ),
    ("", r"JobCreationFailed.*already exists", "upstream: its cache is older than its own deletions"),
)


def is_accepted(story, line):
    return any(re.match(title, story) and re.search(pattern, line) for title, pattern, _ in ACCEPTED)


@pytest.fixture(scope="module")
def found(cluster):
    """What differed in each story; many are told at once, each in a namespace of its own."""
    if not real_operators.are_built():
        pytest.skip(real_operators.why_not())
    real_operators.start(cluster)
    with ours(CONTROLLERS, *OPTIONS) as our, ThreadPoolExecutor(AT_ONCE) as pool:
        lookouts = [Lookout(cluster.server), Lookout(our.where.geturl())]
        telling = {
            name: pool.submit(tell, story, f"story-{number}", lookouts)
            for number, (name, story) in enumerate(STORIES.items())
        }
        yield {name: future.result() for name, future in telling.items()}
        for lookout in lookouts:
            lookout.over = True


@pytest.mark.parametrize("story", STORIES)
def test_a_story_ends_there_as_it_ends_here(found, story):
    assert [line for line in found[story] if not is_accepted(story, line)] == []
