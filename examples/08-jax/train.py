"""Data-parallel training with JAX over several processes: gradients are averaged across all of them."""

import os

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

# JAX does not read these variables itself.
jax.distributed.initialize(
    coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
)
rank, world = jax.process_index(), jax.process_count()
truth = jnp.arange(8.0)
weights = jnp.zeros(8)


def loss_of(weights, inputs):
    return jnp.mean((inputs @ weights - inputs @ truth) ** 2)


for step in range(60):
    inputs = jax.random.normal(jax.random.PRNGKey(step * world + rank), (64, 8))
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs)
    mean = jnp.mean(multihost_utils.process_allgather(gradient), axis=0)
    weights = weights - 0.1 * mean
    if step % 20 == 0 or step == 59:
        print(f"rank {rank}/{world} on {os.uname().nodename}: step {step} loss {float(loss):.4f}", flush=True)

everyone = multihost_utils.process_allgather(weights)
assert jnp.allclose(everyone, weights), "the ranks disagree"
assert float(loss) < 1, "it did not learn"
print(f"rank {rank}: {world} processes agree", flush=True)
