"""Talking to a rank: exit codes, ports, and archives that stay where they belong."""

import asyncio
import io
import os
import tarfile
from pathlib import Path

import click
import pytest

from allaboard.cli.channels import NotRun, exit_code_of, pieces
from allaboard.cli.cp import Side, pack, side, unpack
from allaboard.cli.manifests import BadFile
from allaboard.cli.port_forward import ports_of


def test_an_exit_code_is_read_from_the_status():
    causes = {"causes": [{"reason": "ExitCode", "message": "7"}]}
    assert exit_code_of({"status": "Success"}) == 0
    assert exit_code_of({"status": "Failure", "details": causes}) == 7
    with pytest.raises(NotRun, match="no such container"):
        exit_code_of({"status": "Failure", "message": "no such container"})


def test_a_descriptor_is_read_as_it_fills_without_blocking():
    async def story():
        inside, outside = os.pipe()
        heard = pieces(inside)
        os.write(outside, b"one")
        assert await anext(heard) == b"one"
        asking = asyncio.ensure_future(anext(heard))
        for _ in range(5):
            await asyncio.sleep(0)  # the loop goes on while nothing comes
        assert not asking.done()
        os.write(outside, b"two")
        assert await asking == b"two"
        os.close(outside)
        assert [piece async for piece in heard] == []
        os.close(inside)

    asyncio.run(story())


PORTS = {"both": ("8080:80", (8080, 80)), "the same": ("80", (80, 80)), "any here": (":80", (0, 80))}


@pytest.mark.parametrize(("text", "ports"), PORTS.values(), ids=PORTS)
def test_ports(text, ports):
    assert ports_of(text) == ports


@pytest.mark.parametrize("text", ["http", "80:", "80:0", "70000:80", "1:2:3"])
def test_what_are_no_ports(text):
    with pytest.raises(click.UsageError, match="must be LOCAL:REMOTE"):
        ports_of(text)


SIDES = {
    "inside": ("job:/tmp/x", Side("job", "/tmp/x")),
    "here": ("out.txt", Side("", "out.txt")),
    "here, with a colon": ("./a:b", Side("", "./a:b")),
    "no path": ("job:", Side("", "job:")),
}


@pytest.mark.parametrize(("text", "want"), SIDES.values(), ids=SIDES)
def test_side(text, want):
    assert side(text) == want


def test_a_folder_goes_in_and_out_under_its_new_name(tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "a").write_text("hello")
    unpack(io.BytesIO(pack(tmp_path / "in", "moved")), "moved", tmp_path / "out")
    assert (tmp_path / "out" / "sub" / "a").read_text() == "hello"
    (tmp_path / "there").mkdir()
    unpack(io.BytesIO(pack(tmp_path / "in", "")), "in", tmp_path / "there")
    assert (tmp_path / "there" / "in" / "sub" / "a").exists()


def test_nothing_lands_outside_the_target(tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("in/../../escaped"))
    packed.seek(0)
    (tmp_path / "out").mkdir()
    with pytest.raises(tarfile.OutsideDestinationError):
        unpack(packed, "in", tmp_path / "out" / "x")


def test_a_file_that_is_not_here_is_said():
    with pytest.raises(BadFile, match="no such file or folder"):
        pack(Path("/nope"), "x")
