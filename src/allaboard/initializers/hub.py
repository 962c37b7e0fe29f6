"""hf://owner/name[@revision]: data sets and models of a Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from allaboard.initializers import web
from allaboard.initializers.errors import FetchError
from allaboard.initializers.remote import Remote
from allaboard.initializers.settings import Settings

HUB = "https://huggingface.co"
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


def listing(settings: Settings) -> Iterator[Remote]:
    """Every file of the repository; large ones carry a sha-256, small ones git's own checksum."""
    repository, revision = _repository(settings)
    hub = settings.endpoint or HUB
    kind = "datasets" if settings.kind == "dataset" else "models"
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    page = f"{hub}/api/{kind}/{repository}/tree/{quote(revision, safe='')}?recursive=true"
    base = f"{hub}/datasets/{repository}" if kind == "datasets" else f"{hub}/{repository}"
    while page:
        entries, answer = web.get_json(page, headers)
        if not isinstance(entries, list):
            raise FetchError(f"{page.partition('?')[0]}: is no list of files; check the endpoint")
        for entry in entries:
            if entry.get("type") == "file":
                yield _remote(entry, f"{base}/resolve/{quote(revision, safe='')}", headers)
        page = _next(answer)


def _repository(settings: Settings) -> tuple[str, str]:
    path = settings.uri.partition("://")[2].strip("/")
    path, _, revision = path.partition("@")
    parts = [part for part in path.split("/") if part]
    if len(parts) < 2:
        raise FetchError(f'"{settings.uri}": names no repository; must be hf://owner/name')
    return "/".join(parts[:2]), revision or "main"


def _remote(entry: Mapping[str, object], base: str, headers: Mapping[str, str]) -> Remote:
    name, large = str(entry["path"]), entry.get("lfs")
    oid = str(large.get("oid") if isinstance(large, dict) else entry.get("oid") or "")
    size = large.get("size") if isinstance(large, dict) else entry.get("size")
    checksum = f"{'sha256' if isinstance(large, dict) else 'git'}:{oid.removeprefix('sha256:')}" if oid else ""
    size = size if isinstance(size, int) else None
    return Remote(name, f"{base}/{quote(name)}", size, oid, checksum, lambda: headers)


def _next(headers: Mapping[str, str]) -> str:
    link = next((value for name, value in headers.items() if name.lower() == "link"), "")
    found = _NEXT.search(link)
    return found[1] if found else ""
