"""Names and addresses of pods: who gets which address, and the text of the files that say so."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from itertools import chain

from allaboard.api.documents import Document, dig
from allaboard.api.meta import name_of, namespace_of, uid_of

DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True)
class Place:
    """What an address belongs to: a name that outlives restarts (job and index), or one pod."""

    namespace: str
    subdomain: str
    host: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.subdomain}/{self.host}"


def place_of(pod: Document) -> Place:
    spec = pod["spec"]
    host, subdomain = spec.get("hostname", ""), spec.get("subdomain", "")
    if host and subdomain:
        return Place(namespace_of(pod), subdomain, host)
    return Place(namespace_of(pod), "", uid_of(pod))


def hostname_of(pod: Document) -> str:
    """Upstream: spec.hostname or the pod's name, cut to 63 characters."""
    return str(pod["spec"].get("hostname") or name_of(pod))[:63].rstrip("-.")


def names_of(pod: Document) -> tuple[str, ...]:
    """Every name a pod answers to, the longest first."""
    host, subdomain = hostname_of(pod), pod["spec"].get("subdomain")
    if not subdomain:
        return (host,)
    inner = f"{host}.{subdomain}"
    namespace = namespace_of(pod)
    return (f"{inner}.{namespace}.svc.{DOMAIN}", f"{inner}.{namespace}.svc", f"{inner}.{namespace}", inner, host)


def allot(taken: Mapping[str, str], place: Place, network: IPv4Network) -> str:
    """The address of a place: the one it had, else the first that nobody has. Empty when there is none left."""
    known = taken.get(str(place))
    if known:
        return known
    if network.num_addresses == 1:  # a machine with one loopback address: everybody's
        return str(network.network_address)
    used = set(taken.values())
    # The first address is the gateway's.
    first, last = int(network.network_address) + 2, int(network.broadcast_address)
    start = first + len(taken)
    for number in chain(range(start, last), range(first, start)):
        address = _dotted(number)
        if address not in used:
            return address
    return ""


def _dotted(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def gateway_of(network: IPv4Network) -> str:
    return _dotted(int(network.network_address) + 1)


HEAD = (
    "# managed by the node agent of this pod\n"
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n"
)


def hosts_file(pod: Document, address: str, peers: str) -> str:
    """The pod's /etc/hosts: itself, everybody of its subdomain (as `peer_lines` has them), and its own aliases."""
    own = "" if pod["spec"].get("subdomain") else peer_lines([(pod, address)])
    aliases = "".join(
        "\t".join([alias["ip"], *alias.get("hostnames", [])]) + "\n"
        for alias in dig(pod, "spec", "hostAliases", default=[])
    )
    return HEAD + own + peers + aliases


def peer_lines(peers: Iterable[tuple[Document, str]]) -> str:
    """Every peer with its names, once as it is and once as a v4-mapped address.

    torch looks its clients up the second way, and without that line every look-up waits for a name server.
    """
    return "".join(_lines(address, names_of(peer)) for peer, address in peers)


def _lines(address: str, names: tuple[str, ...]) -> str:
    text = "\t".join(names)
    return f"{address}\t{text}\n::ffff:{address}\t{text}\n"


def peers_of(pod: Document, pods: Iterable[Document]) -> list[Document]:
    """The pods that share this pod's subdomain."""
    space, subdomain = namespace_of(pod), pod["spec"].get("subdomain")
    if not subdomain:
        return []
    return [p for p in pods if namespace_of(p) == space and p["spec"].get("subdomain") == subdomain]


def resolv_conf(pod: Document, server: str) -> str:
    """The pod's /etc/resolv.conf for its dnsPolicy; every policy ends at our own resolver."""
    config = dig(pod, "spec", "dnsConfig", default={})
    space = namespace_of(pod)
    searches = [] if dig(pod, "spec", "dnsPolicy") == "None" else [f"{space}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
    searches += config.get("searches") or []
    servers = ([server] if dig(pod, "spec", "dnsPolicy") != "None" else []) + (config.get("nameservers") or [])
    options = ["ndots:5", *(_option(entry) for entry in config.get("options") or [])]
    lines = [f"nameserver {address}" for address in servers]
    lines += [f"search {' '.join(searches)}"] if searches else []
    return "\n".join([*lines, f"options {' '.join(options)}", ""])


def _option(entry: Document) -> str:
    return f"{entry['name']}:{entry['value']}" if entry.get("value") else str(entry["name"])


@dataclass(frozen=True, slots=True)
class Person:
    """A user as /etc/passwd knows it."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str = "/bin/sh"


ROOT = Person("root", 0, 0, "/root", "/bin/bash")
# Accounts that programs of a distribution look for by name.
SYSTEM = (
    Person("daemon", 1, 1, "/usr/sbin", "/usr/sbin/nologin"),
    Person("bin", 2, 2, "/bin", "/usr/sbin/nologin"),
    Person("nobody", 65534, 65534, "/nonexistent", "/usr/sbin/nologin"),
)


@functools.lru_cache(maxsize=256)
def account_files(people: tuple[Person, ...], sshd: int) -> Mapping[str, tuple[str, int]]:
    """passwd, group and shadow from scratch: names of the host's accounts must not leak into a container."""
    # Where there is one user only (`sshd` is 0), there is one group only.
    system = [ROOT, *SYSTEM, Person("sshd", sshd, 65534 if sshd else 0, "/run/sshd", "/usr/sbin/nologin")]
    # Who shares his number with root comes first: that is the name he is called by.
    alike = [person for person in people if person.uid == 0]
    everyone = [*alike, *system, *(person for person in people if person.uid)]
    unique = list({person.name: person for person in everyone}.values())
    passwd = "".join(f"{p.name}:x:{p.uid}:{p.gid}:{p.name}:{p.home}:{p.shell}\n" for p in unique)
    groups = {0: "root", 5: "tty", 65534: "nogroup"} | {p.gid: p.name for p in unique if p.gid not in (0, 65534)}
    group = "".join(f"{name}:x:{gid}:\n" for gid, name in sorted(groups.items()))
    # "*" means no password; "!" would mean locked, and sshd refuses locked accounts.
    shadow = "".join(f"{p.name}:*:19000:0:99999:7:::\n" for p in unique)
    return {"passwd": (passwd, 0o644), "group": (group, 0o644), "shadow": (shadow, 0o640)}


def rewrite(text: str, names: Mapping[str, str]) -> str:
    """A value with every peer's name replaced by its address: for levels where no hosts file can be shown."""
    for name in sorted(names, key=len, reverse=True):
        if "." in name:
            text = text.replace(name, names[name])
    return text
