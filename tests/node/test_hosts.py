"""Names and addresses: who gets which, what the files say, and what the name server answers."""

import struct
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.node import dns
from allaboard.node.hosts import (
    Person,
    Place,
    account_files,
    allot,
    gateway_of,
    hostname_of,
    hosts_file,
    names_of,
    peer_lines,
    place_of,
    resolv_conf,
    rewrite,
)

NET = IPv4Network("10.88.0.0/16")


def pod(name, subdomain="", namespace="ns", **spec):
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {"job": subdomain}}
    return {"metadata": metadata, "spec": {"hostname": name, "subdomain": subdomain, "containers": [], **spec}}


def test_the_first_address_is_the_gateways():
    assert (gateway_of(NET), allot({}, Place("ns", "job", "a"), NET)) == ("10.88.0.1", "10.88.0.2")


def test_a_place_keeps_its_address_and_others_get_their_own():
    taken = {"ns/job/a": "10.88.0.9"}
    assert allot(taken, Place("ns", "job", "a"), NET) == "10.88.0.9"
    assert allot(taken, Place("ns", "job", "b"), NET) != "10.88.0.9"


def test_when_all_are_taken_there_is_none():
    small = IPv4Network("10.0.0.0/29")
    taken = {f"ns//{n}": f"10.0.0.{n}" for n in range(2, 7)}
    assert allot(taken, Place("ns", "", "x"), small) == ""


@given(st.lists(st.integers(0, 40), max_size=60))
def test_no_two_places_share_an_address(hosts):
    taken = {}
    for number in hosts:
        place = Place("ns", "job", str(number))
        taken[str(place)] = allot(taken, place, IPv4Network("10.9.0.0/24"))
    assert len(set(taken.values())) == len(taken)


def test_a_pod_of_a_job_is_found_again_by_its_index_and_a_lonely_one_by_itself():
    assert place_of(pod("j-0", "j")) == Place("ns", "j", "j-0")
    assert place_of(pod("web")) == Place("ns", "", "uid-web")


def test_host_names_are_cut_as_upstream_cuts_them():
    assert hostname_of(pod("a" * 62 + "-b")) == "a" * 62


def test_a_pod_answers_to_every_form_of_its_name():
    assert names_of(pod("j-0", "j"))[::4] == ("j-0.j.ns.svc.cluster.local", "j-0")
    assert "j-0.j" in names_of(pod("j-0", "j"))


def test_the_hosts_file_knows_peers_plainly_and_v4_mapped():
    lines = peer_lines([(pod("j-0", "j"), "10.88.0.2"), (pod("j-1", "j"), "10.88.0.3")])
    text = hosts_file(pod("j-0", "j", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["x"]}]), "10.88.0.2", lines)
    found = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line and line[0] != "#"}
    assert "j-1.j" in found["10.88.0.3"]
    assert found["::ffff:10.88.0.3"] == found["10.88.0.3"]
    assert found["1.2.3.4"] == ["x"]


def test_resolv_conf_follows_the_policy():
    assert "search ns.svc.cluster.local svc.cluster.local cluster.local" in resolv_conf(pod("a"), "10.88.0.1")
    own = resolv_conf(
        pod("a", dnsPolicy="None", dnsConfig={"nameservers": ["9.9.9.9"], "searches": ["x"]}), "10.88.0.1"
    )
    assert own == "nameserver 9.9.9.9\nsearch x\noptions ndots:5\n"


def test_accounts_are_written_from_scratch_and_nobody_is_locked():
    files = account_files((Person("mpiuser", 1000, 1000, "/home/mpiuser"),), sshd=101)
    assert "mpiuser:x:1000:1000" in files["passwd"][0]
    assert all(line.split(":")[1] == "*" for line in files["shadow"][0].splitlines())


def test_names_become_addresses_where_no_file_can_be_shown():
    names = {"j-0.j": "127.88.0.2", "j-0": "127.88.0.2", "j-0.j.ns.svc": "127.88.0.2"}
    assert rewrite("tcp://j-0.j:29500", names) == "tcp://127.88.0.2:29500"
    assert rewrite("j-0", names) == "j-0"


def question(name, kind=1):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\x12\x34\x01\x00\0\x01\0\0\0\0\0\0" + labels + b"\0" + struct.pack("!HH", kind, 1)


SERVICES = [{"metadata": {"name": "web", "namespace": "ns"}, "spec": {"selector": {"job": "j"}}}]
SERVICES.append({"metadata": {"name": "own", "namespace": "ns"}, "spec": {"clusterIP": "10.96.0.7"}})
PODS = [(pod("j-0", "j"), "10.88.0.2"), (pod("j-1", "j"), "10.88.0.3"), (pod("late", "j"), "")]
LOOKUPS = {
    "a pod": ("j-0.j.ns.svc.cluster.local", ["10.88.0.2"]),
    "a pod without its end": ("j-1.j.ns", ["10.88.0.3"]),
    "a service is its pods": ("web.ns.svc.cluster.local", ["10.88.0.2", "10.88.0.3"]),
    "a service with an address of its own": ("own.ns.svc.cluster.local", ["10.96.0.7"]),
    "the API": ("kubernetes.default.svc", ["10.88.0.1"]),
    "the API by its whole name": ("kubernetes.default.svc.cluster.local", ["10.88.0.1"]),
    "a name a search list made longer": ("kubernetes.default.svc.svc.cluster.local", None),
    "nobody": ("nobody.ns.svc.cluster.local", None),
    "the world outside": ("example.org", None),
}


@pytest.mark.parametrize(("name", "want"), LOOKUPS.values(), ids=LOOKUPS)
def test_look_ups(name, want):
    assert dns.lookup(name, PODS, SERVICES, "10.88.0.1") == want


def test_answers_carry_the_question_its_number_and_every_address():
    said = dns.answer(question("a.b"), lambda name: ["10.0.0.1", "10.0.0.2"] if name == "a.b" else None)
    assert said[:2] == b"\x12\x34"
    assert struct.unpack_from("!HH", said, 2)[0] & 0xF == 0
    assert (said.count(b"\x0a\x00\x00"), struct.unpack_from("!H", said, 6)[0]) == (2, 2)


def test_no_such_name_is_said_at_once_and_other_kinds_are_empty():
    assert dns.answer(question("x"), lambda name: None)[3] & 0xF == 3
    assert struct.unpack_from("!H", dns.answer(question("x", 28), lambda name: ["10.0.0.1"]), 6)[0] == 0


@given(st.binary(max_size=60))
def test_rubbish_is_never_an_error(packet):
    dns.answer(packet, lambda name: ["10.0.0.1"])
