"""What is written in C: compiled once, kept, never taken from somebody else, and done without where it cannot be."""

import os
import shutil
import stat
import subprocess

import pytest

from allaboard.node import compiled

NEEDS = pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="apt-get install gcc")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(compiled.OFF, raising=False)
    return tmp_path


@NEEDS
@pytest.mark.parametrize("name", compiled.FLAGS)
def test_it_is_made_once_and_kept(name):
    assert compiled.kept(name) is None
    first = compiled.find(name)
    assert compiled.kept(name) == first
    made = first.stat().st_mtime_ns
    assert os.access(first, os.X_OK)
    assert (compiled.find(name), first.stat().st_mtime_ns) == (first, made)


@NEEDS
@pytest.mark.parametrize("name", compiled.FLAGS)
def test_it_compiles_without_a_warning(name, tmp_path):
    words = ["cc", *compiled.FLAGS[name], "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / name)]
    done = subprocess.run([*words, str(compiled.SOURCES / f"{name}.c")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@NEEDS
def test_what_others_could_have_written_is_made_again():
    path = compiled.find("groups")
    path.write_bytes(b"not ours")
    path.chmod(0o777)
    assert compiled.find("groups") == path
    assert path.read_bytes() != b"not ours"
    assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def test_it_is_done_without_where_it_is_not_wanted(monkeypatch):
    monkeypatch.setenv(compiled.OFF, "1")
    assert compiled.find("init") is None


def test_it_is_done_without_where_there_is_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiled.find("init") is None


def test_it_is_done_without_where_the_compiler_fails(monkeypatch, tmp_path, caplog):
    broken = tmp_path / "bin" / "cc"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho no headers >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(broken.parent))
    assert compiled.find("init") is None
    assert "no headers" in caplog.text
    assert not [path for path in (tmp_path / "allaboard").iterdir() if path.name.startswith("init")]
