"""An MPI program: every rank on another host, one sum over all of them."""

import socket

from mpi4py import MPI

world = MPI.COMM_WORLD
hosts = world.allgather(socket.gethostname())
total = world.allreduce(world.rank + 1)
assert total == world.size * (world.size + 1) // 2, "the sum is wrong"
print(f"rank {world.rank}/{world.size} on {socket.gethostname()}: sum {total}, {len(set(hosts))} hosts", flush=True)
assert world.size > 1 and len(set(hosts)) > 1, "all ranks ran in one place"
