"""Who lives where: addresses of pods, kept over restarts, and the hosts files that tell neighbours about each other."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

from allaboard.api.documents import Document
from allaboard.api.meta import uid_of
from allaboard.node import hosts
from allaboard.node.tenants import Tenant


class Neighbours:
    """The address book of this machine. `documents` and `tenants` are the agent's own, by uid."""

    def __init__(self, state: Path, documents: Mapping[str, Document], tenants: Mapping[str, Tenant]) -> None:
        self.state, self.documents, self.tenants = state, documents, tenants
        self.network = IPv4Network("127.0.0.0/8")
        self.book: dict[str, str] = {}

    def open(self, network: IPv4Network) -> None:
        self.network = network
        with contextlib.suppress(OSError, ValueError):
            book = json.loads((self.state / "addresses.json").read_text())
            self.book = {place: address for place, address in book.items() if _inside(address, network)}

    def settle(self, pod: Document) -> str:
        """The pod's address: what its job and index had before, else a new one; "" when there is none left."""
        place = str(hosts.place_of(pod))
        if place not in self.book:
            address = hosts.allot(self.book, hosts.place_of(pod), self.network)
            if not address:
                return ""
            self.book[place] = address
            self._remember()
        return self.book[place]

    def leave(self, pod: Document) -> None:
        """An address that belonged to one pod alone is free again; one of a job's index is kept for its return."""
        place = hosts.place_of(pod)
        if not place.subdomain:
            self.book.pop(str(place), None)

    def _remember(self) -> None:
        path = self.state / "addresses.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(self.book))
        os.replace(fresh, path)

    def peers(self, pod: Document) -> list[tuple[Document, str]]:
        """The pod and everybody of its subdomain; who has no address yet is given one, so names are known early."""
        found = [pod, *hosts.peers_of(pod, self.documents.values())]
        return [(peer, address) for peer in found if (address := self.settle(peer))]

    def names(self, pod: Document) -> dict[str, str]:
        """Every name of every peer with its address."""
        return {name: address for peer, address in self.peers(pod) for name in hosts.names_of(peer)}

    def write_hosts(self, tenant: Tenant) -> None:
        """Written in place: containers see the same file."""
        text = hosts.hosts_file(tenant.document, tenant.address, self.peers(tenant.document))
        path = tenant.place / "hosts"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            path.chmod(0o644)

    def tell(self, pod: Document) -> None:
        """A newcomer is told to those who are already there."""
        for peer in hosts.peers_of(pod, self.documents.values()):
            other = self.tenants.get(uid_of(peer))
            if other is not None and other.address and uid_of(peer) != uid_of(pod):
                self.write_hosts(other)


def _inside(address: str, network: IPv4Network) -> bool:
    return address.startswith(str(network.network_address).removesuffix(".0.0") + ".")
