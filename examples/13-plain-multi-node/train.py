"""Any program on several nodes: each finds the others by name, and a token goes once around the ring."""

import os
import socket
import time

rank, world = int(os.environ["JOB_COMPLETION_INDEX"]), 3
prefix, _, _ = socket.gethostname().rpartition("-")
job = prefix.removesuffix("-node-0")
peer = f"{prefix}-{(rank + 1) % world}.{job}"

door = socket.create_server((f"{socket.gethostname()}.{job}", 7000))


def call(host):
    """The peer may start later than we do."""
    for _ in range(300):
        try:
            return socket.create_connection((host, 7000), timeout=5)
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{host} does not answer")


if rank == 0:
    call(peer).sendall(b"0")
    token = door.accept()[0].recv(100).decode()
    print(f"the token went around: {token}", flush=True)
    assert token == "0,1,2", token
else:
    token = door.accept()[0].recv(100).decode()
    print(f"rank {rank} on {socket.gethostname()} got {token}", flush=True)
    call(peer).sendall(f"{token},{rank}".encode())
