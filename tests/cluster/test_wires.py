"""TLS: who somebody is by the certificate they show, and that strict clients like ours."""

import asyncio
import json
import ssl
from datetime import UTC, datetime, timedelta

import pytest

from allaboard.cluster.server import Address, serve
from allaboard.kube.certificates import issue, issue_client, keep, make_authority
from tests.cluster.plane import Plane

NOW = datetime.now(UTC)
REVIEW = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
AUTHORITY, STRANGER = make_authority("ours", NOW), make_authority("another's", NOW)


def client(folder, pair=None):
    """A client as Python 3.13 makes it by default: strict, and no partial chains beyond the authority it was given."""
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    if pair is not None:
        context.load_cert_chain(*keep(folder, "client", pair))
    return context


async def asked(folder, context, token=""):
    plane = await Plane().furnish()
    certificate, key = keep(folder, "server", issue(AUTHORITY, "server", ["127.0.0.1", "localhost"], NOW))
    (folder / "ca.crt").write_bytes(AUTHORITY.certificate)
    files = {"certificate": str(certificate), "key": str(key), "authority": str(folder / "ca.crt")}
    async with serve(plane.app, Address(**files)) as serving:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", serving.port, ssl=context, server_hostname="localhost"
        )
        head = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
        head += f"authorization: Bearer {token}\r\n" if token else ""
        head += f"content-type: application/json\r\ncontent-length: {len(REVIEW)}\r\n\r\n"
        writer.write(head.encode() + REVIEW)
        answer = await reader.read()
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def signed(authority, name, *groups, days=1):
    return issue_client(authority, name, groups, (NOW, timedelta(days=days)))


def test_a_certificate_names_a_user_and_its_groups(tmp_path):
    pair = signed(AUTHORITY, "alice", "developers", "ops")
    code, review = asyncio.run(asked(tmp_path, client(tmp_path, pair)))
    info = review["status"]["userInfo"]
    assert (code, info["username"]) == (201, "alice")
    assert info["groups"] == ["developers", "ops", "system:authenticated"]
    assert info["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_a_certificate_counts_before_a_token(tmp_path):
    _, review = asyncio.run(asked(tmp_path, client(tmp_path, signed(AUTHORITY, "alice")), token="admin"))
    assert review["status"]["userInfo"]["username"] == "alice"


def test_nobody_needs_a_certificate(tmp_path):
    _, review = asyncio.run(asked(tmp_path, client(tmp_path), token="admin"))
    assert review["status"]["userInfo"]["username"] == "admin"


def test_nobody_is_let_in_unknown(tmp_path):
    code, status = asyncio.run(asked(tmp_path, client(tmp_path)))
    assert (code, status["message"]) == (401, "Unauthorized")


REFUSED = {
    "another authority's": lambda: signed(STRANGER, "alice", "system:masters"),
    "one that is over": lambda: issue_client(AUTHORITY, "a", (), (NOW - timedelta(days=9), timedelta(days=1))),
    "a server's": lambda: issue(AUTHORITY, "alice", ["alice"], NOW),
}


@pytest.mark.parametrize("pair", REFUSED.values(), ids=REFUSED)
def test_a_certificate_that_does_not_count_ends_the_conversation(tmp_path, pair):
    with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
        asyncio.run(asked(tmp_path, client(tmp_path, pair())))
