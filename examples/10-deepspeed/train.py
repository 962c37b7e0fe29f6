"""DeepSpeed under mpirun: it learns its ranks from MPI, shards the optimizer (ZeRO 1) and trains over gloo."""

import os

os.environ["TORCH_EXTENSIONS_DIR"] = "/extensions"  # what DeepSpeed compiles at its first use stays in a volume

import deepspeed
import torch
import torch.distributed as dist

deepspeed.init_distributed("gloo", auto_mpi_discovery=True, verbose=False)
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
settings = {
    "train_micro_batch_size_per_gpu": 64,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.1, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
}
model = torch.nn.Linear(8, 1)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
truth = torch.arange(8.0).unsqueeze(1)
for step in range(150):
    inputs = torch.randn(64, 8)
    loss = ((engine(inputs) - inputs @ truth) ** 2).mean()
    engine.backward(loss)
    engine.step()
    if step % 50 == 0 and rank == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)

mine = torch.cat([value.detach().flatten() for value in engine.module.parameters()])
everyone = [torch.zeros_like(mine) for _ in range(world)]
dist.all_gather(everyone, mine)
assert all(torch.allclose(mine, other) for other in everyone), "the ranks disagree"
assert loss.item() < 5, f"it did not learn: {loss.item()}"
print(f"rank {rank} on {os.uname().nodename}: {world} processes agree", flush=True)
dist.barrier()
dist.destroy_process_group()
