"""s3://bucket/prefix: objects of Amazon S3 and everything that speaks like it, signed by ourselves."""

from __future__ import annotations

import hashlib
import hmac
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode, urlsplit

from allaboard.initializers import web
from allaboard.initializers.errors import FetchError
from allaboard.initializers.remote import Remote
from allaboard.initializers.settings import Settings

EMPTY = hashlib.sha256(b"").hexdigest()
ROLE_SECONDS = 3600


@dataclass(frozen=True)
class Keys:
    """Who signs, and where; without a key requests go out unsigned, for public buckets."""

    key: str = ""
    secret: str = ""
    session: str = ""
    region: str = "us-east-1"


@dataclass(frozen=True)
class Request:
    """What is signed: everything that must not change on the way."""

    method: str
    url: str
    body: str = EMPTY
    service: str = "s3"


def signed(request: Request, keys: Keys, now: datetime) -> dict[str, str]:
    """The headers of a request with AWS signature version 4."""
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    parts = urlsplit(request.url)
    headers = {"host": parts.netloc, "x-amz-content-sha256": request.body, "x-amz-date": stamp}
    if keys.session:
        headers["x-amz-security-token"] = keys.session
    if not keys.key:
        return {"x-amz-content-sha256": request.body}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    query = "&".join(sorted(parts.query.split("&"))) if parts.query else ""
    canonical = "\n".join((request.method, parts.path or "/", query, lines, names, request.body))
    scope = f"{stamp[:8]}/{keys.region}/{request.service}/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.new(_signing_key(keys, stamp[:8], request.service), text.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def _signing_key(keys: Keys, day: str, service: str) -> bytes:
    key = f"AWS4{keys.secret}".encode()
    for part in (day, keys.region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def listing(settings: Settings) -> Iterator[Remote]:
    """Every object under the prefix; names are relative to it."""
    bucket, prefix = settings.parts.netloc, settings.parts.path.lstrip("/")
    if not bucket:
        raise FetchError(f'"{settings.uri}": names no bucket; must be s3://bucket/prefix')
    keys, base = _keys(settings), f"{_endpoint(settings)}/{quote(bucket)}"
    token = ""
    while True:
        query = {"list-type": "2", "prefix": prefix, **({"continuation-token": token} if token else {})}
        url = f"{base}?{urlencode(sorted(query.items()), quote_via=quote)}"
        page = _xml(web.get_text(url, signed(Request("GET", url), keys, datetime.now(UTC))), url)
        yield from (_remote(entry, base, prefix, keys) for entry in page.iter("Contents") if _is_file(entry))
        token = page.findtext("NextContinuationToken") or ""
        if not token:
            return


def _is_file(entry: ET.Element) -> bool:
    return not (entry.findtext("Key") or "/").endswith("/")


def _remote(entry: ET.Element, base: str, prefix: str, keys: Keys) -> Remote:
    key, tag = entry.findtext("Key") or "", (entry.findtext("ETag") or "").strip('"')
    url = f"{base}/{quote(key, safe='/~')}"
    name = key.removeprefix(prefix.rstrip("/")).lstrip("/") or key.rpartition("/")[2]
    # The tag of an object that was uploaded in one piece is its md5; others have a dash in it.
    checksum = f"md5:{tag}" if len(tag) == 32 and "-" not in tag else ""
    size = int(entry.findtext("Size") or 0)
    return Remote(name, url, size, tag, checksum, lambda: signed(Request("GET", url), keys, datetime.now(UTC)))


def _xml(text: str, url: str) -> ET.Element:
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise FetchError(f"{url.partition('?')[0]}: the answer is no XML; check the endpoint") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _endpoint(settings: Settings) -> str:
    region = settings.region or "us-east-1"
    return settings.endpoint or f"https://s3.{region}.amazonaws.com"


def _keys(settings: Settings) -> Keys:
    region = settings.region if settings.region not in ("", "auto") else "us-east-1"
    keys = Keys(settings.key, settings.secret, settings.session, region)
    return _assumed(settings, keys) if settings.role else keys


def _assumed(settings: Settings, keys: Keys) -> Keys:
    """The keys of a role, lent for an hour."""
    query = {"Action": "AssumeRole", "DurationSeconds": str(ROLE_SECONDS), "RoleArn": settings.role}
    query |= {"RoleSessionName": "aboard-initializer", "Version": "2011-06-15"}
    url = settings.endpoint or f"https://sts.{keys.region}.amazonaws.com"
    body = urlencode(query).encode()
    request = Request("POST", f"{url}/", hashlib.sha256(body).hexdigest(), "sts")
    headers = {**signed(request, keys, datetime.now(UTC)), "Content-Type": "application/x-www-form-urlencoded"}
    answer = _xml(web.get_text(f"{url}/", headers, body), url)
    lent = {name: _lent(answer, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")}
    return Keys(lent["AccessKeyId"], lent["SecretAccessKey"], lent["SessionToken"], keys.region)


def _lent(answer: ET.Element, name: str) -> str:
    found = next(answer.iter(name), None)
    if found is None or not found.text:
        raise FetchError(f"ROLE_ARN: the answer to AssumeRole has no {name}; check the role's trust policy")
    return found.text
