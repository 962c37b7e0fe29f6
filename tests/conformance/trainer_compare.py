"""Comparing with the recordings of the real Trainer, by the rules its README states."""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_public_key

from allaboard.api.quantity import BadQuantity, parse

QUANTITIES = ("requests", "limits", "minResources", "overhead", "singlePodRequests")
SETS = {
    "env": lambda e: e.get("name"),
    "volumes": lambda e: e.get("name"),
    "volumeMounts": lambda e: e.get("mountPath"),
    "ports": lambda e: (e.get("containerPort"), e.get("protocol") or "TCP"),
    "claims": lambda e: e.get("name"),
}
PRIVATE = '<generated: PEM "EC PRIVATE KEY", ECDSA P-521>'
PUBLIC = "<generated: authorized_keys line, ecdsa-sha2-nistp521>"


def normal(value: Any, name: str = "") -> Any:
    """Without what is empty, quantities as numbers, sets in the order of their keys."""
    if isinstance(value, dict):
        if name in QUANTITIES:
            value = {key: _quantity(amount) for key, amount in value.items()}
        kept = {key: normal(item, key) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item != {} and item != []}
    if isinstance(value, list):
        items = [normal(item) for item in value]
        if name in SETS and all(isinstance(item, dict) for item in items):
            items.sort(key=lambda item: str(SETS[name](item)))
        return items
    return _quantity(value) if name == "divisor" else value


def _quantity(amount: Any) -> Any:
    try:
        return f"{parse(amount).nanos}n"
    except BadQuantity:
        return amount


def differences(want: Any, got: Any, path: str = "") -> Iterator[str]:
    """Where two normal values differ, as sentences."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted({*want, *got}, key=str):
            yield from differences(want.get(key), got.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (left, right) in enumerate(zip(want, got)):
            yield from differences(left, right, f"{path}[{_label(left, index)}]")
    elif want != got:
        yield f"{path}: want {_short(want)}, got {_short(got)}"


def _label(item: Any, index: int) -> str:
    return str(item["name"]) if isinstance(item, dict) and isinstance(item.get("name"), str) else str(index)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "…"


def objects(documents: list[Any]) -> dict[str, Any]:
    """Objects as a set: by apiVersion, kind and name."""
    return {f"{d['apiVersion']} {d['kind']} {d['metadata'].get('name')}": normal(_known(d)) for d in documents}


def _known(document: Any) -> Any:
    """Generated keys become marks once their kind is proven; Flux scripts become the facts in them."""
    if document["kind"] == "Secret" and "ssh-privatekey" in document.get("data", {}):
        return {**document, "data": _keys(document["data"])}
    if document["kind"] == "ConfigMap" and "init.sh" in document.get("data", {}) and "facts" not in document:
        scripts = document["data"]
        marks = dict.fromkeys(scripts, "<script>")
        return {**document, "data": marks, "facts": _facts(scripts)}
    return document


def _keys(data: dict[str, str]) -> dict[str, str]:
    if data["ssh-privatekey"].startswith("<generated"):
        return data
    private = load_pem_private_key(base64.b64decode(data["ssh-privatekey"]), None)
    public = load_ssh_public_key(base64.b64decode(data["ssh-publickey"]))
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(private.curve, ec.SECP521R1)
    assert private.public_key().public_numbers() == public.public_numbers()
    assert base64.b64decode(data["ssh-privatekey"]).startswith(b"-----BEGIN EC PRIVATE KEY-----")
    return {"ssh-privatekey": PRIVATE, "ssh-publickey": PUBLIC}


def _facts(scripts: dict[str, str]) -> dict[str, Any]:
    entry, init = scripts["entrypoint.sh"], scripts["init.sh"]

    def found(pattern: str, text: str) -> str:
        match = re.search(pattern, text, re.MULTILINE)
        return match[1] if match else ""

    return {
        "entrypoint.sh": {
            "flags": found(r"^flags='(.*)'$", entry),
            "leadHost": found(r"^lead='(.*)'$", entry),
            "resources": found(r"^resources='(.*)'$", entry),
        },
        "init.sh": {
            "bind": found(r'^default_bind = "(.*)"$', init),
            "brokerHost": found(r'host = "(.*)" \}', init),
            "connect": found(r'^default_connect = "(.*)"$', init),
            "hostlist": found(r"^hosts='(.*)'$", init),
            "port": found(r"^default_port = (\d+)$", init),
            "queuePolicy": found(r'^queue-policy = "(.*)"$', init),
        },
    }


def rows(errors: Any) -> list[tuple[str, str]]:
    """Error rows as a set: type and field are the contract."""
    return sorted({(e["type"], (e.get("field") or "").lower()) for e in errors or []})


def lookup(value: Any, path: list[Any]) -> Any:
    """The value at an expectation's path; a dictionary selects a list's element."""
    for step in path:
        if value is None:
            return None
        if isinstance(step, dict):
            value = next((e for e in value if all(e.get(k) == v for k, v in step.items())), None)
        elif isinstance(value, list):
            value = value[step] if step < len(value) else None
        else:
            value = value.get(step)
    return value


def with_expectations(actual: Any, expectations: list[Any]) -> Any:
    """The recorded answer with what is right put in; `differs` is dropped from both sides by the caller."""
    better = copy.deepcopy(actual)
    for expectation in expectations:
        *parent, last = expectation["path"]
        place = lookup(better, parent)
        if place is None:
            continue
        if expectation.get("absent"):
            _remove(place, last)
        elif "value" in expectation:
            _put(place, last, expectation["value"])
    return better


def _remove(place: Any, last: Any) -> None:
    if isinstance(last, dict):
        place[:] = [e for e in place if not all(e.get(k) == v for k, v in last.items())]
    else:
        place.pop(last, None)


def _put(place: Any, last: Any, value: Any) -> None:
    if isinstance(last, dict):
        for index, element in enumerate(place):
            if all(element.get(k) == v for k, v in last.items()):
                place[index] = value
    else:
        place[last] = value
