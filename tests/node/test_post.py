"""One agent at a time in a state directory."""

import os
import subprocess
import sys
import threading

import pytest

from allaboard.node import post

HOLD = "import sys, time; from pathlib import Path; from allaboard.node import post; "
HOLD += "post.take(Path(sys.argv[1])); print('taken', flush=True); time.sleep(600)"


@pytest.fixture
def other(tmp_path):
    """Another process that holds the post."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"taken\n"
        yield process
        process.kill()


def test_a_post_is_free_until_taken_and_again_when_given_back(tmp_path):
    assert post.holder(tmp_path) == 0
    descriptor = post.take(tmp_path)
    assert post.holder(tmp_path) == os.getpid()
    os.close(descriptor)
    assert post.holder(tmp_path) == 0


def test_a_second_agent_is_told_who_works_there(tmp_path, other):
    with pytest.raises(
        post.PostTaken, match=rf"a node agent \(process {other.pid}\) works here already; stop it first"
    ):
        post.take(tmp_path)


def test_who_is_relieved_is_gone_and_the_post_is_free(tmp_path, other):
    post.relieve(tmp_path)
    assert post.holder(tmp_path) == 0
    os.close(post.take(tmp_path))


def test_nobody_to_relieve_is_no_trouble(tmp_path):
    post.relieve(tmp_path)
    assert post.holder(tmp_path / "nowhere") == 0


def test_a_number_left_by_an_earlier_holder_is_nobody(tmp_path):
    """Between taking the post and writing its name, the file still has the old one; its number may be anybody's."""
    (tmp_path / "agent").write_text(f"{os.getpid()} 1")
    with open(tmp_path / "agent") as file:
        assert post._named(file.fileno()) == 0


def test_whoever_only_looks_does_not_keep_an_agent_out(tmp_path):
    os.close(post.take(tmp_path))
    (tmp_path / "agent").write_text("")
    looks = os.open(tmp_path / "agent", os.O_RDWR)
    assert post._lock(looks)
    later = threading.Timer(0.05, os.close, [looks])
    later.start()
    os.close(post.take(tmp_path))
    later.join()
