"""Where jobs meet when pods share the machine's network."""

import socket

from allaboard.node import ports
from allaboard.node.ports import Ports


def opened(path, seed=0):
    book = Ports(path / "ports", seed)
    book.open()
    return book


def test_a_job_has_one_port_and_another_job_another(tmp_path):
    book = opened(tmp_path)
    assert book.of("a") == book.of("a") != book.of("b")


def test_a_job_keeps_its_port_when_the_agent_starts_again(tmp_path):
    before = opened(tmp_path)
    known = {name: before.of(name) for name in ("a", "b")}
    after = opened(tmp_path, seed=7)
    assert {name: after.of(name) for name in ("b", "a")} == known
    assert after.of("c") not in known.values()


def test_a_port_that_somebody_listens_at_is_left_to_him(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as door:
        taken = door.getsockname()[1]
        monkeypatch.setattr(ports, "FIRST", taken)
        assert opened(tmp_path).of("a") > taken


def test_two_planes_of_one_machine_begin_elsewhere(tmp_path):
    book, other = opened(tmp_path, 100), Ports(tmp_path / "other", 5000)
    other.open()
    assert abs(book.of("a") - other.of("a")) > 1000


def test_an_unreadable_line_is_passed_over(tmp_path):
    (tmp_path / "ports").write_text("a\t20001\nb\nc\tx\n")
    assert opened(tmp_path).book == {"a": 20001}


def test_the_last_port_is_followed_by_the_first(tmp_path):
    book = opened(tmp_path, ports.COUNT - 1)
    assert [port in range(ports.FIRST, ports.FIRST + ports.COUNT) for port in map(book.of, "abc")] == [True] * 3
