"""`aboard control --config`: upstream's configuration file, and which setting of ours each of its fields is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from allaboard.api.documents import Document, Key, dig
from allaboard.api.kinds import Kind
from allaboard.kube.controller import WORKERS
from allaboard.kube.leader import Candidate
from allaboard.kube.pacing import Pace
from allaboard.main.reception import Reception
from allaboard.main.settings import GATES
from allaboard.training import config, tls
from allaboard.training.config import BadConfiguration
from allaboard.training.facts import Settings as TrainingSettings

NAMESPACE = TrainingSettings().namespace
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where something is served; no port is nowhere."""

    host: str = "127.0.0.1"
    port: int | None = None
    secure: bool = False


@dataclass(frozen=True, slots=True)
class Post:
    """Where controllers work: which cluster, which of them, whether one of several leads, and who may look in."""

    kubeconfig: str
    context: str
    names: str | None = None
    admission: str | None = None
    plugins: tuple[str, ...] = ()  # of training, from outside, in the order they run
    elect: bool = True
    lease: Candidate = Candidate("", Key(NAMESPACE, "aboard-controllers"))  # noqa: RUF009 - frozen
    health: Endpoint = Endpoint()
    probes: tuple[str, str] = ("healthz", "readyz")
    metrics: Endpoint | None = None  # beside the probes where it is not said
    reception: Reception | None = None  # where hooks are served
    workers: Document = field(default_factory=dict)  # by kind and group
    pace: Pace | None = None
    gates: Document = field(default_factory=lambda: dict(GATES))
    install: bool = False
    verbose: bool = False

    def workers_of(self, kind: Kind) -> int:
        return int(self.workers.get(f"{kind.kind}.{kind.group}", WORKERS))


def read(path: str) -> Document:
    """The configuration in a file."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise BadConfiguration(f'configuration "{path}": {error.strerror}') from error
    return config.load(text)


def configured(post: Post, document: Document) -> Post:
    """The post as the file wants it; what the command line says of it is put in afterwards."""
    refuse_unsupported(document)
    health = document["health"]
    election = document.get("leaderElection") or {}
    return replace(
        post,
        elect=bool(election.get("leaderElect")),
        lease=_lease(election),
        health=_endpoint(health["healthProbeBindAddress"]),
        probes=(health["livenessEndpointName"], health["readinessEndpointName"]),
        metrics=_endpoint(document["metrics"]["bindAddress"], secure=document["metrics"]["secureServing"]),
        reception=_reception(document),
        workers=dig(document, "controller", "groupKindConcurrency", default={}),
        pace=Pace(*config.rates(document, 0, 1)),
        gates={**GATES, **(document.get("featureGates") or {})},
    )


def refuse_unsupported(document: Document) -> None:
    """What is asked for and would be ignored stops the start instead."""
    if not config.manages_certificates(document):
        raise BadConfiguration("configuration: certManagement.enable: false is not supported; leave it true")
    if dig(document, "metrics", "auth", "enabled"):
        raise BadConfiguration(
            "configuration: metrics.auth.enabled: true is not supported; bind metrics to loopback behind a proxy"
        )
    lock = dig(document, "leaderElection", "resourceLock", default="leases") or "leases"
    if lock != "leases":
        raise BadConfiguration(f'configuration: leaderElection.resourceLock: "{lock}" is not supported; must be leases')


def _lease(election: Document) -> Candidate:
    key = Key(election.get("resourceNamespace") or NAMESPACE, election.get("resourceName") or "aboard-controllers")
    usual = Candidate("", key)
    return Candidate(
        "",
        key,
        _span(election.get("leaseDuration"), usual.term),
        _span(election.get("renewDeadline"), usual.renew_before),
        _span(election.get("retryPeriod"), usual.ask_again),
    )


def _span(text: str | None, usual: timedelta) -> timedelta:
    """`1m30s` as Go writes durations."""
    if not text:
        return usual
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|h|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text:
        raise BadConfiguration(f'configuration: leaderElection: "{text}" is no duration; write it like 15s or 1m30s')
    return timedelta(seconds=sum(float(number) * UNITS[unit] for number, unit in parts))


def _endpoint(address: str, *, secure: bool = False) -> Endpoint:
    """`:8081`, `127.0.0.1:8081`, or `0` for nowhere."""
    if address == "0":
        return Endpoint()
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise BadConfiguration(f'configuration: "{address}" is no address; write it like :8081, or "0" for none')
    return Endpoint(host or "0.0.0.0", int(port), secure)


def _reception(document: Document) -> Reception:
    management, wishes = document["certManagement"], tls.options(document.get("tls"))
    return Reception(
        document["webhook"]["port"],
        host=document["webhook"].get("host") or "0.0.0.0",
        service=f"{NAMESPACE}/{management['webhookServiceName']}",
        secret=management["webhookSecretName"],
        reports=document["statusServer"]["port"],
        pace=Pace(*config.rates(document, 0, 1, "statusServer")),
        tls=wishes,
    )


def post_from(kubeconfig: str, context: str, options: Document) -> Post:
    """Defaults, then the file, then what the command line says."""
    post = Post(kubeconfig, context)
    if options.get("config"):
        post = configured(post, read(options["config"]))
    stated = {name: options[name] for name in ("admission", "install", "verbose")}
    stated["plugins"] = tuple(filter(None, str(options.get("plugins") or "").split(",")))
    if (elect := options.get("leader_elect")) is not None:
        stated["elect"] = elect
    if (port := options.get("health_port")) is not None:
        stated["health"] = Endpoint(port=port)
    return replace(post, names=options.get("controllers"), reception=_stated(post.reception, options), **stated)


def _stated(found: Reception | None, options: Document) -> Reception | None:
    """Where the command line wants the hooks; a URL or a Service it names takes the place of the file's."""
    port = options.get("webhook_port")
    url, service = (str(options.get(name) or "") for name in ("webhook_url", "webhook_service"))
    if port is not None:
        return replace(found or Reception(port), port=port, host=options["webhook_host"], url=url, service=service)
    return replace(found, url=url, service=service) if found and (url or service) else found
