"""Volumes: what files they hold, where they are mounted, and that they change in one step."""

import base64
import os
import stat

import pytest

from allaboard.node import mounts
from allaboard.node.environment import MissingSource, Sources
from allaboard.node.mounts import (
    File,
    Mount,
    Tokens,
    Unmountable,
    Volume,
    mounts_of,
    needs,
    reclaimed,
    render,
    replaced_paths,
    safe_mode,
    token_asks,
    volumes_of,
)
from allaboard.node.volumes import check_host_path, make_empty, size_of, take_away, write_files

POD = {"metadata": {"name": "p", "namespace": "ns", "labels": {"a": "1", "b": '"x"'}}, "spec": {"containers": []}}
SOURCES = Sources(
    POD,
    config_maps={
        "c": {"data": {"k": "v", "l": "w"}, "binaryData": {"b": base64.b64encode(b"\0\1").decode()}},
        "gone": None,
    },
    secrets={"s": {"data": {"t": base64.b64encode(b"hush").decode()}}},
)

CONTENT = {
    "a whole config map": ("configMap", {"name": "c"}, {"k": (b"v", 0o644), "l": (b"w", 0o644), "b": (b"\0\1", 0o644)}),
    "chosen keys": (
        "configMap", {"name": "c", "items": [{"key": "k", "path": "d/e", "mode": 0o400}]}, {"d/e": (b"v", 0o400)},
    ),
    "a secret with a mode": ("secret", {"secretName": "s", "defaultMode": 0o440}, {"t": (b"hush", 0o440)}),
    "a missing one that may be missing": ("configMap", {"name": "gone", "optional": True}, {}),
    "the pod itself": (
        "downwardAPI", {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        {"l": (b'a="1"\nb="\\"x\\""', 0o644)},
    ),
    "several in one": (
        "projected",
        {"sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "token", "audience": "x"}}]},
        {"t": (b"hush", 0o644), "token": (b"jwt", 0o600)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "want"), CONTENT.values(), ids=CONTENT)
def test_what_a_volume_holds(kind, spec, want):
    files = render(Volume("v", kind, spec), SOURCES, Tokens({("x", 3600): "jwt"}))
    assert {path: (file.content, file.mode) for path, file in files.items()} == want


REFUSED = {
    "no such map": ("configMap", {"name": "gone"}, MissingSource, 'configmap "gone" not found'),
    "no such key": (
        "secret", {"secretName": "s", "items": [{"key": "x", "path": "x"}]}, MissingSource, "non-existent key",
    ),
    "a path that leaves": (
        "configMap", {"name": "c", "items": [{"key": "k", "path": "../x"}]}, Unmountable, "without",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_a_volume_cannot_hold(kind, spec, error, words):
    with pytest.raises(error, match=words):
        render(Volume("v", kind, spec), SOURCES, Tokens())


def test_a_kind_we_do_not_have_is_refused_by_name():
    with pytest.raises(Unmountable, match="nfs is not supported on this node"):
        volumes_of({"spec": {"volumes": [{"name": "v", "nfs": {"server": "x"}}]}})


def test_what_a_pod_needs_is_known_before_it_starts():
    volume = Volume("v", "projected", {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]})
    assert list(needs(volume)) == [("configMap", "c"), ("secret", "s")]
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 60}}]}}
    assert token_asks({"spec": {"volumes": [{"name": "v", **token}]}}) == [("", 60)]


def test_mounts_are_in_order_and_inner_paths_are_kept_inside():
    entries = [{"name": "v", "mountPath": "/a/b/"}, {"name": "v", "mountPath": "/a", "subPathExpr": "$(RANK)"}]
    found = mounts_of({"name": "c", "volumeMounts": entries}, {"v": "/data"}, {"RANK": "3"})
    assert found == [Mount("/data", "/a", inner="3"), Mount("/data", "/a/b")]
    with pytest.raises(Unmountable, match="relative path"):
        mounts_of({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "../y"}]}, {"v": "/d"}, {})
    with pytest.raises(Unmountable, match="no such volume"):
        mounts_of({"name": "c", "volumeMounts": [{"name": "w", "mountPath": "/x"}]}, {"v": "/d"}, {})


@pytest.mark.parametrize("target", ["/", "//", "/proc", "/proc/self", "/a/.."])
def test_nothing_is_mounted_over_the_root_or_what_is_the_kernels(target):
    with pytest.raises(Unmountable, match="neither the root"):
        mounts_of({"name": "c", "volumeMounts": [{"name": "v", "mountPath": target}]}, {"v": "/d"}, {})
    assert mounts_of({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/process"}]}, {"v": "/d"}, {})


KEY = b"-----BEGIN EC PRIVATE KEY-----\n"
MODES = {
    "a key its reader owns": (0o640, True, KEY, 0o600),
    "a key somebody else owns": (0o640, False, KEY, 0o640),
    "no key": (0o644, True, b"ssh-rsa", 0o644),
}


@pytest.mark.parametrize(("mode", "owner", "content", "want"), MODES.values(), ids=MODES)
def test_private_keys_stay_private(mode, owner, content, want):
    assert safe_mode(mode, owner_reads=owner, content=content) == want


def test_paths_are_replaced_where_nothing_can_be_mounted():
    mounts = [Mount("/host/a", "/data"), Mount("/host/b", "/data/inner")]
    assert replaced_paths("/data/x --in=/data/inner/y", mounts) == "/host/a/x --in=/host/b/y"
    assert replaced_paths("/database", mounts) == "/database"


def test_a_rendered_volume_changes_in_one_step_and_keeps_its_face(tmp_path):
    root = tmp_path / "v"
    root.mkdir()
    (root / "..data_tmp").symlink_to("..gone")  # an agent was killed in the middle
    assert write_files(root, {"a": File(b"1"), "d/b": File(b"2", 0o600)}, owner_reads=True, group=None)
    assert not write_files(root, {"a": File(b"1"), "d/b": File(b"2", 0o600)}, owner_reads=True, group=None)
    first = os.readlink(root / "..data")
    assert stat.S_IMODE((root / "d" / "b").stat().st_mode) == 0o600
    assert write_files(root, {"a": File(b"3"), "c": File(b"4")}, owner_reads=True, group=None)
    assert ((root / "a").read_bytes(), (root / "c").read_bytes(), (root / "d").exists()) == (b"3", b"4", False)
    assert os.readlink(root / "..data") != first
    assert os.readlink(root / "a") == "..data/a"
    assert not (root / first).exists()


def test_directories_are_made_measured_and_taken_away(tmp_path):
    make_empty(tmp_path / "e", None)
    (tmp_path / "e" / "deep").mkdir()
    (tmp_path / "e" / "deep" / "x").write_bytes(b"x" * 10_000)
    assert 10_000 <= size_of(tmp_path / "e") <= 20_000
    (tmp_path / "e" / "deep").chmod(0)
    take_away(tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_host_paths_are_checked_by_type(tmp_path):
    (tmp_path / "file").touch()
    assert check_host_path(str(tmp_path), "Directory") == ""
    assert "is not a directory" in check_host_path(str(tmp_path / "file"), "Directory")
    assert check_host_path(str(tmp_path / "none"), "") == ""
    assert (tmp_path / "none").is_dir()
    assert check_host_path(str(tmp_path / "new"), "DirectoryOrCreate") == ""


def volume(path="/home/volumes/ns/data-1", policy="Delete", by="aboard.dev/local-directory"):
    metadata = {"name": "pvc-1", "annotations": {"pv.kubernetes.io/provisioned-by": by}}
    return {"metadata": metadata, "spec": {"hostPath": {"path": path}, "persistentVolumeReclaimPolicy": policy}}


RECLAIMED = {
    "one of ours": (volume(), "/home/volumes/ns/data-1"),
    "one that is to be kept": (volume(policy="Retain"), ""),
    "somebody else's": (volume(by="other"), ""),
    "one outside": (volume(path="/etc"), ""),
    "one that climbs out": (volume(path="/home/volumes/../../etc"), ""),
    "the root itself": (volume(path="/home/volumes"), ""),
}


@pytest.mark.parametrize(("gone", "want"), RECLAIMED.values(), ids=RECLAIMED)
def test_which_directories_go_with_their_volumes(gone, want):
    assert reclaimed(gone, "/home/volumes") == want


SIZES = {
    "as it says": ({"medium": "Memory", "sizeLimit": "1Mi"}, [None], 2**20),
    "the pod may have less": ({"medium": "Memory", "sizeLimit": "1Gi"}, ["1Mi", "2Mi"], 3 * 2**20),
    "the pod's own": ({"medium": "Memory"}, ["1Mi"], 2**20),
    "one container may have what it likes": ({"medium": "Memory"}, ["1Mi", None], 0),
    "a disk is measured": ({"sizeLimit": "1Mi"}, ["1Mi"], 0),
}


@pytest.mark.parametrize(("spec", "limits", "want"), SIZES.values(), ids=SIZES)
def test_how_large_a_memory_volume_is(spec, limits, want):
    containers = [{"resources": {"limits": {"memory": limit} if limit else {}}} for limit in limits]
    assert mounts.memory_size({"spec": {"containers": containers}}, mounts.Volume("v", "emptyDir", spec)) == want
