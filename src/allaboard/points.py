"""Extension points: plugins are classes with a name and methods named after points; order is meaning."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Protocol


class Plugin(Protocol):
    """Anything with a name; its public methods are its answers at extension points."""

    name: str


class UnknownPoint(ValueError):
    """A plugin offers a method that nobody would ever call."""


Bound = dict[str, tuple[Callable[..., Any], ...]]


def bind(plugins: Sequence[Plugin], points: Iterable[str]) -> Bound:
    """Collect every plugin's methods per point, in the plugins' order; a method that is no point is refused."""
    known = tuple(points)
    for plugin in plugins:
        for method in _offers(type(plugin)):
            if method not in known:
                raise UnknownPoint(_objection(plugin, method, known))
    return {point: tuple(getattr(p, point) for p in plugins if hasattr(p, point)) for point in known}


def choose(names: Sequence[str], registry: dict[str, Any], what: str) -> list[Any]:
    """The registered things with these names, in this order; an unknown name stops the start."""
    for name in names:
        if name not in registry:
            raise ValueError(f'{what}: unknown plugin "{name}"{nearest(name, registry)}')
    return [registry[name] for name in names]


def nearest(word: str, words: Iterable[str]) -> str:
    """The remedy part of a message about a misspelt word."""
    close = difflib.get_close_matches(word, list(words), n=1)
    return f'; did you mean "{close[0]}"?' if close else f"; known: {', '.join(sorted(words))}"


@cache  # sessions bind their plugins every cycle, and a class does not change
def _offers(kind: type) -> tuple[str, ...]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return tuple(name for name, _ in methods if not name.startswith("_"))


def _objection(plugin: Plugin, method: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(method, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"points are: {', '.join(known)}"
    return f"plugin {plugin.name}: {method}() is not an extension point; {remedy}"
