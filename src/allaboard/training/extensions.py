"""Plugins from outside: installed as entry points, chosen by name in the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from allaboard.api.errors import AboardError
from allaboard.points import Plugin, UnknownPoint, choose
from allaboard.training.framework import OURS, Framework

GROUP = "allaboard.training"


class BadExtension(AboardError):
    """A plugin that was asked for cannot be used; the start stops here."""

    exit_code = 2


def framework_with(names: Sequence[str], installed: Sequence[EntryPoint] | None = None) -> Framework:
    """Our plugins, then the named ones in this order; an unknown name or a wrong shape stops the start."""
    if not names:
        return OURS
    found = entry_points(group=GROUP) if installed is None else installed
    if not found:
        raise BadExtension(
            f'plugin "{names[0]}": none is installed; a package offers its own as entry points of "{GROUP}"'
        )
    try:
        chosen: list[EntryPoint] = choose(names, {point.name: point for point in found}, "configuration: plugins")
        return Framework([_made(point) for point in chosen])
    except (UnknownPoint, ValueError) as error:
        raise BadExtension(str(error)) from error


def _made(point: EntryPoint) -> Plugin:
    try:
        plugin: Plugin = point.load()()
    except Exception as error:  # whatever a stranger's module raises while it is loaded
        raise BadExtension(f'plugin "{point.name}": cannot be loaded from {point.value}: {error}') from error
    return plugin
