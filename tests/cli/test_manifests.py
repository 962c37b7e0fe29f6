"""Files as people write them: what is wrong is said with line and column."""

import pytest

from allaboard.cli.manifests import BadFile, load

GOOD = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  when: 2024-01-01
  on: "x"
---
apiVersion: v1
kind: List
items:
- {kind: Pod}
- {kind: Job}
"""


def test_documents_lists_and_dates(tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text(GOOD)
    first, second, third = load(str(path))
    assert first.document["data"] == {"when": "2024-01-01", "true": "x"}
    assert [second.document["kind"], third.document["kind"]] == ["Pod", "Job"]
    assert first.where("data.when") == f"{path}:5:3"
    assert first.where("data.gone.deeper") == f"{path}:4:1"


def test_a_folder_is_all_its_files(tmp_path):
    (tmp_path / "b.yaml").write_text("kind: B\n")
    (tmp_path / "a.json").write_text('{"kind": "A"}')
    (tmp_path / "notes.txt").write_text("no")
    assert [manifest.document["kind"] for manifest in load(str(tmp_path))] == ["A", "B"]


BAD = {
    "an unclosed bracket": ("kind: [a\n", "2:1: is not YAML"),
    "a tab": ("kind: a\n\tb: c\n", "2:1: is not YAML"),
    "a key written twice": ("kind: a\nspec:\n  x: 1\n  x: 2\n", '4:3: key "x" is written twice'),
    "a list where a mapping must be": ("- a\n- b\n", "must be a mapping of fields"),
}


@pytest.mark.parametrize(("text", "sentence"), BAD.values(), ids=BAD)
def test_bad_yaml_is_located(tmp_path, text, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(BadFile) as caught:
        load(str(path))
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_names_its_neighbours(tmp_path):
    (tmp_path / "job.yaml").write_text("kind: a\n")
    with pytest.raises(BadFile, match=r"no such file; this folder has: job\.yaml"):
        load(str(tmp_path / "jbo.yaml"))
    with pytest.raises(BadFile, match=r"no \.yaml, \.yml or \.json file"):
        (tmp_path / "empty").mkdir()
        load(str(tmp_path / "empty"))
