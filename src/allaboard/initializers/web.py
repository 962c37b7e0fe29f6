"""HTTP for programs that must not give up early: retries with growing pauses; a token stays with its host."""

from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPResponse
from typing import TypeVar
from urllib.parse import urlsplit

from allaboard.initializers.errors import FetchError, TryAgain

T = TypeVar("T")

ATTEMPTS = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
TIMEOUT = 60.0
PASSING = (408, 425, 429, 500, 502, 503, 504)


class _Careful(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but shows a token only to the host it was meant for."""

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> urllib.request.Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        if new is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            new.headers.pop("Authorization", None)
        return new


_opener = urllib.request.build_opener(_Careful)


def ask(url: str, headers: Mapping[str, str] | None = None, data: bytes | None = None) -> HTTPResponse:
    """One answer, as a stream; a refusal is an error that says whether another try may help."""
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}))
    try:
        return _opener.open(request, timeout=TIMEOUT)  # type: ignore[no-any-return]
    except urllib.error.HTTPError as error:
        words = _refusal(url, error.code)
        raise (TryAgain if error.code in PASSING else FetchError)(words) from error
    except (OSError, HTTPException) as error:
        raise TryAgain(f"{_shown(url)}: {getattr(error, 'reason', error)}") from error


def _refusal(url: str, code: int) -> str:
    remedies = {
        401: "; give the initializer a secretRef with ACCESS_TOKEN",
        403: "; the token or key may not read this",
        404: "; check the storageUri",
    }
    return f"{_shown(url)}: the server answered {code}{remedies.get(code, '')}"


def _shown(url: str) -> str:
    """The address without a query, which may hold a signature."""
    return url.partition("?")[0]


def persist(step: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """The step's result, however often it must be tried."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return step()
        except TryAgain as error:
            if attempt == ATTEMPTS:
                raise FetchError(f"{error} ({ATTEMPTS} tries)") from error
            pause(min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE) * (0.5 + random.random()))
    raise AssertionError("the last try returns or raises")


def get_json(url: str, headers: Mapping[str, str] | None = None) -> tuple[object, Mapping[str, str]]:
    """A JSON answer and its headers."""

    def step() -> tuple[object, Mapping[str, str]]:
        with ask(url, headers) as answer:
            try:
                return json.loads(answer.read()), dict(answer.headers)
            except ValueError as error:
                raise FetchError(f"{_shown(url)}: the answer is no JSON; check the endpoint") from error

    return persist(step)


def get_text(url: str, headers: Mapping[str, str] | None = None, data: bytes | None = None) -> str:
    def step() -> str:
        with ask(url, headers, data) as answer:
            return answer.read().decode()

    return persist(step)
