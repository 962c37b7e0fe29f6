"""Training that survives: rank 0 keeps a checkpoint in a volume, and whoever starts again goes on from there."""

import gc
import os
import pathlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, place = 40, pathlib.Path("/checkpoints")
dist.init_process_group("gloo")
rank, saved = dist.get_rank(), place / "model.pt"
torch.manual_seed(1)
model, first = torch.nn.Linear(8, 1), 0
if saved.exists():  # written by rank 0 before anybody died, so every rank finds the same
    state = torch.load(saved)
    model.load_state_dict(state["model"])
    first = state["step"]
print(f"rank {rank} on {os.uname().nodename}: begins at step {first}", flush=True)

wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
truth = torch.arange(8.0).unsqueeze(1)
for step in range(first, STEPS):
    inputs = torch.randn(64, 8)
    loss = ((wrapped(inputs) - inputs @ truth) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 20 and first == 0 and rank == 1:
        print("rank 1: something went wrong", flush=True)
        os._exit(3)
    if step % 10 == 9 and rank == 0:
        fresh = place / "model.new"
        torch.save({"model": model.state_dict(), "step": step + 1}, fresh)
        os.replace(fresh, saved)
assert first > 0, "nothing was restarted"
print(f"rank {rank}: loss {loss.item():.4f} after {STEPS - first} more steps", flush=True)

# Some versions of torch abort at exit unless everything is taken down in this order.
del model, wrapped, optimizer
gc.collect()
dist.barrier()
dist.destroy_process_group()
