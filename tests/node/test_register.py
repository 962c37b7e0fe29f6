"""Nodes as objects: who waits for them hears once, when every one has said that it is ready."""

import asyncio

from world import Api, config

from allaboard.api.errors import TimedOut
from allaboard.api.kinds import NODE
from allaboard.node.register import Register
from allaboard.testing.clock import FakeClock


class Hesitant(Api):
    """Does not answer the first who wants to be a node."""

    refused = False

    async def create(self, kind, document, *, manager="test"):
        if kind is NODE and not self.refused:
            self.refused = True
            raise TimedOut("later")
        return await super().create(kind, document, manager=manager)


def test_nodes_are_announced_once_all_of_them_are_there(tmp_path):
    async def story():
        heard, clock, api = [], FakeClock(), Hesitant()
        names = lambda: sorted(key.name for kind, key in api.documents if kind is NODE)
        settings = config(tmp_path, nodes=("n1", "n2"), announced=lambda: heard.append(names()))
        running = asyncio.create_task(Register(api, settings, clock).run())
        rounds = []
        for _ in range(3):
            for _ in range(50):
                await asyncio.sleep(0)
            rounds.append((names(), len(heard)))
            clock.advance(settings.heartbeat)
        running.cancel()
        return rounds, heard

    rounds, heard = asyncio.run(story())
    assert rounds == [(["n2"], 0), (["n1", "n2"], 1), (["n1", "n2"], 1)]
    assert heard == [["n1", "n2"]]
