"""The configuration file: every setting with its default, read strictly and checked as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from allaboard.api.documents import Document, dig
from allaboard.api.errors import AboardError, Cause
from allaboard.points import nearest
from allaboard.training.problems import invalid, told

API_VERSION, KIND = "config.trainer.kubeflow.org/v1alpha1", "Configuration"
LARGEST_PORT = 65_535

# Every field of the file; what stands here is its default, None is a field without one.
FIELDS: Document = {
    "webhook": {"port": 9443, "host": None},
    "metrics": {"bindAddress": ":8443", "secureServing": True, "auth": {"enabled": False}},
    "health": {
        "healthProbeBindAddress": ":8081",
        "readinessEndpointName": "readyz",
        "livenessEndpointName": "healthz",
    },
    "leaderElection": None,
    "controller": None,
    "certManagement": {
        "enable": True,
        "webhookServiceName": "kubeflow-trainer-controller-manager",
        "webhookSecretName": "kubeflow-trainer-webhook-cert",
    },
    "clientConnection": {"qps": 50, "burst": 100},
    "statusServer": {"port": 10443, "qps": 5, "burst": 10},
    "featureGates": None,
    "tls": None,
}
# Members of the parts that are absent by default.
OPTIONAL = {
    "leaderElection": (
        "leaderElect", "leaseDuration", "renewDeadline", "retryPeriod", "resourceLock", "resourceName",
        "resourceNamespace",
    ),
    "controller": ("groupKindConcurrency",),
    "tls": ("minVersion", "cipherSuites", "nextProtos"),
}  # fmt: skip
GATES = ("TrainJobStatus",)


class BadConfiguration(AboardError):
    """The file cannot be used; the message says where and why."""

    exit_code = 2


def load(text: str | None) -> Document:
    """The configuration a file holds; without one, all defaults."""
    if text is None:
        return with_defaults({}, FIELDS)
    document = _parsed(text)
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        found = f"{document.get('apiVersion')} {document.get('kind')}"
        raise BadConfiguration(f'configuration: "{found}" is not known; must be {API_VERSION} {KIND}')
    if unknown := list(_unknown(document)):
        raise BadConfiguration(f"configuration: {', '.join(unknown)}")
    full = {"apiVersion": API_VERSION, "kind": KIND, **with_defaults(document, FIELDS)}
    if causes := list(problems(full)):
        raise BadConfiguration(f"configuration: {told(causes)}")
    return full


def _parsed(text: str) -> Document:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadConfiguration(f"configuration: {error}") from error
    if not isinstance(document, dict):
        raise BadConfiguration("configuration: must be a mapping")
    return document


def with_defaults(document: Document, fields: Document) -> Document:
    """The document with every default it leaves out."""
    found: Document = {}
    for name, default in fields.items():
        given = document.get(name)
        if isinstance(default, dict):
            found[name] = with_defaults(given or {}, default)
        elif given is not None or default is not None:
            found[name] = default if given is None else given
    return found


def _unknown(document: Document) -> Iterable[str]:
    """Fields nobody reads: a misspelt setting must not look like a set one."""
    for name, value in document.items():
        if name in ("apiVersion", "kind"):
            continue
        if name not in FIELDS:
            yield f'unknown field "{name}"{nearest(name, FIELDS)}'
            continue
        known = OPTIONAL.get(name) or tuple(FIELDS[name] or ())
        for member in value if isinstance(value, dict) and known else ():
            if member not in known:
                yield f'unknown field "{name}.{member}"{nearest(member, known)}'


def problems(configuration: Document) -> Iterable[Cause]:
    """Everything out of bounds."""
    for part in ("webhook", "statusServer"):
        port = dig(configuration, part, "port")
        if port is not None and not 1 <= port <= LARGEST_PORT:
            yield invalid(f"{part}.port", port, f"must be between 1 and {LARGEST_PORT}")
    for part in ("clientConnection", "statusServer"):
        for member in ("qps", "burst"):
            rate = dig(configuration, part, member)
            if rate is not None and rate < 0:
                yield invalid(f"{part}.{member}", rate, "must be greater than or equal to 0")
    workers: Document = dig(configuration, "controller", "groupKindConcurrency", default={})
    for kind, count in workers.items():
        if count < 1:
            yield invalid(f"controller.groupKindConcurrency[{kind}]", count, "must be greater than 0")
    gates: Document = dig(configuration, "featureGates", default={})
    for gate in gates:
        if gate not in GATES:
            yield invalid(f"featureGates[{gate}]", gates[gate], f"unknown feature gate{nearest(gate, GATES)}")


def workers(configuration: Document, group_kind: str) -> int | None:
    """How many workers a kind's controller gets; None leaves it to the loop (defect 11: it is really used)."""
    found: int | None = dig(configuration, "controller", "groupKindConcurrency", group_kind)
    return found


def manages_certificates(configuration: Document) -> bool:
    return bool(dig(configuration, "certManagement", "enable", default=True))


def rates(configuration: Document, qps: float, burst: int, part: str = "clientConnection") -> tuple[float, int]:
    """The limits of a client, that of all controllers or the status server's: those of the file, else those it has."""
    return dig(configuration, part, "qps", default=qps), dig(configuration, part, "burst", default=burst)
