"""Fetching from S3: against a real S3 server (moto), and our signature against botocore's."""

import urllib.request
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from allaboard.initializers import fetching
from allaboard.initializers.s3 import EMPTY, Keys, Request, signed
from tests.initializers.servers import Answer, serving

boto3 = pytest.importorskip("boto3", reason="S3 tests need moto: pip install 'moto[s3,server]'")
moto_server = pytest.importorskip("moto.server", reason="S3 tests need moto: pip install 'moto[s3,server]'")
auth = pytest.importorskip("botocore.auth")
awsrequest = pytest.importorskip("botocore.awsrequest")
credentials = pytest.importorskip("botocore.credentials")

ENV = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}


@pytest.fixture(scope="module")
def s3():
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    options = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    yield url, boto3.client("s3", endpoint_url=url, **options)
    server.stop()


def bucket(s3, name, objects):
    _, client = s3
    client.create_bucket(Bucket=name)
    for key, body in objects.items():
        client.put_object(Bucket=name, Key=key, Body=body)


def run(folder, s3, uri, **env):
    said = []
    code = fetching.main(
        "dataset", {"OUTPUT_DIR": str(folder), "STORAGE_URI": uri, "ENDPOINT": s3[0], **ENV, **env}, said.append
    )
    return code, said


def found(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".aboard")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_objects_under_a_prefix_come_with_their_folders(s3, tmp_path):
    bucket(s3, "one", {"set/a/1.csv": b"one", "set/2 b+c.csv": b"two", "set/": b"", "other": b"no"})
    assert run(tmp_path, s3, "s3://one/set")[0] == 0
    assert found(tmp_path) == {"a/1.csv": b"one", "2 b+c.csv": b"two"}


def test_one_object_comes_under_its_own_name(s3, tmp_path):
    bucket(s3, "single", {"deep/model.gguf": b"w" * 5000})
    assert run(tmp_path, s3, "s3://single/deep/model.gguf")[0] == 0
    assert found(tmp_path) == {"model.gguf": b"w" * 5000}


@pytest.mark.slow
def test_more_objects_than_a_page_holds(s3, tmp_path):
    objects = {f"p/{n:04}": b"x" for n in range(1050)}
    bucket(s3, "many", objects)
    code, said = run(tmp_path, s3, "s3://many/p", PARALLEL_DOWNLOADS="16")
    assert (code, len(found(tmp_path)), said[-1]) == (0, 1050, "fetched 1050/1050 files, 1.0 KiB/1.0 KiB")


def test_a_second_run_fetches_nothing_again(s3, tmp_path):
    bucket(s3, "again", {"a": b"1", "b": b"2"})
    run(tmp_path, s3, "s3://again/")
    before = (tmp_path / "a").stat().st_mtime_ns
    assert run(tmp_path, s3, "s3://again/")[0] == 0
    assert (tmp_path / "a").stat().st_mtime_ns == before


class Between:
    """Somebody on the line to S3, who passes everything on but ends the first download early, or spoils it."""

    def __init__(self, url, *, cut=None, spoil=False):
        self.url, self.cut, self.spoil = url, cut, spoil

    def __call__(self, asked):
        query = "&".join(f"{name}={quote(value[0], safe='')}" for name, value in sorted(asked.query.items()))
        request = urllib.request.Request(f"{self.url}{asked.path}?{query}" if query else f"{self.url}{asked.path}")
        for name in ("authorization", "x-amz-date", "x-amz-content-sha256"):
            if name in asked.headers:
                request.add_header(name, asked.headers[name])
        with urllib.request.urlopen(request) as answer:
            body, tag = answer.read(), answer.headers.get("ETag", "")
        if "list-type" in asked.query:
            return Answer(body)
        body = body[:-1] + b"?" if self.spoil else body
        cut, self.cut = self.cut, None
        return Answer(body, headers={"ETag": tag}, cut=cut)


def test_a_broken_download_goes_on_where_it_stopped(s3, tmp_path):
    bucket(s3, "broken", {"set/big": b"0123456789" * 1000})
    with serving(Between(s3[0], cut=4321)) as (url, asked):
        assert run(tmp_path, (url, None), "s3://broken/set/")[0] == 0
    assert found(tmp_path) == {"big": b"0123456789" * 1000}
    assert [request.headers.get("range") for request in asked if request.path.endswith("/big")] == [None, "bytes=4321-"]


def test_a_damaged_object_is_refused_and_thrown_away(s3, tmp_path):
    bucket(s3, "spoilt", {"set/big": b"0123456789"})
    with serving(Between(s3[0], spoil=True)) as (url, _):
        code, said = run(tmp_path, (url, None), "s3://spoilt/set/")
    assert (code, found(tmp_path)) == (1, {})
    assert "the download was damaged" in said[-1]


def test_a_role_lends_its_keys(s3, tmp_path):
    bucket(s3, "lent", {"a": b"1"})
    assert run(tmp_path, s3, "s3://lent/", ROLE_ARN="arn:aws:iam::123456789012:role/reader")[0] == 0
    assert found(tmp_path) == {"a": b"1"}


def test_a_missing_bucket_is_said(s3, tmp_path):
    code, said = run(tmp_path, s3, "s3://nowhere/x")
    assert code == 1
    assert "the server answered 404; check the storageUri" in said[-1]


URLS = {
    "an object": "https://s3.eu-west-1.amazonaws.com/bucket/a%20b/c.csv",
    "a listing": "https://minio.local:9000/bucket?list-type=2&prefix=a%2Fb",
    "the root": "https://minio.local:9000/",
}


@pytest.mark.parametrize("url", URLS.values(), ids=URLS)
@pytest.mark.parametrize("session", ["", "lent-token"])
def test_our_signature_is_the_one_botocore_makes(url, session, monkeypatch):
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ours = signed(Request("GET", url), Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", session, "eu-west-1"), now)
    person = credentials.Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", session or None)
    theirs = auth.S3SigV4Auth(person, "s3", "eu-west-1")
    monkeypatch.setattr(auth, "get_current_datetime", lambda: now.replace(tzinfo=None), raising=False)
    monkeypatch.setattr(theirs, "payload", lambda _request: EMPTY)
    request = awsrequest.AWSRequest("GET", url)
    theirs.add_auth(request)
    if request.context["timestamp"] != ours["x-amz-date"]:
        pytest.skip("this botocore takes the time from elsewhere")
    assert ours["Authorization"] == request.headers["Authorization"]
