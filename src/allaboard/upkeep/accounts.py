"""Every living namespace has a service account named `default`, so that a pod always has someone to be."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, Key
from allaboard.api.kinds import NAMESPACE, SERVICE_ACCOUNT
from allaboard.api.meta import is_leaving, name_of, namespace_of
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch
from allaboard.kube.plan import NOTHING, Create, Plan

DEFAULT = "default"


def namespace_key(document: Document) -> Iterable[Key]:
    """The namespace a document lives in, as the key of that namespace."""
    return (Key("", namespace_of(document)),)


def decide(namespace: Document, account: Document | None) -> Plan:
    """Create the account where it is missing; a namespace on its way out gets nothing new."""
    if account is not None or is_leaving(namespace):
        return NOTHING
    metadata = {"name": DEFAULT, "namespace": name_of(namespace)}
    document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return Plan(create=(Create(SERVICE_ACCOUNT, document),))


class Accounts:
    """Keeps the `default` service account of every namespace."""

    name = "serviceaccount-controller"
    manager = "kube-controller-manager"
    watches = (Watch(NAMESPACE), Watch(SERVICE_ACCOUNT, namespace_key))

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock

    async def reconcile(self, key: Key) -> Plan:
        if (namespace := await self.reader.get(NAMESPACE, key)) is None:
            return NOTHING
        return decide(namespace, await self.reader.get(SERVICE_ACCOUNT, Key(key.name, DEFAULT)))
