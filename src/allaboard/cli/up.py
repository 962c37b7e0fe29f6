"""`aboard up`: start the embedded plane on this machine."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import click

from allaboard.cli import load, planes, screen
from allaboard.cli.serve import plane_options
from allaboard.sdk.home import Home


@click.command("up", help="Start the embedded plane on this machine; it stays until `aboard down`.")
@click.option("--port", type=int, default=7443, show_default=True, help="Where it listens on loopback; 0 picks one.")
@click.option("--feature-gates", default="", help="Name=true,Name=false …")
@plane_options
def command(**options: object) -> None:
    home = Home.default()
    running = home.running()
    if running is not None:
        nodes = f"{running.nodes} node{'s' if running.nodes != 1 else ''}"
        screen.good(f"a plane runs already: {running.server} since {running.started} ({nodes})")
        if options["nodes"] not in (1, running.nodes):
            screen.say(f"  `aboard down` first: --nodes {options['nodes']} counts when a plane starts")
        _how_to_reach(home)
        return
    began = time.monotonic()
    with ThreadPoolExecutor(1) as beside:  # what pods will share is found out while the plane starts
        findings = beside.submit(load("allaboard.main.offline").probe) if options["nodes"] else None
        running = planes.start(home, [word for name, value in options.items() for word in words_of(name, value)])
        screen.good(f"plane started on {running.server} in {screen.duration(time.monotonic() - began)}")
        if findings is not None:
            found = findings.result()
            screen.say(f"  pods run at level {found.level}; {found.not_isolated()} (see: aboard doctor)")
    if not asyncio.run(planes.nodes_are_ready(home, running)):
        raise planes.PlaneError(f"the plane runs, but its nodes are not ready; what they say: {home.logs / 'node.log'}")
    _how_to_reach(home)


def _how_to_reach(home: Home) -> None:
    screen.say(f"  kubectl --kubeconfig {home.kubeconfig} get trainjobs")
    screen.say("  aboard run hello · aboard ps · aboard down")


def words_of(name: str, value: object) -> list[str]:
    """An option as `aboard serve` takes it; one that may repeat becomes several."""
    values = value if isinstance(value, tuple) else (value,)
    return [f"--{name.replace('_', '-')}={each}" for each in values if each != ""]
