"""Steps that take a while, kept in a volume: whoever is sent away goes on from there when there is room again."""

import os
import pathlib
import sys
import time

steps, rank = int(sys.argv[1]), int(os.environ["JOB_COMPLETION_INDEX"])
place = pathlib.Path("/checkpoints", f"{os.environ['JOB']}-{rank}")
first = int(place.read_text()) if place.exists() else 0
gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("NVIDIA_VISIBLE_DEVICES")
print(f"rank {rank}: {'goes on' if first else 'begins'} at step {first} with GPU {gpus}", flush=True)
for step in range(first, steps):
    time.sleep(0.1)
    place.write_text(str(step + 1))
print(f"rank {rank}: done", flush=True)
