"""Secret: what each type of secret must hold, and what it may never change into."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import datetime

from allaboard.api import kinds, names
from allaboard.api.documents import Document, without
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import shown
from allaboard.cluster.kinds.configmap import DATA, LIMIT, settled
from allaboard.cluster.kinds.shown import column
from allaboard.cluster.rules import Rules, built_in

TYPE = "kubernetes.io/"
TOKEN, BASIC, SSH, TLS = f"{TYPE}service-account-token", f"{TYPE}basic-auth", f"{TYPE}ssh-auth", f"{TYPE}tls"
DOCKER = {f"{TYPE}dockercfg": ".dockercfg", f"{TYPE}dockerconfigjson": ".dockerconfigjson"}
ACCOUNT = "kubernetes.io/service-account.name"


def default(secret: Document) -> Document:
    """Plain text is encoded, and a secret of no type is opaque."""
    filled = {"type": "Opaque", **secret}
    if plain := secret.get("stringData"):
        encoded = {key: b64encode(value.encode()).decode() for key, value in plain.items()}
        filled["data"] = {**(secret.get("data") or {}), **encoded}
    return without(filled, "stringData")


def check(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    found = complaints.immutable("type", new.get("type"), old.get("type")) if old is not None else []
    data, size = new.get("data") or {}, 0
    for key, value in data.items():
        found += complaints.all_invalid(f"data[{key}]", key, names.config_key(key))
        size += len(value or "") * 3 // 4
    if size > LIMIT:
        found.append(complaints.too_long("data", LIMIT))
    found += _typed(new, data)
    return found if old is None else found + settled(new, old, ("data",))


def _typed(secret: Document, data: Document) -> list[Cause]:
    kind = secret.get("type")
    if kind == TOKEN and not (secret["metadata"].get("annotations") or {}).get(ACCOUNT):
        return [complaints.required(f"metadata.annotations[{ACCOUNT}]")]
    if kind in DOCKER:
        return _docker(data, DOCKER[kind])
    if kind == BASIC and "username" not in data and "password" not in data:
        return [complaints.required("data[username]"), complaints.required("data[password]")]
    if kind == SSH and not data.get("ssh-privatekey"):
        return [complaints.required("data[ssh-privatekey]")]
    if kind == TLS:
        return [complaints.required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _docker(data: Document, key: str) -> list[Cause]:
    if key not in data:
        return [complaints.required(f"data[{key}]")]
    text = _decoded(data[key])
    try:
        json.loads(text)
    except ValueError:
        why = "unexpected end of JSON input"
        if text.strip():
            why = f"invalid character '{text.strip()[0]}' looking for beginning of value"
        return [complaints.invalid(f"data[{key}]", "<secret contents redacted>", why)]
    return []


def _decoded(value: str) -> str:
    try:
        return b64decode(value).decode(errors="replace")
    except binascii.Error:
        return ""


def warnings(new: Document, old: Document | None) -> list[str]:
    if new.get("type") != TLS or "BEGIN CERTIFICATE" in _decoded((new.get("data") or {}).get("tls.crt") or ""):
        return []
    return ["tls: failed to find any PEM data in certificate input"]


def row(secret: Document, now: datetime) -> list[object]:
    return [shown.name_of(secret), secret.get("type", ""), len(secret.get("data") or {}), shown.age_of(secret, now)]


def _type(secret: Document) -> str:
    return str(secret.get("type", ""))


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.SECRET),
        default=default,
        check=check,
        warnings=warnings,
        fields={"type": _type},
        columns=(
            shown.NAME,
            column("Type", "What the secret holds, so that programs know which entries they will find inside it."),
            DATA,
            shown.AGE,
        ),
        row=row,
    ),
)
