"""Fetching from S3: against a real S3 server (moto), and our signature against botocore's."""

from datetime import UTC, datetime

import pytest

from allaboard.initializers import fetching
from allaboard.initializers.s3 import EMPTY, Keys, Request, signed

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
