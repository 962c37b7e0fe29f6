"""SUITE=lifecycle: recorded stories of TrainJobs, JobSets, Jobs and Pods, told again to a plane of ours.

The data brings its own teller (`replay.py`); a unit is one step of one story.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.conformance.plane import plane
from tests.conformance.results import Result

# The stories were recorded without scheduler, pod runner and anything of ours beside the reference stack.
CONTROLLERS = "trainjob,jobset,placement,job,ttl,namespaces,accounts,rootca,claim-protection,garbage"
ADMISSION = "trainjob,jobset"
OFF = ("TrainJobStatus=false",)  # on by default with us, off in the reference stack
AT_ONCE = 24
OPTIONS = {
    "level": "full",
    "events": "subset",
    "messages": False,
    "strict": False,
    "hold": 0.4,
    "limit": 60.0,  # seconds; only what differs takes so long
    "suffix": "",
    "keep": False,
    "keep_going": True,
}


def run_planes(data: Path) -> Iterator[Result]:
    """Every story, on one plane per set of gates."""
    known = {",".join(story.get("gates") or ()) for story in _stories(data)}
    for gates in sorted(known):
        options = [f"--controllers={CONTROLLERS}", f"--admission={ADMISSION}", "--plain"]
        switched = [*OFF, *(f"{gate}=true" for gate in gates.split(",") if gate)]
        options.append(f"--feature-gates={','.join(switched)}")
        with plane(options) as server:
            yield from run(data, server.server, server.token, gates)


def run(data: Path, server: str, token: str, gates: str = "", only: str = "*") -> Iterator[Result]:
    """The stories recorded with exactly these gates on, told to a server."""
    teller = _teller(data)
    api = teller.Api(server, token, insecure=True)
    hub = teller.Hub(api)
    stories = [story for story in _stories(data) if ",".join(story.get("gates") or ()) == gates]
    stories = [story for story in stories if Path(story["name"]).match(only)]
    stories.sort(key=lambda story: (-_patience(story), story["name"]))  # the longest first: all end together
    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = pool.map(lambda story: teller.replay(api, hub, story, argparse.Namespace(**OPTIONS)), stories)
        for story, found in zip(stories, told):
            yield from _units(story, found)
    hub.stop = True


def _stories(data: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((data / "scenarios").glob("*.json"))]


def _patience(story: dict[str, Any]) -> float:
    return float(sum(step.get("seconds", 0) for step in story["steps"]))


def _units(story: dict[str, Any], found: Iterable[tuple[int, str]]) -> Iterator[Result]:
    """One result per step; a step that was never reached differs by that alone."""
    by_step: dict[int, list[str]] = {}
    for number, difference in found:
        by_step.setdefault(number, []).append(difference)
    stopped = next((n for n, lines in sorted(by_step.items()) if any(line.startswith(_STOPS) for line in lines)), None)
    if -1 in by_step:
        stopped = -1
    for number in range(len(story["steps"])):
        unreached = stopped is not None and number > stopped
        yield Result(f"{story['name']}/{number}", ["not reached"] if unreached else by_step.get(number, []))


_STOPS = "step not possible"


def _teller(data: Path) -> ModuleType:
    """`replay.py` as a module, blind to what only we write (ruling 7)."""
    spec = importlib.util.spec_from_file_location("lifecycle_replay", data / "replay.py")
    assert spec is not None and spec.loader is not None
    teller = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(teller)
    told = teller.Book.state

    def state(book: object) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
        documents, events = told(book)
        return {key: _without_ours(document) for key, document in documents.items()}, events

    teller.Book.state = state
    teller.compare = _once(teller.compare)
    return teller


def _once(compare: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Comparing is most of the work; while nothing changes the answer does not either."""
    known: dict[int, tuple[tuple[object, ...], list[str]]] = {}

    def remembered(want: object, events: list[object], book: Any, *how: str) -> list[str]:
        seen = (id(want), len(events), book.last)
        if known.get(id(book), (None,))[0] != seen:
            known[id(book)] = (seen, compare(want, events, book, *how))
        return known[id(book)][1]

    return remembered


def _without_ours(document: dict[str, Any]) -> dict[str, Any]:
    """Without annotations `aboard.dev/*` and the status field `aboard`."""
    document, metadata = dict(document), dict(document.get("metadata") or {})
    if metadata.get("annotations"):
        kept = {key: value for key, value in metadata["annotations"].items() if not key.startswith("aboard.dev/")}
        metadata = {key: value for key, value in metadata.items() if key != "annotations"}
        document["metadata"] = {**metadata, "annotations": kept} if kept else metadata
    if "aboard" in (document.get("status") or {}):
        document["status"] = {key: value for key, value in document["status"].items() if key != "aboard"}
    return document
