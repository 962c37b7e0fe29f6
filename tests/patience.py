"""How long a test waits for what must come: only a hang takes longer, however busy the machine."""

import asyncio

PATIENCE = 300  # seconds


async def eventually(look):
    """What a question answers once it has an answer."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await look()):
            await asyncio.sleep(0.005)
        return found
