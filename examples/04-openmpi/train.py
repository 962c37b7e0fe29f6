"""An MPI program started from outside: two ranks on each of two nodes, and none where mpirun was called."""

import collections
import socket

from mpi4py import MPI

world = MPI.COMM_WORLD
hosts = collections.Counter(world.allgather(socket.gethostname()))
total = world.allreduce(world.rank + 1)
assert total == world.size * (world.size + 1) // 2, "the sum is wrong"
assert sorted(hosts.values()) == [2, 2], f"not two ranks on each of two nodes: {dict(hosts)}"
assert not any("launcher" in host for host in hosts), "the launcher is no node here"
print(f"rank {world.rank}/{world.size} on {socket.gethostname()}: sum {total}, {len(hosts)} hosts", flush=True)
