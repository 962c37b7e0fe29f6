"""The gateway, seen from inside a pod: names, the way to the API, the way out for installers, and nothing else."""

import asyncio
import socket

import psutil
import pytest
from world import LEVELS, Api, config, log_of, pod, running

from allaboard.api.kinds import POD, SERVICE

OWN_NETWORK = [level for level in LEVELS if level in ("A", "B")]

# An address of this machine that is not its loopback stands for the world.
OUTSIDE = next(
    (
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET and not entry.address.startswith("127.")
    ),
    "",
)

ASK = """
import os, socket
api = (os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"]))
with socket.create_connection(api, 5) as link:
    link.sendall(b"hello")
    print("api", link.recv(100).decode())
for host in ("127.0.0.1", "localhost", "{outside}"):
    with socket.create_connection((api[0], 3128), 5) as link:
        link.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n".encode())
        print("proxy", link.recv(100).split()[1].decode())
print("service", socket.gethostbyname("web"), socket.gethostbyname("web.default.svc.cluster.local"))
print("api name", socket.gethostbyname("kubernetes.default.svc") == api[0])
for name in ("nowhere.example.org", "nobody.default.svc.cluster.local"):
    try:
        print(socket.gethostbyname(name))
    except socket.gaierror:
        print("no such name")
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
    print("reached the host")
except OSError:
    print("host is out of reach")
"""


async def echo(reader, writer):
    """The host's side: whatever comes, louder."""
    writer.write((await reader.read(100)).upper())
    await writer.drain()
    writer.close()


@pytest.mark.skipif(not OWN_NETWORK, reason="pods have no network of their own here")
@pytest.mark.skipif(not OUTSIDE, reason="this machine has no address but its loopback")
def test_a_pod_reaches_what_it_may(tmp_path):
    async def story():
        api = Api()
        server = await asyncio.start_server(echo, "0.0.0.0", 0)
        port = server.sockets[0].getsockname()[1]
        settings = config(tmp_path / "state", level=OWN_NETWORK[0], api=("127.0.0.1", port))
        async with running(api, settings) as agent:
            service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
            await api.create(SERVICE, service)
            served = pod("web", "sleep", "60", terminationGracePeriodSeconds=0)
            served["metadata"]["labels"] = {"app": "web"}
            await api.create(POD, served)
            address = (await api.phase("web", "Running"))["status"]["podIP"]
            await api.create(
                POD, pod("a", "python", "-c", ASK.replace("{port}", str(port)).replace("{outside}", OUTSIDE))
            )
            said = log_of(agent, await api.phase("a", "Succeeded", "Failed")).splitlines()
            server.close()
            return said, address

    said, address = asyncio.run(story())
    assert said == [
        "api HELLO",
        "proxy 403",
        "proxy 403",
        "proxy 200",
        f"service {address} {address}",
        "api name True",
        "no such name",
        "no such name",
        "host is out of reach",
    ]
