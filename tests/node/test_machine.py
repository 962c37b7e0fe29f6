"""The machine as it is, and what we ask of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from allaboard.node import machine

ASK = """
import resource
from allaboard.node import machine
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
machine.allow_files()
wanted = machine.FILES if hard == resource.RLIM_INFINITY else min(hard, machine.FILES)
print(resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, hard))
"""


def test_hundreds_of_pods_find_descriptors_enough():
    said = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, env=os.environ)
    assert said.stdout == "True\n"


def test_directories_of_pods_stand_where_there_is_room(tmp_path):
    if not (shutil.which("lsattr") and "T" in _flags_after("+T", tmp_path)):
        pytest.skip("a file system that does not let directories be spread (ext4 does)")
    place = tmp_path / "pods"
    place.mkdir()
    machine.spread_below(place)
    machine.spread_below(place)
    assert "T" in _flags(place)


def test_a_file_system_that_cannot_spread_directories_is_left_alone():
    machine.spread_below(Path("/proc/self"))


def _flags_after(wish, place):
    subprocess.run(["chattr", wish, place], check=False, capture_output=True)
    return _flags(place)


def _flags(place):
    return subprocess.run(["lsattr", "-d", place], capture_output=True, text=True, check=False).stdout.split(" ")[0]
