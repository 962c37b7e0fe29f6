"""The node's server, asked over the wire: logs, exec, attach, port-forward, and who may ask."""

import asyncio
import json
import urllib.error
import urllib.request
import zlib

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from world import LEVELS, PATIENCE, WAYS, Api, Gate, config, free_port, log_of, pod, running

from allaboard.api.documents import Key
from allaboard.api.kinds import POD
from allaboard.node import spdy

WAIT = "while :; do sleep 0.02; done"


def live(tmp_path, level, story):
    async def go():
        api = Api()
        async with running(api, config(tmp_path / "state", level=level, token="secret")) as agent:
            return await story(api, agent)

    return asyncio.run(go())


async def get(agent, path, token="secret"):
    def ask():
        request = urllib.request.Request(f"http://127.0.0.1:{agent.serving.port}{path}")
        request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read().decode()

    return await asyncio.to_thread(ask)


def dial(agent, path, *protocols):
    headers = {"Authorization": "Bearer secret"}
    url = f"ws://127.0.0.1:{agent.serving.port}{path}"
    patient = {"open_timeout": PATIENCE, "ping_interval": None}
    return connect(url, subprotocols=list(protocols), additional_headers=headers, proxy=None, **patient)


async def talk(agent, command, *, stdin=b"", tty=False, protocol="v5.channel.k8s.io"):
    words = "&".join(f"command={word}" for word in command)
    flags = f"&stdin={'true' if stdin else 'false'}&tty={'true' if tty else 'false'}&stdout=true"
    heard = {1: b"", 2: b"", 3: b""}
    async with dial(agent, f"/exec/default/a/main?{words}{flags}", protocol) as link:
        if stdin:
            await link.send(b"\0" + stdin)
            if protocol.startswith("v5"):
                await link.send(b"\xff\0")
        async for message in link:
            heard[message[0]] += message[1:]
    return heard[1], heard[2], json.loads(heard[3])


@pytest.mark.parametrize("level", LEVELS)
def test_logs_are_read_over_the_wire(tmp_path, level):
    async def story(api, agent):
        line = "echo one; echo two; [ -e $GATE/again ] && sleep 6000; touch $GATE/again; exit 1"
        await api.create(POD, Gate(tmp_path).to(pod("a", line, restartPolicy="OnFailure")))
        state = lambda doc: doc and (doc.get("status") or {}).get("containerStatuses", [{}])[0].get("restartCount", 0)
        await api.until(POD, Key("default", "a"), lambda doc: (state(doc) or 0) >= 1)
        assert await get(agent, "/containerLogs/default/a/main?previous=true") == (200, "one\ntwo\n")
        assert (await get(agent, "/containerLogs/default/a/main?previous=true&tailLines=1"))[1] == "two\n"
        stamped = (await get(agent, "/containerLogs/default/a/main?previous=true&timestamps=true"))[1]
        assert [line.split()[1] for line in stamped.splitlines()] == ["one", "two"]

    live(tmp_path, level, story)


def test_following_ends_with_the_container(tmp_path):
    async def story(api, agent):
        await api.create(POD, pod("a", "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done"))
        await api.phase("a", "Running", "Succeeded")
        assert await get(agent, "/containerLogs/default/a/main?follow=true") == (200, "1\n2\n3\n4\n5\n")

    live(tmp_path, "D", story)


REFUSALS = {
    "a stranger": ("/healthz", "wrong", 401, "Unauthorized"),
    "no such path": ("/nothing", "secret", 404, 'the node has no "/nothing"'),
    "no such pod": ("/containerLogs/default/b/main", "secret", 404, 'pod "b" not found on this node'),
    "no previous attempt": (
        "/containerLogs/default/a/main?previous=true", "secret", 400,
        'previous terminated container "main" in pod "a" not found',
    ),
    "a limit of nothing": ("/containerLogs/default/a/main?limitBytes=0", "secret", 400, "must be greater than 0"),
    "no number": ("/containerLogs/default/a/main?tailLines=x", "secret", 400, 'tailLines: "x" is not a number'),
}  # fmt: skip


def test_what_cannot_be_answered_is_refused_in_words(tmp_path):
    async def story(api, agent):
        await api.create(POD, pod("a", WAIT))
        await api.phase("a", "Running")
        for path, token, code, words in REFUSALS.values():
            status, body = await get(agent, path, token)
            assert status == code, path
            assert words in json.loads(body)["message"]
        with pytest.raises(InvalidStatus) as refused:
            await dial(agent, "/exec/default/b/main?command=true", "v4.channel.k8s.io").__aenter__()
        assert refused.value.response.status_code == 404

    live(tmp_path, "D", story)


@pytest.mark.parametrize("level", LEVELS)
def test_a_command_runs_beside_the_workload(tmp_path, level):
    async def story(api, agent):
        await api.create(POD, pod("a", WAIT, container={"env": [{"name": "MOOD", "value": "fine"}]}))
        await api.phase("a", "Running")
        out, err, end = await talk(agent, ["sh", "-c", "echo%20$MOOD;echo%20no>%262;exit%207"])
        assert (out, err) == (b"fine\n", b"no\n")
        assert end["reason"] == "NonZeroExitCode"
        assert end["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
        out, _, end = await talk(agent, ["cat"], stdin=b"x" * 300_000)
        assert (len(out), end["status"]) == (300_000, "Success")
        out, _, end = await talk(agent, ["tty"], tty=True, protocol="v4.channel.k8s.io")
        assert end["status"] == "Success"
        assert out.startswith(b"/dev/pts/")  # the container's own, so that programs inside find it
        _, err, end = await talk(agent, ["nowhere"])
        assert end["details"]["causes"][0]["message"] == "127"
        if level in "AB":
            assert (await talk(agent, ["hostname"]))[0] == b"a\n"
            assert (await talk(agent, ["sh", "-c", "ls%20/proc%20|%20grep%20-c%20^[0-9]"]))[0].strip() < b"9"

    live(tmp_path, level, story)


@pytest.mark.parametrize("level", WAYS)
def test_a_workload_that_asks_for_a_terminal_has_one(tmp_path, level):
    async def story(api, agent):
        line = "tty; read line; echo got $line; until stty size | grep -v '^0 0'; do sleep 0.02; done"
        await api.create(POD, pod("a", line, container={"stdin": True, "tty": True}))
        await api.phase("a", "Running")
        heard = {1: b"", 3: b""}
        async with dial(agent, "/attach/default/a/main?stdin=true&tty=true", "v4.channel.k8s.io") as link:
            await link.send(b'\4{"Width":90,"Height":30}')
            await link.send(b"\0hello\n")
            async for message in link:
                heard[message[0]] += message[1:]
        assert json.loads(heard[3])["status"] == "Success"
        _, text = await get(agent, "/containerLogs/default/a/main")
        shown = text.replace("\r", "").splitlines()
        assert any(line.startswith("/dev/pts/") for line in shown)
        assert [line for line in shown if line in ("got hello", "30 90")] == ["got hello", "30 90"]

    live(tmp_path, level, story)


def test_attaching_hears_the_workload_and_speaks_to_it(tmp_path):
    async def story(api, agent):
        await api.create(POD, pod("a", "read line; echo got $line", container={"stdin": True}))
        await api.phase("a", "Running")
        heard = {1: b"", 3: b""}
        async with dial(agent, "/attach/default/a/main?stdin=true", "v4.channel.k8s.io") as link:
            await link.send(b"\0hello\n")
            async for message in link:
                heard[message[0]] += message[1:]
        assert heard[1] == b"got hello\n"
        assert json.loads(heard[3])["status"] == "Success"

    live(tmp_path, "D", story)


ECHO = """
import socket, sys
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    link, _ = door.accept()
    while data := link.recv(65536):
        link.sendall(data.upper())
    link.close()
"""


async def echoing(api, agent):
    """A pod that listens; the port it listens at."""
    port = free_port()
    await api.create(POD, pod("a", "python", "-c", ECHO, str(port)))
    born = await api.phase("a", "Running")
    await api.until(POD, Key("default", "a"), lambda _: log_of(agent, born) == "up\n")
    return port


@pytest.mark.parametrize("level", LEVELS)
def test_a_port_is_forwarded_as_channel_pairs(tmp_path, level):
    async def story(api, agent):
        port = await echoing(api, agent)
        number = port.to_bytes(2, "little")
        async with dial(agent, f"/portForward/default/a?ports={port}", "v4.channel.k8s.io") as link:
            assert [await link.recv(), await link.recv()] == [b"\0" + number, b"\x01" + number]
            await link.send(b"\0hello")
            return await link.recv()

    assert live(tmp_path, level, story) == b"\0HELLO"


@pytest.mark.parametrize("level", LEVELS)
def test_a_port_is_forwarded_through_kubectls_tunnel(tmp_path, level):
    async def story(api, agent):
        port = await echoing(api, agent)
        reader, writer, heard = spdy.Reader(), spdy.Writer(), b""
        async with dial(agent, "/portForward/default/a", "SPDY/3.1+portforward.k8s.io") as link:
            headers = {"port": str(port), "requestid": "0"}
            await link.send(writer.syn(1, headers | {"streamtype": "error"}))
            await link.send(writer.syn(3, headers | {"streamtype": "data"}) + writer.data(3, b"hello", fin=True))
            await link.send(writer.ping(5))
            async for message in link:
                for frame in reader.take(message):
                    heard += frame.data if frame.stream == 3 else b""
                    if frame.stream == 3 and frame.fin:
                        return heard
        return b""

    assert live(tmp_path, level, story) == b"HELLO"


def test_the_tunnels_dictionary_is_the_protocols():
    assert (len(spdy.DICTIONARY), zlib.adler32(spdy.DICTIONARY)) == (1423, 0xE3C6A7C2)
