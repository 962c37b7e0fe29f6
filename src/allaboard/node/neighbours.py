"""Who lives where: addresses of pods, kept over restarts, and the hosts files that tell neighbours about each other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.api.meta import namespace_of, uid_of
from allaboard.node import hosts, records
from allaboard.node.tenants import Tenant

GATHERING = 0.02  # seconds in which those who come together are counted as one arrival


class Neighbours:
    """The address book of this machine. `documents` and `tenants` are the agent's own, by uid."""

    def __init__(self, state: Path, documents: Mapping[str, Document], tenants: Mapping[str, Tenant]) -> None:
        self.state, self.documents, self.tenants = state, documents, tenants
        self.network, self.volatile = IPv4Network("127.0.0.0/8"), state
        self.book: dict[str, str] = {}
        self._pen = -1  # writes into the book
        self._news: dict[str, Document] = {}  # by group, one pod of it
        self._told = asyncio.Event()

    def open(self, network: IPv4Network, volatile: Path) -> None:
        """Read the book (one line per entry, the last one counts), and begin a clean copy."""
        self.network, self.volatile = network, volatile
        for line in records.whole_lines(self.state / "addresses"):
            place, _, address = line.partition("\t")
            if address and _inside(address, network):
                self.book[place] = address
        lines = "".join(f"{place}\t{address}\n" for place, address in self.book.items())
        records.replace(self.state / "addresses", lines)
        self._pen = os.open(self.state / "addresses", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def close(self) -> None:
        if self._pen >= 0:
            os.close(self._pen)
            self._pen = -1

    def settle(self, pod: Document) -> str:
        """The pod's address: what its job and index had before, else a new one; "" when there is none left."""
        return self._settle(pod)

    def moved_in(self, tenant: Tenant) -> None:
        """A pod found after a restart keeps its address, whatever the book says."""
        if tenant.address:
            self.book[str(hosts.place_of(tenant.document))] = tenant.address

    def _settle(self, pod: Document) -> str:
        place = str(hosts.place_of(pod))
        if place not in self.book:
            address = hosts.allot(self.book, hosts.place_of(pod), self.network)
            if not address:
                return ""
            self.book[place] = address
            os.write(self._pen, f"{place}\t{address}\n".encode())
        return self.book[place]

    def leave(self, pod: Document) -> None:
        """An address that belonged to one pod alone is free again; one of a job's index is kept for its return."""
        place = hosts.place_of(pod)
        if not place.subdomain:
            self.book.pop(str(place), None)

    def peers(self, pod: Document) -> list[tuple[Document, str]]:
        """The pod and everybody of its subdomain; who has no address yet is given one, so names are known early."""
        found = {uid_of(peer): peer for peer in (pod, *hosts.peers_of(pod, self.documents.values()))}
        return [(peer, address) for peer in found.values() if (address := self._settle(peer))]

    def names(self, pod: Document) -> dict[str, str]:
        """Every name of every peer with its address."""
        return {name: address for peer, address in self.peers(pod) for name in hosts.names_of(peer)}

    def hosts_of(self, tenant: Tenant) -> Path:
        """Where a pod's hosts file is; no volume has a name with a dot."""
        return self.volatile / tenant.uid / "etc.hosts"

    def write_hosts(self, tenant: Tenant) -> None:
        """The pod's hosts file, as its neighbourhood is now."""
        self._write(tenant, hosts.peer_lines(self.peers(tenant.document)) if _group(tenant.document) else "")

    def _write(self, tenant: Tenant, lines: str) -> None:
        """In place: containers see the same file."""
        text = hosts.hosts_file(tenant.document, tenant.address, lines)
        path = self.hosts_of(tenant)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with open(descriptor, "r+b", buffering=0) as file:
            if file.read() != text.encode():
                os.fchmod(descriptor, 0o644)
                os.pwrite(descriptor, text.encode(), 0)
                os.ftruncate(descriptor, len(text.encode()))

    def notice(self, pod: Document) -> None:
        """Somebody is new; those who share a subdomain will be told together."""
        if _group(pod):
            self._news[_group(pod)] = pod
            self._told.set()

    async def run(self) -> None:
        """Tell neighbours about newcomers; a gang that arrives together is told once."""
        while True:
            await self._told.wait()
            await asyncio.sleep(GATHERING)
            self._told.clear()
            news, self._news = self._news, {}
            for pod in news.values():
                peers = self.peers(pod)
                lines = hosts.peer_lines(peers)
                for uid in {uid_of(peer) for peer, _ in peers}:
                    tenant = self.tenants.get(uid)
                    if tenant is not None and tenant.address:
                        self._write(tenant, lines)


def _group(pod: Document) -> str:
    """What neighbours share: namespace and subdomain; "" for a pod that lives alone."""
    subdomain = pod["spec"].get("subdomain", "")
    return f"{namespace_of(pod)}/{subdomain}" if subdomain else ""


def _inside(address: str, network: IPv4Network) -> bool:
    try:
        return IPv4Address(address) in network
    except ValueError:
        return False
