"""The door a real API server knocks at: who may come in, and conversations in SPDY over TLS."""

import asyncio
import json
import ssl
from datetime import UTC, datetime

import pytest
from world import LEVELS, PATIENCE, Api, config, free_port, log_of, pod, running

from allaboard.api.kinds import POD
from allaboard.api.meta import key_of
from allaboard.kube import certificates
from allaboard.node import callers, channels, spdy
from allaboard.node.callers import Caller
from allaboard.node.config import Listen
from allaboard.node.kubelet import read_head, wanted_streams
from allaboard.node.server import Query

NOW = datetime.now(UTC)
WAIT = "while :; do sleep 0.02; done"

CERTIFICATES = {
    "a user and his groups": (
        {"subject": ((("organizationName", "system:masters"),), (("commonName", "api"),))},
        Caller("api", ("system:masters",)),
    ),
    "nobody": (None, None),
    "no name": ({"subject": ((("organizationName", "x"),),)}, None),
}


@pytest.mark.parametrize(("certificate", "want"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_a_certificate_names_its_user(certificate, want):
    assert callers.of_certificate(certificate) == want


def test_the_cluster_is_asked_who_a_token_is_and_what_he_may():
    user = {"status": {"authenticated": True, "user": {"username": "bob", "groups": ["g"]}}}
    assert callers.of_review(user) == Caller("bob", ("g",))
    assert callers.of_review({"status": {"authenticated": False}}) is None
    spec = callers.access_review(Caller("bob", ("g",)), "n1", "POST")["spec"]
    about = {"verb": "create", "resource": "nodes", "subresource": "proxy", "name": "n1"}
    assert spec == {"user": "bob", "groups": ["g"], "resourceAttributes": about}


STREAMS = {
    "output alone": ("output=1&error=1", {channels.ERROR, channels.STDOUT, channels.STDERR}),
    "input, too": ("input=1&output=1", {channels.ERROR, channels.STDIN, channels.STDOUT}),
    "a terminal has one output and a size": (
        "input=1&output=1&error=1&tty=1", {channels.ERROR, channels.STDIN, channels.STDOUT, channels.RESIZE},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("query", "want"), STREAMS.values(), ids=STREAMS)
def test_which_streams_a_caller_will_open(query, want):
    values = {name: [value] for name, _, value in (word.partition("=") for word in query.split("&"))}
    assert wanted_streams(Query(values)) == want


def test_a_head_is_read():
    head = read_head(
        b"POST /exec/ns/p/c?command=a&command=b HTTP/1.1\r\nUpgrade: SPDY/3.1\r\nX-A: 1, 2\r\nX-A: 3\r\n\r\n"
    )
    assert (head.method, head.path, head.value("upgrade")) == ("POST", ["exec", "ns", "p", "c"], "SPDY/3.1")
    assert head.values("x-a") == ["1", "2", "3"]
    assert head.query.values["command"] == ["a", "b"]


class Cluster:
    """What a node asks of its API server: only root's token is known, only root may come in."""

    def __init__(self):
        self.asked = []

    async def review(self, path, document):
        self.asked.append(path)
        if path == callers.TOKEN_PATH:
            name = {"root-token": "root", "bob-token": "bob"}.get(document["spec"]["token"], "")
            return {"status": {"authenticated": bool(name), "user": {"username": name}}}
        return {"status": {"allowed": document["spec"]["user"] == "root"}}


def listen(place, cluster, **more):
    authority = certificates.make_authority("test", NOW)
    files = certificates.keep(place, "server", certificates.issue(authority, "n1", ["127.0.0.1"], NOW))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return Listen("n1", "127.0.0.1", free_port(), context, cluster.review, **more)


async def dial(door):
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await asyncio.open_connection(door.address, door.port, ssl=trusting)
            except OSError:
                await asyncio.sleep(0.02)


async def ask(door, target, token=""):
    reader, writer = await dial(door)
    shown = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"GET {target} HTTP/1.1\r\nHost: n1\r\n{shown}\r\n".encode())
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def converse(door, target, stdin=b"", token="root-token"):
    """As the API server does: an upgrade, one stream per channel, and what each of them said."""
    reader, writer = await dial(door)
    lines = [f"POST {target} HTTP/1.1", "Host: n1", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    lines += [f"Authorization: Bearer {token}", "X-Stream-Protocol-Version: v4.channel.k8s.io", "", ""]
    writer.write("\r\n".join(lines).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 101 " not in head:
        return int(head.split()[1]), {}
    words, frames = spdy.Writer(), spdy.Reader()
    streams = ["error", *(["stdin"] if stdin else []), "stdout", "stderr"]
    ids = {2 * index + 1: name for index, name in enumerate(streams)}
    for stream, name in ids.items():
        writer.write(words.syn(stream, {"streamType": name}))
        if name == "stdin":
            writer.write(words.data(stream, stdin) + words.data(stream, b"", fin=True))
    heard, ended = dict.fromkeys(streams, b""), set()
    while not {"error", "stdout", "stderr"} <= ended:
        for frame in frames.take(await reader.read(65536)):
            if frame.type == 0:
                heard[ids[frame.stream]] += frame.data
                ended |= {ids[frame.stream]} if frame.fin else set()
    writer.close()
    return 101, heard


def live(tmp_path, level, story, **more):
    async def go():
        api, cluster = Api(), Cluster()
        door = listen(tmp_path, cluster, **more)
        async with running(api, config(tmp_path / "state", level=level, listen=door)) as agent:
            await api.create(POD, pod("a", "echo hello; " + WAIT))
            born = await api.phase("a", "Running")
            await api.until(POD, key_of(born), lambda _: log_of(agent, born) == "hello\n")
            return await story(door, cluster, agent)

    return asyncio.run(go())


def test_callers_are_known_and_allowed_or_turned_away(tmp_path):
    async def story(door, cluster, agent):
        assert (await ask(door, "/containerLogs/default/a/main"))[0] == 401
        assert (await ask(door, "/containerLogs/default/a/main", "no-token"))[0] == 401
        status, body = await ask(door, "/containerLogs/default/a/main", "bob-token")
        assert (status, "user=bob, verb=get, resource=nodes, subresource=proxy" in body.decode()) == (403, True)
        assert await converse(door, "/exec/default/a/main?command=true&output=1&error=1", token="bob-token") == (
            403,
            {},
        )
        assert (await ask(door, "/nowhere", "root-token"))[0] == 404

    live(tmp_path, LEVELS[-1], story)


def test_a_door_on_loopback_may_let_everyone_in(tmp_path):
    async def story(door, cluster, agent):
        status, body = await ask(door, "/containerLogs/default/a/main")
        assert (status, b"hello" in body, cluster.asked) == (200, True, [])

    live(tmp_path, LEVELS[-1], story, anonymous=True)


def test_logs_and_commands_go_through_the_door(tmp_path):
    async def story(door, cluster, agent):
        assert b"hello\n" in (await ask(door, "/containerLogs/default/a/main", "root-token"))[1]
        line = "/exec/default/a/main?command=sh&command=-c&command=cat%3Becho%20no%3E%262%3Bexit%204&output=1&error=1"
        status, heard = await converse(door, line + "&input=1", stdin=b"x" * 200_000)
        assert (status, len(heard["stdout"]), heard["stderr"]) == (101, 200_000, b"no\n")
        assert json.loads(heard["error"])["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]
        assert cluster.asked.count(callers.ACCESS_PATH) == 2  # one per verb: what was allowed is remembered

    live(tmp_path, LEVELS[0], story)


def test_the_node_announces_where_its_door_is(tmp_path):
    async def story(door, cluster, agent):
        claim = agent.register.claim("n1")
        assert (claim.address, claim.port, claim.known) == ("127.0.0.1", door.port, False)
        assert agent.tenants and all(t.document["status"]["hostIP"] == "127.0.0.1" for t in agent.tenants.values())

    live(tmp_path, LEVELS[-1], story)
