"""`aboard images`: which local environment stands for which image."""

from __future__ import annotations

import click

from allaboard.cli import load, screen
from allaboard.sdk.home import Home

OFFLINE = "allaboard.main.offline"


@click.group("images", invoke_without_command=True, help="Which local environment stands for which image.")
@click.pass_context
def command(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        ctx.invoke(show)


@command.command("list", help="Every profile, yours first; the first pattern that fits an image decides.")
def show() -> None:
    kept = load(OFFLINE).images(Home.default().images)
    own = len(kept.own())
    rows = [
        [p.name, "you" if place < own else "shipped", ", ".join(p.requirements) or p.python, " ".join(p.images)]
        for place, p in enumerate(kept.profiles())
    ]
    screen.table(("PROFILE", "FROM", "ENVIRONMENT", "IMAGES"), rows)


@command.command("add", help="Keep a profile: an interpreter, or requirements to build an environment from.")
@click.argument("name")
@click.option("--image", "images", multiple=True, required=True, help="A pattern such as 'team/trainer*'; may repeat.")
@click.option("--python", default="", help="The interpreter to use (default: the one that runs aboard).")
@click.option("--require", "requirements", multiple=True, help="A package to install; may repeat.")
@click.option("--env", "variables", multiple=True, help="NAME=VALUE; may repeat.")
def add(
    name: str, images: tuple[str, ...], python: str, requirements: tuple[str, ...], variables: tuple[str, ...]
) -> None:
    env = dict(entry.partition("=")[::2] for entry in variables)
    document = {"name": name, "images": list(images), "python": python, "requirements": list(requirements), "env": env}
    offline = load(OFFLINE)
    offline.images(Home.default().images).add(
        offline.read_profile({key: value for key, value in document.items() if value})
    )
    click.echo(f"image profile {name} kept")


@command.command("remove", help="Forget a profile of your own.")
@click.argument("name")
def remove(name: str) -> None:
    load(OFFLINE).images(Home.default().images).remove(name)
    click.echo(f"image profile {name} removed")
