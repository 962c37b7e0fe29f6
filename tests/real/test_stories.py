"""Jobs and CronJobs: told the same story, upstream's controllers and ours come to the same end, line by line."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .referee import ours
from .teller import Lookout, read, tell

pytestmark = pytest.mark.real

CONTROLLERS = "namespaces,accounts,rootca,garbage,claim-protection,job,ttl,cronjob,quota"
FILES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
STORIES = {title: story for path in FILES for title, story in read(path).items()}
# What differs by intention: a pattern of the difference, and why.
ACCEPTED = {}


@pytest.fixture(scope="module")
def found(cluster):
    """What differed in each story; they are all told at once, each in a namespace of its own."""
    with ours(CONTROLLERS) as our, ThreadPoolExecutor(len(STORIES)) as pool:
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
    assert [line for line in found[story] if not any(re.search(pattern, line) for pattern in ACCEPTED)] == []
