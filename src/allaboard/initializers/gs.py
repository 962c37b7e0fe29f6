"""gs://bucket/prefix: objects of Google Cloud Storage."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode

from allaboard.initializers import web
from allaboard.initializers.errors import FetchError
from allaboard.initializers.remote import Remote
from allaboard.initializers.settings import Settings

CLOUD = "https://storage.googleapis.com"


def listing(settings: Settings) -> Iterator[Remote]:
    """Every object under the prefix; names are relative to it."""
    bucket, prefix = settings.parts.netloc, settings.parts.path.lstrip("/")
    if not bucket:
        raise FetchError(f'"{settings.uri}": names no bucket; must be gs://bucket/prefix')
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    base = f"{settings.endpoint or CLOUD}/storage/v1/b/{quote(bucket, safe='')}/o"
    token = ""
    while True:
        query = {"prefix": prefix, **({"pageToken": token} if token else {})}
        page, _ = web.get_json(f"{base}?{urlencode(query)}", headers)
        if not isinstance(page, dict):
            raise FetchError(f"{base}: is no list of objects; check the endpoint")
        for entry in page.get("items") or []:
            if not entry["name"].endswith("/"):
                yield _remote(entry, base, prefix, headers)
        token = page.get("nextPageToken") or ""
        if not token:
            return


def _remote(entry: Mapping[str, str], base: str, prefix: str, headers: Mapping[str, str]) -> Remote:
    key = entry["name"]
    name = key.removeprefix(prefix.rstrip("/")).lstrip("/") or key.rpartition("/")[2]
    checksum = f"md5:{base64.b64decode(entry['md5Hash']).hex()}" if entry.get("md5Hash") else ""
    url = f"{base}/{quote(key, safe='')}?alt=media"
    version = entry.get("generation") or entry.get("etag") or ""
    return Remote(name, url, int(entry.get("size") or 0), str(version), checksum, lambda: headers)
