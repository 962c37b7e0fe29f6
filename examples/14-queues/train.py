"""Steps that take a while, kept in a volume: whoever is sent away goes on from there when there is room again."""

import os
import pathlib
import sys
import time

job, steps, rank = sys.argv[1], int(sys.argv[2]), int(os.environ["JOB_COMPLETION_INDEX"])
place = pathlib.Path("/checkpoints", f"{job}-{rank}")
first = int(place.read_text()) if place.exists() else 0
gpu = os.environ["NVIDIA_VISIBLE_DEVICES"]
print(f"{job} {rank} {'goes on' if first else 'begins'} at step {first} with {gpu}", flush=True)
for step in range(first, steps):
    time.sleep(0.1)
    draft = place.with_suffix(".new")
    draft.write_text(str(step + 1))
    draft.replace(place)  # a checkpoint is there whole or not at all: we may be sent away at any moment
print(f"{job} {rank} is done", flush=True)
