"""`aboard queue`: the tree of queues, each with what it deserves, may have and holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from allaboard.api.kinds import NODE, POD_GROUP, QUEUE
from allaboard.cli import load, screen, session
from allaboard.cli.session import Session
from allaboard.sdk.queues import RESOURCES, UNLIMITED, Branch, capacity, tree

BAR = 24


@click.command(
    "queue", help="The tree of queues: what each deserves, may have just now, holds, and how many jobs wait."
)
@click.option("--resource", type=click.Choice(RESOURCES), default=None, help="gpu where there are any, else cpu.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
@click.pass_context
def command(ctx: click.Context, resource: str | None, output: str) -> None:
    async def work(open_session: Session) -> tuple[list[Branch], float, str]:
        client = open_session.client
        nodes = await client.list(NODE)
        chosen = resource or ("gpu" if capacity(nodes, "gpu") else "cpu")
        shares = await load("allaboard.main.offline").fair_shares(client)
        branches = tree(await client.list(QUEUE), await client.list(POD_GROUP), shares, chosen)
        return branches, capacity(nodes, chosen), chosen

    branches, total, chosen = session.run(ctx, work)
    if output == "json":
        click.echo(json.dumps([asdict(branch) | {"state": branch.state} for branch in branches], indent=4))
        return
    if not branches:
        screen.say("no queues; `aboard apply -f queue.yaml` makes one")
        return
    screen.table(
        headers(chosen, total), [row(branch, branches[place + 1 :], total) for place, branch in enumerate(branches)]
    )


def headers(resource: str, total: float) -> tuple[str, ...]:
    unit = {"gpu": "GPU", "cpu": "CPU", "memory": "GI"}[resource]
    return ("QUEUE", f"{unit} DESERVED", "LIMIT", "SHARE", "USED", f"of {total:g}".ljust(BAR), "WAITING", "STATE")


def row(branch: Branch, after: Sequence[Branch], total: float) -> list[str]:
    share = "–" if branch.share is None else _number(branch.share)
    amounts = [_number(branch.deserved), _number(branch.limit), share, _number(branch.used)]
    return [_name(branch, after), *amounts, bar(branch, total), str(branch.waiting), branch.state]


def _name(branch: Branch, after: Sequence[Branch]) -> str:
    """Indented, with a corner on the last of its siblings."""
    if not branch.depth:
        return branch.name
    rest = [other.depth for other in after]
    until = next((i for i, depth in enumerate(rest) if depth < branch.depth), len(rest))
    mark = "├ " if branch.depth in rest[:until] else "└ "
    return "  " * (branch.depth - 1) + mark + branch.name


def bar(branch: Branch, total: float) -> str:
    """Full blocks for what is held, light ones for the fair share beyond it."""
    scale = BAR / total if total else 0.0
    used = min(BAR, round(branch.used * scale))
    share = min(BAR, round((branch.share or 0.0) * scale))
    return "█" * used + "░" * max(0, share - used)


def _number(amount: float) -> str:
    return "–" if amount == UNLIMITED else f"{round(amount, 2):g}"
