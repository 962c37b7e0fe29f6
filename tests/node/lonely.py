"""An agent in a process of its own, for tests that kill it: its API is a directory of pods, its reports are lines.

    python lonely.py STATE LEVEL PODS REPORT

PODS holds one JSON document per pod; a status that is written is appended to REPORT as one line. SIGTERM is the only
end in order; "listening" on stdout says that it will be heard.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from world import Api, config

from allaboard.api.kinds import POD
from allaboard.kube.clock import SystemClock
from allaboard.node.agent import Agent


class Remembering(Api):
    """Like the API, but what is said about pods survives in files."""

    def __init__(self, folder, report):
        super().__init__()
        self.folder, self.report = folder, os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for path in sorted(folder.glob("*.json")):
            self._put(POD, json.loads(path.read_text()), "ADDED")

    async def update(self, kind, document, **more):
        written = await super().update(kind, document, **more)
        if kind is POD:
            line = json.dumps([document["metadata"]["name"], written["status"]])
            os.write(self.report, b"\n" + line.encode() + b"\n")  # what a killed one left half is not joined
            path = self.folder / f"{document['metadata']['name']}.json"
            path.with_suffix(".new").write_text(json.dumps(written))
            os.replace(path.with_suffix(".new"), path)
        return written

    async def follow(self):
        """Pods that are put into the folder while we run."""
        known = {path.name for path in self.folder.glob("*.json")}
        while True:
            for path in sorted(self.folder.glob("*.json")):
                if path.name not in known:
                    known.add(path.name)
                    await self.create(POD, json.loads(path.read_text()))
            await asyncio.sleep(0.02)


async def main():
    state, level, folder, report = sys.argv[1:]
    api = Remembering(Path(folder), report)
    agent = Agent(api, config(Path(state), level=level), SystemClock())
    work = asyncio.gather(agent.run(), api.follow())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    print("listening", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await work
    await agent.stop()


if __name__ == "__main__":
    asyncio.run(main())
