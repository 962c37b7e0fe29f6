"""A function becomes a script: its source travels inside the job, with a last line that calls it."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Mapping

from allaboard.api.errors import AboardError

CALL = """

if __name__ == "__main__":
    import json

    {name}(**json.loads({arguments!r}))
"""


class NotEmbeddable(AboardError):
    """A function that cannot travel: the message says why and what to do."""

    exit_code = 6


def script_of(function: Callable[..., object], arguments: Mapping[str, object]) -> str:
    """The source of a function and a call of it; what it needs it must import itself."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise NotEmbeddable(f'"{name or function!r}" has no name to call it by; define it with def')
    free = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    if free:
        raise NotEmbeddable(f'{name}: uses "{min(free)}" of the function around it; pass it as an argument instead')
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise NotEmbeddable(f"{name}: its source cannot be found; put it into a file or a notebook cell") from error
    return _without_decorators(source) + CALL.format(name=name, arguments=_plain(name, arguments))


def _without_decorators(source: str) -> str:
    """From `def` on: decorators belong to where the function was defined."""
    lines = source.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith(("def ", "class "))), 0)
    return "\n".join(lines[start:])


def _plain(name: str, arguments: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(arguments))
    except TypeError as error:
        raise NotEmbeddable(
            f"{name}: arguments travel as JSON: {error}; pass texts, numbers, lists and dicts"
        ) from error
