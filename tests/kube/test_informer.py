"""Watched memory under a wire that repeats itself, is late, or breaks: what is known is what is newest."""

import asyncio

import pytest

from allaboard.api.documents import Key
from allaboard.api.errors import Gone
from allaboard.api.kinds import POD
from allaboard.api.queries import Change, Listing
from allaboard.kube.clock import SystemClock
from allaboard.kube.informer import Informer


def pod(text):
    """`a@3` is pod a at revision 3; `a'@3` is another pod of that name."""
    name, _, revision = text.partition("@")
    metadata = {"name": name.rstrip("'"), "namespace": "ns", "uid": name, "resourceVersion": revision}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def change(text):
    """`+a@3` appeared, `~a@4` changed, `-a@5` went."""
    return Change({"+": "ADDED", "~": "MODIFIED", "-": "DELETED"}[text[0]], pod(text[1:]))


def told(document):
    return f"{document['metadata']['uid']}@{document['metadata']['resourceVersion']}" if document else "·"


CASES = {
    #                                     changes                    known      handlers heard (old>new)
    "news in order":                     ("+a@1 ~a@2 +b@3",          "a@2 b@3", "·>a@1 a@1>a@2 ·>b@3"),
    "news told twice":                   ("+a@1 +a@1 ~a@2 ~a@2",     "a@2",     "·>a@1 a@1>a@2"),
    "old news after new":                ("+a@1 ~a@5 ~a@3",          "a@5",     "·>a@1 a@1>a@5"),
    "another's news may be late":        ("+b@9 +a@1 ~a@2",          "a@2 b@9", "·>b@9 ·>a@1 a@1>a@2"),
    "what went stays gone":              ("+a@1 -a@4 ~a@3",          "",        "·>a@1 a@4>·"),
    "and goes once":                     ("+a@1 -a@4 -a@4",          "",        "·>a@1 a@4>·"),
    "a late farewell to one that stays": ("+a@5 -a@4",               "a@5",     "·>a@5"),
    "a namesake is somebody else":       ("+a@1 -a@4 +a'@6",         "a'@6",    "·>a@1 a@4>· ·>a'@6"),
    "a namesake whose forerunner's end was missed": ("+a@1 +a'@6",   "a'@6",    "·>a@1 a@1>· ·>a'@6"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "known", "heard"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("at_once", [True, False], ids=["in one batch", "one by one"])
def test_only_news_is_news(changes, known, heard, at_once):
    informer, words = Informer(None, POD, SystemClock()), []
    informer.subscribe(lambda old, new: words.append(f"{told(old)}>{told(new)}"))
    batch = [change(text) for text in changes.split()]
    for part in [batch] if at_once else [[one] for one in batch]:
        informer.take(part)
    assert " ".join(sorted(map(told, informer.documents.values()))) == known
    assert " ".join(words) == heard


class Server:
    """A server that lists and watches as a script says: each watch gives its batches and then breaks its own way."""

    def __init__(self, *script):
        self.script, self.asked = list(script), []

    async def listing(self, kind, select):
        items, revision = self.script.pop(0)
        return Listing([pod(text) for text in items.split()], revision)

    async def watch(self, kind, since, select):
        self.asked.append(since)
        if not self.script:
            await asyncio.Event().wait()
        batches, end = self.script.pop(0)
        for batch in batches:
            yield [change(text) for text in batch.split()]
        raise end


BREAKS = {
    "a connection that breaks goes on where it was": (
        [("a@1", "1"), (["~a@3"], OSError("broke")), (["~a@4"], OSError("broke"))],
        ["1", "3", "4"],
        "a@4",
    ),
    "history that is gone is read anew": (
        [("a@1 b@2", "2"), ([], Gone("too old")), ("a@7 c@8", "9"), (["~c@10"], OSError("broke"))],
        ["2", "9", "10"],
        "a@7 c@10",
    ),
}


@pytest.mark.parametrize(("script", "asked", "known"), BREAKS.values(), ids=BREAKS)
def test_a_broken_watch_is_taken_up_again(script, asked, known):
    async def story():
        server = Server(*script)
        informer = Informer(server, POD, SystemClock())
        running = asyncio.create_task(informer.run())
        while len(server.asked) < len(asked):
            await asyncio.sleep(0.01)
        running.cancel()
        return server.asked, " ".join(sorted(map(told, informer.documents.values())))

    assert asyncio.run(story()) == (asked, known)


def test_somebody_who_waits_for_a_revision_hears_when_it_is_there():
    async def story():
        informer = Informer(None, POD, SystemClock())
        waiting = asyncio.create_task(informer.reached(3))
        await asyncio.sleep(0)
        informer.take([change("+a@2")])
        before = waiting.done()
        informer.take([change("~a@3")])
        await waiting
        return before

    assert asyncio.run(story()) is False


def test_documents_are_found_by_namespace_and_by_who_controls_them():
    informer = Informer(None, POD, SystemClock())
    owned = pod("b@2")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    informer.take([change("+a@1"), Change("ADDED", owned)])
    assert [told(one) for one in informer.in_namespace("ns")] == ["a@1", "b@2"]
    assert [told(one) for one in informer.controlled_by("u")] == ["b@2"]
    informer.take([change("~b@3")])  # nobody controls it any more
    assert list(informer.controlled_by("u")) == []
    assert Key("ns", "b") in informer.documents
