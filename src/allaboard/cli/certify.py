"""`aboard certify`: a kubeconfig for another user of this plane, with a client certificate of its own authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from allaboard.api.errors import AboardError
from allaboard.kube.certificates import Pair, issue_client, kept
from allaboard.kube.kubeconfig import certified_kubeconfig
from allaboard.sdk.home import Home


@click.command("certify", help="Print a kubeconfig for USER, who shows a client certificate; roles say what it may do.")
@click.argument("user")
@click.option("--group", multiple=True, help="A group the user is in; repeat.")
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long it is good for.")
def command(user: str, group: tuple[str, ...], days: int) -> None:
    home = Home.default()
    running, authority = home.running(), kept(home.keys, "ca")
    if running is None or authority is None:
        raise AboardError("no plane runs here; start one with `aboard up --auth rbac`")
    click.echo(config_for(authority, running.server, issue_client(authority, user, group, _span(days))), nl=False)


def config_for(authority: Pair, server: str, pair: Pair) -> bytes:
    """A kubeconfig that shows this pair to the plane of this authority."""
    return certified_kubeconfig(server, authority.certificate, pair.certificate, pair.key)


def _span(days: int) -> tuple[datetime, timedelta]:
    return datetime.now(UTC), timedelta(days=days)
