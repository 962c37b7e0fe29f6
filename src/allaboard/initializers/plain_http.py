"""http(s)://host/path: one file, under its own name."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from allaboard.initializers.errors import FetchError
from allaboard.initializers.remote import Remote
from allaboard.initializers.settings import Settings


def listing(settings: Settings) -> Iterator[Remote]:
    name = unquote(settings.parts.path).rstrip("/").rpartition("/")[2]
    if not name:
        raise FetchError(f'"{settings.uri}": names no file; must be {settings.scheme}://host/path/file')
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    yield Remote(name, settings.uri, headers=lambda: headers)
