"""Fetching data and models from servers on this machine."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from allaboard.initializers import fetching, web
from tests.initializers.servers import Answer, Asked, Hub, git_sum, serving

FILES = {"README.md": b"words", "data/train.parquet": b"x" * 3000, "data/test.parquet": b"y" * 10}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "FIRST_PAUSE", 0.001)


def run(kind: str, folder: Path, **env: str) -> tuple[int, list[str]]:
    said: list[str] = []
    code = fetching.main(kind, {"OUTPUT_DIR": str(folder), **env}, said.append)
    return code, said


def found(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".aboard")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_data_set_of_the_hub_comes_whole_page_by_page(tmp_path):
    with serving(Hub(FILES)) as (url, asked):
        code, said = run("dataset", tmp_path, STORAGE_URI="hf://owner/alpaca", ENDPOINT=url)
    assert (code, found(tmp_path)) == (0, FILES)
    assert said[-1] == "fetched 3/3 files, 2.9 KiB/2.9 KiB"
    assert [request.path for request in asked if "/tree/" in request.path] == [
        "/api/datasets/owner/alpaca/tree/main"
    ] * 3


def test_a_model_of_the_hub_comes_without_what_nobody_reads(tmp_path):
    files = {
        "config.json": b"{}",
        "model.safetensors": b"w" * 100,
        "pytorch_model.bin": b"old",
        "tf.h5": b"old",
        "a.png": b"p",
    }
    with serving(Hub(files)) as (url, _):
        code, _ = run("model", tmp_path, STORAGE_URI="hf://owner/llama", ENDPOINT=url)
    assert code == 0
    assert sorted(found(tmp_path)) == ["config.json", "model.safetensors"]


def test_patterns_of_the_trainjob_replace_the_defaults(tmp_path):
    with serving(Hub(FILES)) as (url, _):
        code, _ = run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url, IGNORE_PATTERNS="*.md, data/test*")
    assert (code, sorted(found(tmp_path))) == (0, ["data/train.parquet"])


def test_a_revision_may_be_named(tmp_path):
    with serving(Hub({"a.txt": b"a"})) as (url, asked):
        assert run("dataset", tmp_path, STORAGE_URI="hf://o/d@v1.0", ENDPOINT=url)[0] == 0
    assert asked[0].path == "/api/datasets/o/d/tree/v1.0"


def test_the_token_is_shown_to_the_hub_and_to_nobody_else(tmp_path):
    body = b"w" * 50

    def cdn(_: Asked) -> Answer:
        return Answer(body)

    with (
        serving(cdn) as (other, elsewhere),
        serving(Hub({"m.safetensors": body}, token="t0ken", cdn=other)) as (url, asked),
    ):
        code, _ = run("model", tmp_path, STORAGE_URI="hf://o/m", ENDPOINT=url, ACCESS_TOKEN="t0ken")
    assert code == 0
    assert {request.headers.get("authorization") for request in asked} == {"Bearer t0ken"}
    assert [request.headers.get("authorization") for request in elsewhere] == [None]


def test_without_the_right_token_the_remedy_is_said(tmp_path):
    with serving(Hub(FILES, token="t")) as (url, _):
        code, said = run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url)
    assert code == 1
    assert said[-1].endswith("the server answered 401; give the initializer a secretRef with ACCESS_TOKEN")


def test_a_broken_download_goes_on_where_it_stopped(tmp_path):
    hub = Hub({"big.txt": b"0123456789" * 1000})
    hub.cuts["big.txt"] = 4321
    with serving(hub) as (url, asked):
        code, _ = run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url)
    assert (code, found(tmp_path)) == (0, hub.files)
    assert [request.headers.get("range") for request in asked if "/resolve/" in request.path] == [None, "bytes=4321-"]


def test_a_restarted_pod_fetches_only_what_is_missing(tmp_path):
    with serving(Hub(FILES)) as (url, asked):
        run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url)
        (tmp_path / "README.md").unlink()
        asked.clear()
        code, said = run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url)
    assert (code, found(tmp_path), said[-1]) == (0, FILES, "fetched 3/3 files, 2.9 KiB/2.9 KiB")
    assert [request.path for request in asked if "/resolve/" in request.path] == [
        "/datasets/o/d/resolve/main/README.md"
    ]


def test_what_changed_at_the_source_is_fetched_again(tmp_path):
    hub = Hub({"a.txt": b"one"})
    with serving(hub) as (url, _):
        run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url)
        hub.files["a.txt"] = b"two"
        run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url)
    assert found(tmp_path) == {"a.txt": b"two"}


@pytest.mark.parametrize("name", ["small.txt", "large.safetensors"])
def test_a_damaged_file_is_refused_and_thrown_away(tmp_path, name):
    hub = Hub({name: b"content of a file"})
    hub.damaged.add(name)
    with serving(hub) as (url, _):
        code, said = run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url)
    assert code == 1
    assert "the download was damaged, run again" in said[-1]
    assert found(tmp_path) == {}


def test_passing_trouble_is_waited_out(tmp_path):
    troubles = [503, 429, 500]

    def moody(request: Asked) -> Answer:
        return Answer(code=troubles.pop()) if troubles else Answer(b"data")

    with serving(moody) as (url, asked):
        code, _ = run("dataset", tmp_path, STORAGE_URI=f"{url}/set.csv")
    assert (code, found(tmp_path), len(asked)) == (0, {"set.csv": b"data"}, 4)


def test_lasting_trouble_ends_with_a_sentence(tmp_path):
    with serving(lambda request: Answer(code=503)) as (url, asked):
        code, said = run("dataset", tmp_path, STORAGE_URI=f"{url}/set.csv")
    assert (code, len(asked)) == (1, 5)
    assert said[-1] == f"error: {url}/set.csv: the server answered 503 (5 tries)"


def test_a_signature_in_an_address_is_not_repeated_in_words(tmp_path):
    with serving(lambda request: Answer(code=404)) as (url, _):
        _, said = run("dataset", tmp_path, STORAGE_URI=f"{url}/set.csv?sig=secret")
    assert "secret" not in said[-1]


DIGESTS = {
    "md5": {"Content-MD5": base64.b64encode(hashlib.md5(b"body").digest()).decode()},
    "digest": {"Digest": f"sha-256={base64.b64encode(hashlib.sha256(b'body').digest()).decode()}"},
    "repr-digest": {"Repr-Digest": f"sha-512=:{base64.b64encode(hashlib.sha512(b'body').digest()).decode()}:"},
}


@pytest.mark.parametrize("headers", DIGESTS.values(), ids=DIGESTS)
@pytest.mark.parametrize(("body", "code"), [(b"body", 0), (b"bodY", 1)], ids=["right", "wrong"])
def test_a_checksum_that_plain_http_offers_is_used(tmp_path, headers, body, code):
    with serving(lambda request: Answer(body, headers=headers)) as (url, _):
        assert run("dataset", tmp_path, STORAGE_URI=f"{url}/a.bin")[0] == code


class Cloud:
    """A Google Cloud Storage with one bucket, one object to a page."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects

    def __call__(self, request: Asked) -> Answer:
        base = "/storage/v1/b/bucket/o"
        if request.path == base:
            prefix = request.query.get("prefix", [""])[0]
            names = sorted(name for name in self.objects if name.startswith(prefix))
            at = int(request.query.get("pageToken", ["0"])[0])
            page = {"items": [self._entry(name) for name in names[at : at + 1]]}
            more = {"nextPageToken": str(at + 1)} if at + 1 < len(names) else {}
            return Answer(json.dumps(page | more).encode())
        name = request.path.removeprefix(base + "/").replace("%2F", "/")
        return Answer(self.objects[name]) if name in self.objects else Answer(code=404)

    def _entry(self, name: str) -> dict[str, str]:
        body = self.objects[name]
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        return {"name": name, "size": str(len(body)), "md5Hash": md5, "generation": git_sum(body)}


def test_objects_of_google_cloud_storage(tmp_path):
    objects = {"set/": b"", "set/a/1.csv": b"one", "set/2.csv": b"two", "other.csv": b"no"}
    with serving(Cloud(objects)) as (url, asked):
        code, _ = run("dataset", tmp_path, STORAGE_URI="gs://bucket/set", ENDPOINT=url, ACCESS_TOKEN="t")
    assert (code, found(tmp_path)) == (0, {"a/1.csv": b"one", "2.csv": b"two"})
    assert {request.headers.get("authorization") for request in asked} == {"Bearer t"}


class Fickle:
    """A source that is right but for its first download of a file: that breaks off, or comes damaged."""

    def __init__(self, source, is_file, *, cut=None, damaged=False):
        self.source, self.is_file, self.cut, self.damaged = source, is_file, cut, damaged

    def __call__(self, request: Asked) -> Answer:
        answer = self.source(request)
        if not self.is_file(request.path):
            return answer
        if self.damaged:
            return Answer(answer.body[:-1] + b"?", headers=answer.headers)
        answer.cut, self.cut = self.cut, None
        return answer


BODY = b"0123456789" * 1000
SHA = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
# A source with one file, which of its answers are that file, and what a TrainJob writes.
SOURCES = {
    "hf": (Hub({"a.bin": BODY}), lambda path: "/resolve/" in path, lambda url: ("hf://o/d", url)),
    "gs": (Cloud({"set/a.bin": BODY}), lambda path: path.endswith("a.bin"), lambda url: ("gs://bucket/set", url)),
    "http": (
        lambda request: Answer(BODY, headers={"ETag": '"1"', "Repr-Digest": f"sha-256=:{SHA}:"}),
        lambda path: True,
        lambda url: (f"{url}/a.bin", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "is_file", "place"), SOURCES.values(), ids=SOURCES)
def test_every_source_goes_on_where_it_stopped(tmp_path, source, is_file, place):
    with serving(Fickle(source, is_file, cut=4321)) as (url, asked):
        uri, endpoint = place(url)
        code, said = run("dataset", tmp_path, STORAGE_URI=uri, ENDPOINT=endpoint, ACCESS_TOKEN="t")
    assert (code, found(tmp_path)) == (0, {"a.bin": BODY})
    assert said[-1] in ("fetched 1/1 files, 9.8 KiB/9.8 KiB", "fetched 1/1 files, 9.8 KiB")  # every byte counts once
    assert [request.headers.get("range") for request in asked if is_file(request.path)][-1] == "bytes=4321-"


@pytest.mark.parametrize(("source", "is_file", "place"), SOURCES.values(), ids=SOURCES)
def test_every_source_is_checked_by_its_checksum(tmp_path, source, is_file, place):
    with serving(Fickle(source, is_file, damaged=True)) as (url, _):
        uri, endpoint = place(url)
        code, said = run("dataset", tmp_path, STORAGE_URI=uri, ENDPOINT=endpoint, ACCESS_TOKEN="t")
    assert (code, found(tmp_path)) == (1, {})
    assert "the download was damaged" in said[-1]


def changing(before, after):
    """A file that is another one after its first download broke off; its tag says so."""
    versions = [Answer(before, headers={"ETag": '"1"'}, cut=10)]

    def respond(request: Asked) -> Answer:
        if versions:
            return versions.pop()
        if request.headers.get("if-range", '"2"') != '"2"':
            request.headers.pop("range", None)
        return Answer(after, headers={"ETag": '"2"'})

    return respond


def test_the_rest_of_another_version_is_not_put_behind_a_part(tmp_path):
    with serving(changing(b"a" * 100, b"b" * 100)) as (url, asked):
        assert run("dataset", tmp_path, STORAGE_URI=f"{url}/x.bin")[0] == 0
    assert found(tmp_path) == {"x.bin": b"b" * 100}
    assert asked[1].headers["if-range"] == '"1"'


@pytest.mark.parametrize("tag", [{}, {"ETag": 'W/"1"'}], ids=["no tag", "a weak tag"])
def test_a_part_that_nothing_identifies_begins_anew(tmp_path, tag):
    (tmp_path / "x.bin.part").write_bytes(b"old")
    with serving(lambda request: Answer(b"new and whole", headers=tag)) as (url, asked):
        assert run("dataset", tmp_path, STORAGE_URI=f"{url}/x.bin")[0] == 0
    assert (found(tmp_path), asked[0].headers.get("range")) == ({"x.bin": b"new and whole"}, None)


def test_progress_is_told_every_few_seconds():
    moments, said = iter([0.0, 1.0, 6.0, 6.0, 7.0]), []
    progress = fetching.Progress(2, 4096, said.append, lambda: next(moments))
    progress.piece(1024)
    progress.piece(1024)
    progress.piece(1024)
    assert said == ["fetched 0/2 files, 2.0 KiB/4.0 KiB"]


def test_a_folder_that_is_mounted_is_copied(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub").mkdir(parents=True)
    (source / "a.txt").write_bytes(b"a")
    (source / "sub" / "b.txt").write_bytes(b"b")
    assert run("dataset", target, STORAGE_URI=f"file://{source}")[0] == 0
    assert found(target) == {"a.txt": b"a", "sub/b.txt": b"b"}


def test_a_mounted_config_map_is_copied_once(tmp_path):
    source = tmp_path / "source"
    (source / "..2026").mkdir(parents=True)
    (source / "..2026" / "a.txt").write_bytes(b"a")
    (source / "..data").symlink_to("..2026")
    (source / "a.txt").symlink_to("..data/a.txt")
    assert run("dataset", tmp_path / "out", STORAGE_URI=f"file://{source}")[0] == 0
    assert found(tmp_path / "out") == {"a.txt": b"a"}


def test_a_claim_is_found_under_its_mount(tmp_path):
    (tmp_path / "claims" / "models" / "llama").mkdir(parents=True)
    (tmp_path / "claims" / "models" / "llama" / "w.gguf").write_bytes(b"w")
    env = {"STORAGE_URI": "pvc://models/llama", "PVC_ROOT": str(tmp_path / "claims")}
    assert run("model", tmp_path / "out", **env)[0] == 0
    assert found(tmp_path / "out") == {"w.gguf": b"w"}


REFUSALS = {
    "no uri": ({}, "STORAGE_URI: is not set; give the TrainJob an initializer storageUri"),
    "a cache (ruling 23)": (
        {"STORAGE_URI": "cache://schema/table"},
        "cache is not supported; must be one of hf://, s3://",
    ),
    "no scheme": ({"STORAGE_URI": "just/a/path"}, "no scheme is not supported"),
    "half a repository": ({"STORAGE_URI": "hf://llama"}, "names no repository; must be hf://owner/name"),
    "no bucket": ({"STORAGE_URI": "s3:///x"}, "names no bucket; must be s3://bucket/prefix"),
    "no claim mounted": (
        {"STORAGE_URI": "pvc://gone/x", "PVC_ROOT": "/nowhere"},
        "is not mounted; give the initializer a volume",
    ),
    "a host in a file": ({"STORAGE_URI": "file://host/x"}, "names a host; must be file:///path"),
    "a missing folder": ({"STORAGE_URI": "file:///nowhere/at/all"}, "does not exist"),
    "a folder by http": ({"STORAGE_URI": "http://127.0.0.1/"}, "names no file"),
    "a wrong count": (
        {"STORAGE_URI": "hf://a/b", "PARALLEL_DOWNLOADS": "lots"},
        '"lots" is no count; must be between 1 and 64',
    ),
}


@pytest.mark.parametrize(("env", "words"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_fetched_is_refused_by_name(tmp_path, env, words):
    code, said = run("dataset", tmp_path, **env)
    assert code == 1
    assert words in said[-1]


def test_a_name_that_leaves_the_folder_is_refused(tmp_path):
    with serving(Hub({"../evil.txt": b"x"})) as (url, _):
        code, said = run("dataset", tmp_path / "in", STORAGE_URI="hf://o/d", ENDPOINT=url)
    assert (code, (tmp_path / "evil.txt").exists()) == (1, False)
    assert "leaves the output folder" in said[-1]


def test_many_files_come_at_once(tmp_path):
    files = {f"part-{n:03}.txt": b"z" * n for n in range(40)}
    with serving(Hub(files)) as (url, _):
        code, _ = run("dataset", tmp_path, STORAGE_URI="hf://o/d", ENDPOINT=url, PARALLEL_DOWNLOADS="16")
    assert (code, found(tmp_path)) == (0, files)
