"""Reaching pods where they run: logs and sockets go to the node, with what the kubelet's paths say."""

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from allaboard.api import kinds
from allaboard.cluster.nodes import Fetched
from allaboard.cluster.server import Address, serve
from tests.cluster.plane import Plane, plain, pod
from tests.patience import PATIENCE

PODS = "/api/v1/namespaces/default/pods"


class Node:
    """A node that says where it was asked, and echoes what a socket sends."""

    def __init__(self):
        self.targets = []

    async def fetch(self, node, target):
        self.targets.append((node["metadata"]["name"], target))

        async def chunks():
            yield b"line 1\n"
            yield b"line 2\n"

        return Fetched(200, "text/plain", chunks())

    async def relay(self, node, target, socket):
        self.targets.append((node["metadata"]["name"], target))
        await socket.send({"type": "websocket.accept", "subprotocol": socket.protocols[0]})
        message = await socket.receive()
        await socket.send({"type": "websocket.send", "bytes": message["bytes"]})
        await socket.send({"type": "websocket.close", "code": 1000})


PATIENT = {"open_timeout": PATIENCE, "ping_interval": None}


async def planned():
    node = Node()
    plane = await Plane(nodes=node).furnish()
    await plane.client.create(kinds.NODE, plain("v1", "Node", "n1"), manager="t")
    await plane.client.create(kinds.POD, pod("p", nodeName="n1"), manager="t")
    await plane.client.create(kinds.POD, pod("waiting"), manager="t")
    await plane.client.create(kinds.POD, pod("lost", nodeName="gone"), manager="t")
    return plane, node


def test_a_log_comes_from_the_node():
    async def story():
        plane, node = await planned()
        answer = await plane.ask("GET", f"{PODS}/p/log?follow=true&tailLines=5")
        assert answer.data == b"line 1\nline 2\n"
        assert node.targets == [("n1", "/containerLogs/default/p/c?follow=true&tailLines=5")]

    asyncio.run(story())


def test_what_pods_use_is_asked_of_the_node_and_nothing_else_is():
    async def story():
        plane, node = await planned()
        assert (await plane.ask("GET", "/api/v1/nodes/n1/proxy/stats/summary")).code == 200
        assert node.targets == [("n1", "/stats/summary")]
        assert (await plane.ask("GET", "/api/v1/nodes/n1/proxy/exec/default/p/c")).code == 400
        assert (await plane.ask("GET", "/api/v1/nodes/gone/proxy/stats/summary")).code == 404

    asyncio.run(story())


REFUSED = {
    "a pod that is not there": ("none/log", 404, 'pods "none" not found'),
    "a pod without a node has no log": ("waiting/log", 204, ""),
    "a node that is gone": ("lost/log", 404, 'pods "gone" not found'),
    "a container that is not there": ("p/log?container=x", 400, "container x is not valid for pod p"),
    "a number that means nothing": ("p/log?tailLines=-1", 422, "must be greater than or equal to 0"),
    "an exec without a node": ("waiting/exec?command=ls", 400, "does not have a host assigned"),
    "an exec without a socket": ("p/exec?command=ls", 400, "Upgrade request required"),
}


@pytest.mark.parametrize(("path", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_reached_is_said(path, code, words):
    async def story():
        plane, _ = await planned()
        answer = await plane.ask("GET", f"{PODS}/{path}")
        assert answer.code == code
        assert words in answer.data.decode().replace('\\"', '"')

    asyncio.run(story())


def test_exec_connects_two_sockets():
    async def story():
        plane, node = await planned()
        async with serve(plane.app, Address()) as serving, asyncio.timeout(PATIENCE):
            url = f"ws://127.0.0.1:{serving.port}{PODS}/p/exec?command=ls&command=-l&stdout=true"
            headers = {"Authorization": "Bearer admin"}
            async with connect(
                url, **PATIENT, additional_headers=headers, subprotocols=["v5.channel.k8s.io"]
            ) as socket:
                await socket.send(b"\x00hello")
                assert await socket.recv() == b"\x00hello"
                assert socket.subprotocol == "v5.channel.k8s.io"
        assert node.targets == [("n1", "/exec/default/p/c?command=ls&command=-l&stdout=true")]

    asyncio.run(story())


def test_a_socket_is_refused_with_an_answer():
    async def story():
        plane, _ = await planned()
        async with serve(plane.app, Address()) as serving, asyncio.timeout(PATIENCE):
            for token, name, code in (("wrong", "p", 401), ("alice", "p", 403), ("admin", "none", 404)):
                url = f"ws://127.0.0.1:{serving.port}{PODS}/{name}/exec?command=ls"
                with pytest.raises(InvalidStatus) as refused:
                    async with connect(url, **PATIENT, additional_headers={"Authorization": f"Bearer {token}"}):
                        pass
                assert refused.value.response.status_code == code

    asyncio.run(story())
