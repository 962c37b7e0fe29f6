"""Documents made from one template share their parts: what was made of a part need not be made again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
REMEMBERED = 16


def made_once(function: Callable[P, R], most: int = REMEMBERED) -> Callable[P, R]:
    """Remember, for a moment, what a pure function made of these very objects.

    Told by identity, which costs nothing: the pods of a Job are written one after the other and hold the same list
    of containers. It is right because a document is never changed after it was handed over. Keywords do not count:
    they are for what is chosen freely, and stays what was chosen first.
    """
    known: dict[tuple[int, ...], tuple[tuple[object, ...], R]] = {}

    @wraps(function)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
        key = tuple(map(id, args))
        found = known.get(key)
        if found is not None:  # its arguments are held, so that nothing else can have come to their places
            return found[1]
        if len(known) >= most:
            known.clear()
        made = function(*args, **kwargs)
        known[key] = (args, made)
        return made

    return remembering
