"""Probes and lifecycle hooks: their defaults and what they may say."""

from __future__ import annotations

import re

from allaboard.api import names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
HTTP_DEFAULTS = {"path": "/", "scheme": "HTTP"}
PORT_RANGE = "must be between 1 and 65535, inclusive"
COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
HEADER = re.compile(r"[-A-Za-z0-9]+")
HEADER_WORDS = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
    "validation is '[-A-Za-z0-9]+')"
)
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def default_probe(probe: Document) -> Document:
    filled = {**PROBE_DEFAULTS, **{key: value for key, value in probe.items() if value or key not in PROBE_DEFAULTS}}
    if "grpc" in probe:
        filled["grpc"] = {"service": "", **probe["grpc"]}
    return default_handler(filled)


def default_handler(handler: Document) -> Document:
    get = handler.get("httpGet")
    return {**handler, "httpGet": {**HTTP_DEFAULTS, **get}} if get is not None else handler


def default_lifecycle(lifecycle: Document) -> Document:
    hooks: Document = {name: default_handler(lifecycle[name]) for name in ("postStart", "preStop") if name in lifecycle}
    return {**lifecycle, **hooks}


def container(ctr: Document, spec: Document, field: str) -> list[Cause]:
    """Every breach in the probes and hooks of a container that may have them."""
    grace, found = spec.get("terminationGracePeriodSeconds") or 0, list[Cause]()
    for name in PROBES:
        if (probe := ctr.get(name)) is not None:
            found += _probe(probe, name, f"{field}.{name}", grace)
    lifecycle = ctr.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            found += handler_causes(lifecycle[name], f"{field}.lifecycle.{name}", grace)
    return found


def _probe(probe: Document, name: str, field: str, grace: int) -> list[Cause]:
    found = handler_causes(probe, field, grace)
    for count in COUNTS:
        found += complaints.not_negative(f"{field}.{count}", probe.get(count))
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        found.append(complaints.invalid(f"{field}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))
    if name == "readinessProbe":
        if own_grace is not None:
            why = "must not be set for readinessProbes"
            found.append(complaints.invalid(f"{field}.terminationGracePeriodSeconds", own_grace, why))
    elif probe.get("successThreshold") != 1:
        found.append(complaints.invalid(f"{field}.successThreshold", probe.get("successThreshold", 0), "must be 1"))
    return found


def handler_causes(handler: Document, field: str, grace: int) -> list[Cause]:
    given = [name for name in HANDLERS if handler.get(name) is not None]
    if not given:
        return [complaints.required(field, "must specify a handler type")]
    found = _handler(given[0], handler[given[0]], f"{field}.{given[0]}", grace)
    more = "may not specify more than 1 handler type"
    return found + [complaints.forbidden(f"{field}.{name}", more) for name in given[1:]]


def _handler(name: str, action: Document, field: str, grace: int) -> list[Cause]:
    if name == "exec":
        return [] if action.get("command") else [complaints.required(f"{field}.command")]
    if name == "sleep":
        return _sleep(action.get("seconds", 0), field, grace)
    found = port_causes(action.get("port", 0), f"{field}.port")
    if name == "httpGet":
        if not action.get("path"):
            found.insert(0, complaints.required(f"{field}.path"))
        if action.get("scheme") not in ("HTTP", "HTTPS"):
            found.append(complaints.not_supported(f"{field}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
        for header in action.get("httpHeaders") or ():
            if not HEADER.fullmatch(header.get("name") or ""):
                found.append(complaints.invalid(f"{field}.httpHeaders", header.get("name") or "", HEADER_WORDS))
    return found


def _sleep(seconds: int, field: str, grace: int) -> list[Cause]:
    if 0 <= seconds <= grace:
        return []
    why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    return [complaints.invalid(field, seconds, why)]


def port_causes(port: object, field: str) -> list[Cause]:
    """A port given by number or by name."""
    if isinstance(port, int):
        return [] if 0 < port < 65536 else [complaints.invalid(field, port, PORT_RANGE)]
    return complaints.all_invalid(field, port, names.port_name(str(port)))
