"""What every command that talks to a cluster shares: the connection, the namespace, the warnings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from allaboard.api.documents import Key
from allaboard.api.kinds import Kind
from allaboard.kube.remote import RemoteClient
from allaboard.sdk.connection import Connection, open_connection

Result = TypeVar("Result")


class Session:
    """One command's view of one cluster."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.connection = connection
        self.namespace = namespace or connection.namespace

    @property
    def client(self) -> RemoteClient:
        return self.connection.client

    def key(self, kind: Kind, name: str) -> Key:
        return Key(self.namespace if kind.namespaced else "", name)

    def tell_warnings(self) -> None:
        """What the server said beside its answers goes to stderr, once each."""
        for warning in dict.fromkeys(self.client.warnings):
            click.echo(f"{click.style('warning:', fg='yellow')} {warning}", err=True)
        self.client.warnings.clear()


def run(ctx: click.Context, work: Callable[[Session], Awaitable[Result]]) -> Result:
    """Open a session as the global options say, do the work, close it."""
    options = ctx.find_root().obj

    async def whole() -> Result:
        connection = open_connection(options["kubeconfig"], options["context"], strict=True)
        session = Session(connection, options["namespace"])
        try:
            return await work(session)
        finally:
            session.tell_warnings()
            await connection.close()

    return asyncio.run(whole())
