"""The gateway, seen from inside a pod: names, the way to the API, the way out for installers, and nothing else."""

import asyncio
import socket

import psutil
import pytest
from world import LEVELS, Api, config, log_of, pod, running

from allaboard.api.kinds import POD, SERVICE
from allaboard.node import routes
from allaboard.node.routes import Door

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
with socket.create_connection(api, 60) as link:
    link.sendall(b"hello")
    print("api", link.recv(100).decode())
for host in ("127.0.0.1", "localhost", "{outside}"):
    with socket.create_connection((api[0], 3128), 60) as link:
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
    socket.create_connection(("127.0.0.1", {port}), 60)
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
            served = pod("web", "sleep", "6000", terminationGracePeriodSeconds=0)
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


SERVE = """
import http.server, os
class Door(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())
http.server.ThreadingHTTPServer(("", 8000), Door).serve_forever()
"""
CALL = """
import os, time, urllib.request
heard = set()
while len(heard) < 2:
    try:
        heard.add(urllib.request.urlopen("http://web:80", timeout=60).read().decode())
    except OSError:
        time.sleep(0.05)
print(*sorted(heard), os.environ["WEB_SERVICE_HOST"])
"""


@pytest.mark.skipif(not OWN_NETWORK, reason="pods have no network of their own here")
def test_a_service_with_an_address_shares_its_calls_among_its_pods(tmp_path):
    async def story():
        api = Api()
        async with running(api, config(tmp_path / "state", level=OWN_NETWORK[0])) as agent:
            ports = [{"port": 80, "targetPort": "web"}, {"port": 53, "protocol": "UDP"}]
            spec = {"selector": {"app": "web"}, "clusterIP": "10.96.1.2", "ports": ports}
            await api.create(SERVICE, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
            for name in ("one", "two", "unready"):
                check = {"readinessProbe": {"exec": {"command": ["false"]}}} if name == "unready" else {}
                named = {"ports": [{"name": "web", "containerPort": 8000}], **check}
                served = pod(name, "python", "-c", SERVE, container=named, terminationGracePeriodSeconds=0)
                served["metadata"]["labels"] = {"app": "web"}
                await api.create(POD, served)
            for name in ("one", "two", "unready"):
                await api.phase(name, "Running")
            await api.create(POD, pod("a", "python", "-c", CALL))
            return log_of(agent, await api.phase("a", "Succeeded", "Failed"))

    assert asyncio.run(story()) == "one two 10.96.1.2\n"


WEB = {"metadata": {"name": "web", "namespace": "ns"}, "spec": {"clusterIP": "10.96.0.9", "selector": {"app": "web"}}}
DOORS = {
    "a port and the one behind it": ([{"port": 80, "targetPort": 8000}], {Door("10.96.0.9", 80, "8000")}),
    "the same where nothing is said": ([{"port": 80}], {Door("10.96.0.9", 80, "80")}),
    "a name": ([{"port": 80, "targetPort": "http"}], {Door("10.96.0.9", 80, "http")}),
    "no datagrams": ([{"port": 53, "protocol": "UDP"}], set()),
}


@pytest.mark.parametrize(("ports", "want"), DOORS.values(), ids=DOORS)
def test_which_doors_a_service_has(ports, want):
    assert routes.doors({**WEB, "spec": {**WEB["spec"], "ports": ports}}) == want


@pytest.mark.parametrize("more", [{"clusterIP": "None"}, {"type": "ExternalName"}, {"clusterIP": "fd00::1"}])
def test_a_service_without_an_address_of_ours_has_none(more):
    assert routes.doors({**WEB, "spec": {**WEB["spec"], "ports": [{"port": 80}], **more}}) == frozenset()


def member(name, *, labels=None, ready="True", namespace="ns", leaving=False):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {"app": "web"}}
    metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    ports = [{"name": "http", "containerPort": 8080}]
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "ports": ports}]}, "status": status}


MEMBERS = {
    "one that is ready": (member("a"), {}, "http", [("10.88.0.5", 8080)]),
    "one that is not": (member("a", ready="False"), {}, "http", []),
    "one that is not, but asked for": (
        member("a", ready="False"), {"publishNotReadyAddresses": True}, "http", [("10.88.0.5", 8080)],
    ),
    "one on its way out": (member("a", leaving=True), {}, "http", []),
    "somebody else's": (member("a", labels={"app": "db"}), {}, "http", []),
    "of another namespace": (member("a", namespace="other"), {}, "http", []),
    "without that port": (member("a"), {}, "grpc", []),
    "a service that selects nobody": (member("a"), {"selector": {}}, "80", []),
}  # fmt: skip


@pytest.mark.parametrize(("one", "spec", "target", "want"), MEMBERS.values(), ids=MEMBERS)
def test_who_is_behind_a_door(one, spec, target, want):
    service = {**WEB, "spec": {**WEB["spec"], **spec}}
    assert routes.backends(service, Door("10.96.0.9", 80, target), [(one, "10.88.0.5")]) == want
