"""Logs: reading a part, following, stamping, and cutting without losing a line."""

import asyncio
import os
from datetime import UTC, datetime

import pytest
from world import PATIENCE

from allaboard.node import syscalls
from allaboard.node.journal import MARK, View, in_order, read_index, stamp_nanos, stamped
from allaboard.node.logs import SPARE, Logs, first_byte

TEXT = b"one\ntwo\nthree\nfour\n"

PARTS = {
    "everything": (View(), TEXT),
    "the last two lines": (View(tail=2), b"three\nfour\n"),
    "more lines than there are": (View(tail=9), TEXT),
    "no line at all": (View(tail=0), b""),
    "so many bytes": (View(limit=6), b"one\ntw"),
    "the first bytes of the last line": (View(tail=1, limit=2), b"fo"),
    "since a moment in the middle": (View(since=datetime.fromtimestamp(15, UTC)), b"three\nfour\n"),
    "since before the beginning": (View(since=datetime.fromtimestamp(1, UTC)), TEXT),
    "since after the end": (View(since=datetime.fromtimestamp(99, UTC)), b""),
    "with times": (
        View(timestamps=True, tail=3),
        b"1970-01-01T00:00:10.000000000Z two\n"
        b"1970-01-01T00:00:20.000000000Z three\n"
        b"1970-01-01T00:00:20.000000000Z four\n",
    ),
}


async def gather(logs, path, view):
    return b"".join([piece async for piece in logs.read(path, view)])


@pytest.mark.parametrize(("view", "want"), PARTS.values(), ids=PARTS)
def test_a_part_of_a_log(tmp_path, view, want):
    (tmp_path / "log").write_bytes(TEXT)
    (tmp_path / "log.index").write_bytes(MARK.pack(8, 10 * 10**9) + MARK.pack(19, 20 * 10**9))
    assert asyncio.run(gather(Logs(2**20), tmp_path / "log", view)) == want


def test_a_progress_bar_is_one_line_with_one_time():
    index = read_index(MARK.pack(30, 10 * 10**9))
    assert stamped(b"10%\r20%\r30%\nnext\n", 0, index, 0) == (
        b"1970-01-01T00:00:10.000000000Z 10%\r20%\r30%\n1970-01-01T00:00:10.000000000Z next\n"
    )


def test_a_last_line_without_end_is_a_line(tmp_path):
    (tmp_path / "log").write_bytes(b"one\ntwo")
    assert asyncio.run(gather(Logs(2**20), tmp_path / "log", View(tail=1))) == b"two"


def test_no_log_is_an_empty_log(tmp_path):
    assert asyncio.run(gather(Logs(2**20), tmp_path / "log", View(follow=True))) == b""


def test_following_hears_every_byte_until_the_end(tmp_path):
    async def story():
        logs, path = Logs(2**20), tmp_path / "log"
        logs.open()
        logs.keep_up(path)
        marking = asyncio.create_task(logs.run())
        reading = asyncio.create_task(gather(logs, path, View(follow=True)))
        for number in range(50):
            with open(path, "ab") as file:
                file.write(b"line %d\n" % number)
            await asyncio.sleep(0)
        logs.finish(path)
        found = await asyncio.wait_for(reading, PATIENCE)
        marking.cancel()
        logs.close()
        return found

    assert asyncio.run(story()) == b"".join(b"line %d\n" % number for number in range(50))


def test_a_log_that_is_too_long_loses_its_head_and_no_other_line(tmp_path):
    async def story():
        logs, path = Logs(64 * 1024), tmp_path / "log"
        logs.keep_up(path)
        log = logs.logs[path]
        with open(path, "ab") as file:
            for number in range(400_000):
                file.write(b"%031d\n" % number)
        log.mark()
        return await gather(logs, path, View()), os.stat(path).st_blocks * 512

    text, blocks = asyncio.run(story())
    numbers = [int(line) for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 400_000))
    assert 2000 <= len(numbers) <= 2200
    assert blocks < SPARE / 4


def test_marks_survive_a_torn_end():
    assert read_index(MARK.pack(5, 7) + b"xx").sizes == (5,)


def test_stamps_have_nanoseconds():
    assert stamp_nanos(1_700_000_000_000_000_001) == "2023-11-14T22:13:20.000000001Z"


def test_ranks_are_merged_by_grain_then_rank_then_place():
    pieces = [(60_000_000, 0, 9, b"d"), (10, 1, 0, b"b"), (20, 0, 5, b"a"), (30, 1, 2, b"c")]
    assert in_order(pieces) == [b"a", b"b", b"c", b"d"]


def test_a_log_says_where_it_begins_before_its_head_goes(tmp_path, monkeypatch):
    logs, path = Logs(64 * 1024), tmp_path / "log"
    logs.keep_up(path)
    path.write_bytes(b"%031d\n" % 7 * 400_000)
    said = []
    monkeypatch.setattr(syscalls, "punch_hole", lambda descriptor, length: said.append(first_byte(path) == length))
    logs.logs[path].mark()
    assert said == [True]
