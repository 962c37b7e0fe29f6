"""Waiting for a plane of this machine: for its nodes at the start, for its end when it is stopped."""

import asyncio
import os
import subprocess
import sys

import pytest

from allaboard.cli import planes
from allaboard.sdk.home import Home, Running


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def plane_of(nodes):
    return Running(1, "https://127.0.0.1:1", "2026-01-01T00:00:00Z", nodes, "0")


def test_nodes_that_have_said_so_are_ready_and_no_nodes_need_not(home):
    assert asyncio.run(planes.nodes_are_ready(home, plane_of(0)))
    home.ready.touch()
    assert asyncio.run(planes.nodes_are_ready(home, plane_of(2)))


def test_somebody_who_waits_is_told_what_for_and_not_kept_for_ever(home, monkeypatch, capsys):
    monkeypatch.setattr(planes, "LONG", -1)
    monkeypatch.setattr(planes, "NODES_PATIENCE", 0.1)
    assert not asyncio.run(planes.nodes_are_ready(home, plane_of(1)))
    assert capsys.readouterr().err == f"  waits for its nodes to be ready; what they say: {home.logs / 'node.log'}\n"


def test_who_has_ended_is_over_also_while_nobody_buries_him():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert planes.is_over(process.pid)
        process.wait()
        assert planes.is_over(process.pid)
    assert not planes.is_over(os.getpid())
