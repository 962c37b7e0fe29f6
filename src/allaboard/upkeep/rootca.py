"""Every living namespace has the authority that signed the API server's certificate, for pods to trust."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, Key, dig, replace
from allaboard.api.kinds import CONFIG_MAP, NAMESPACE
from allaboard.api.meta import annotations_of, is_leaving, name_of, namespace_of
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch
from allaboard.kube.plan import NOTHING, Create, Plan, Update

NAME = "kube-root-ca.crt"
NOTE = "kubernetes.io/description"
# The words are the API's, not ours: clients and recordings compare them.
WORDS = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as "
    "the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of "
    "Kubernetes clusters."
)


def bundle_key(document: Document) -> Iterable[Key]:
    """The namespace of a published bundle; other config maps wake nobody."""
    return (Key("", namespace_of(document)),) if name_of(document) == NAME else ()


def decide(namespace: Document, bundle: Document | None, certificate: str) -> Plan:
    """Publish the bundle, and put it back when somebody changed it."""
    if is_leaving(namespace):
        return NOTHING
    if bundle is None:
        metadata = {"name": NAME, "namespace": name_of(namespace), "annotations": {NOTE: WORDS}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca.crt": certificate}}
        return Plan(create=(Create(CONFIG_MAP, body),))
    if dig(bundle, "data") == {"ca.crt": certificate} and annotations_of(bundle).get(NOTE) == WORDS:
        return NOTHING
    noted = replace(bundle, "metadata", "annotations", NOTE, value=WORDS)
    return Plan(update=(Update(CONFIG_MAP, replace(noted, "data", value={"ca.crt": certificate})),))


class RootCa:
    """Publishes one certificate authority (PEM text) into every namespace."""

    name = "root-ca-certificate-publisher-controller"
    manager = "kube-controller-manager"
    watches = (Watch(NAMESPACE), Watch(CONFIG_MAP, bundle_key))

    def __init__(self, reader: Reader, clock: Clock, certificate: str) -> None:
        self.reader, self.clock, self.certificate = reader, clock, certificate

    async def reconcile(self, key: Key) -> Plan:
        if (namespace := await self.reader.get(NAMESPACE, key)) is None:
            return NOTHING
        return decide(namespace, await self.reader.get(CONFIG_MAP, Key(key.name, NAME)), self.certificate)
