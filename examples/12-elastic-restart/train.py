"""torchrun starts a group again when one of it dies; training goes on from the last checkpoint."""

import os
import pathlib

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
checkpoint = pathlib.Path("/tmp/checkpoint")
first = int(checkpoint.read_text()) if checkpoint.exists() else 0
print(f"rank {rank}: attempt {attempt} begins at step {first}", flush=True)
for step in range(first, 10):
    total = torch.ones(1)
    dist.all_reduce(total)
    checkpoint.write_text(str(step + 1))
    if step == 4 and attempt == 0 and rank == 1:
        print("rank 1: something went wrong", flush=True)
        os._exit(3)
assert attempt > 0, "nothing was restarted"
print(f"rank {rank}: done after {attempt} restart", flush=True)
dist.barrier()
dist.destroy_process_group()
