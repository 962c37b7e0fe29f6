"""Data-parallel training with torch: in the end every process holds the same weights."""

import gc
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1 + rank)

model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
truth = torch.arange(8.0).unsqueeze(1)
for step in range(60):
    inputs = torch.randn(64, 8)
    loss = ((model(inputs) - inputs @ truth) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0 or step == 59:
        print(f"rank {rank}/{world} on {os.uname().nodename}: step {step} loss {loss.item():.4f}", flush=True)

mine = torch.cat([value.detach().flatten() for value in model.parameters()])
everyone = [torch.zeros_like(mine) for _ in range(world)]
dist.all_gather(everyone, mine)
assert all(torch.allclose(mine, other) for other in everyone), "the ranks disagree"
assert loss.item() < 1, "it did not learn"
print(f"rank {rank}: {world} processes agree", flush=True)

# Some versions of torch abort at exit unless everything is taken down in this order.
del model, optimizer
gc.collect()
dist.barrier()
dist.destroy_process_group()
