"""Reaching a cluster: the plane on this machine by default, any kubeconfig when told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from allaboard.kube.kubeconfig import connect, inside_a_pod
from allaboard.kube.remote import RemoteClient
from allaboard.sdk.home import Home


@dataclass(frozen=True, slots=True)
class Connection:
    """A client, and the namespace to assume where none is said."""

    client: RemoteClient
    namespace: str

    async def close(self) -> None:
        await self.client.transport.close()


def open_connection(kubeconfig: str = "", context: str = "", *, strict: bool = False) -> Connection:
    """`--kubeconfig` first, then the running plane of this machine, then KUBECONFIG, then the pod we may be in."""
    path = _kubeconfig(kubeconfig)
    if path is None:
        return Connection(RemoteClient(inside_a_pod(), strict=strict), "default")
    transport, namespace = connect(path, context)
    return Connection(RemoteClient(transport, strict=strict), namespace)


def _kubeconfig(given: str) -> Path | None:
    if given:
        return Path(given)
    home = Home.default()
    if home.running() is not None:
        return home.kubeconfig
    if os.environ.get("KUBECONFIG"):
        return Path(os.environ["KUBECONFIG"].split(os.pathsep)[0])
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    return home.kubeconfig
