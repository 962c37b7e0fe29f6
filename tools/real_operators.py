"""Upstream's JobSet and Trainer beside a real control plane: built from their Go modules, with their own definitions.

`python -m tools.real_operators build` compiles them (minutes, once). Their webhooks are reached by address, so that no
service and no certificate manager is needed.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml
from tools.real_cluster import RealCluster, cache, free_ports

from allaboard.kube.certificates import issue, keep, make_authority

READY_WITHIN = 120  # seconds


@dataclass(frozen=True)
class Operator:
    """One of them: its module, where in it the program and its definitions are, and how it is told what to do."""

    program: str
    module: str
    version: str
    package: str
    definitions: str
    webhooks: str
    group: str
    certificates: str  # the switch for managing certificates itself

    @property
    def source(self) -> Path:
        """The module's files, as Go keeps them."""
        root = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
        return Path(root) / f"{self.module}@{self.version}"

    def settings(self, webhook: int, health: int) -> Mapping[str, object]:
        return {
            "apiVersion": f"config.{self.group}/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"port": webhook, "host": "127.0.0.1"},
            "leaderElection": {"leaderElect": False},
            self.certificates: {"enable": False},
            "clientConnection": {"qps": 500, "burst": 1000},
        }


OPERATORS = (
    Operator(
        "jobset", "sigs.k8s.io/jobset", "v0.12.0", "", "config/components/crd/bases",
        "config/components/webhook/manifests.yaml", "jobset.x-k8s.io", "internalCertManagement",
    ),
    Operator(
        "trainer-controller-manager", "github.com/kubeflow/trainer/v2", "v2.3.0", "/cmd/trainer-controller-manager",
        "manifests/base/crds", "manifests/base/webhook/manifests.yaml", "trainer.kubeflow.org", "certManagement",
    ),
)  # fmt: skip


def are_built() -> bool:
    return all((cache() / operator.program).exists() and operator.source.exists() for operator in OPERATORS)


def why_not() -> str:
    return f"no JobSet and Trainer in {cache()}; run `python -m tools.real_operators build`"


def build() -> None:
    for operator in OPERATORS:
        print(f"building {operator.program}", file=sys.stderr, flush=True)
        package = f"{operator.module}{operator.package}@{operator.version}"
        subprocess.run(["go", "install", package], check=True, env={**os.environ, "GOBIN": str(cache())})


def start(real: RealCluster) -> list[subprocess.Popen[bytes]]:
    """All of them, each with its definitions and webhooks; they end with the cluster."""
    started = [_start(operator, real) for operator in OPERATORS]
    real.processes += started
    return started


def _start(operator: Operator, real: RealCluster) -> subprocess.Popen[bytes]:
    folder = real.folder / operator.program
    webhook, health = free_ports(2)
    authority = _certificates(folder)
    settings = folder / "config.yaml"
    settings.write_text(yaml.safe_dump(operator.settings(webhook, health)))
    for path in sorted((operator.source / operator.definitions).glob(f"{operator.group}_*.yaml")):
        _applied(real, path.read_text())
    real.kubectl("wait", "--for=condition=established", "crd", "--all")
    environment = {**os.environ, "KUBECONFIG": str(real.kubeconfig), "TMPDIR": str(folder), "NAMESPACE": "default"}
    with (folder / "log").open("wb") as log:
        command = [str(cache() / operator.program), f"--config={settings}"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    if not _is_ready(process, f"http://127.0.0.1:{health}/readyz"):
        raise RuntimeError((folder / "log").read_text())
    hooks = yaml.safe_load_all((operator.source / operator.webhooks).read_text())
    _applied(real, yaml.safe_dump_all(_reachable(operator, hook, webhook, authority) for hook in hooks))
    return process


def _certificates(folder: Path) -> str:
    """Where controller-runtime looks for them; the authority, as webhooks name it."""
    now, place = datetime.now(UTC), folder / "k8s-webhook-server" / "serving-certs"
    place.mkdir(parents=True)
    authority = make_authority("webhooks", now)
    keep(place, "ca", authority)
    keep(place, "tls", issue(authority, "webhooks", ["127.0.0.1"], now))
    return base64.b64encode((place / "ca.crt").read_bytes()).decode()


def _reachable(operator: Operator, hook: dict[str, object], port: int, authority: str) -> dict[str, object]:
    """A webhook configuration that names an address, and leaves pods alone that belong to no JobSet."""
    webhooks = []
    for webhook in hook["webhooks"]:
        url = f"https://127.0.0.1:{port}{webhook['clientConfig']['service']['path']}"
        webhook |= {"clientConfig": {"url": url, "caBundle": authority}}
        if "pods" in webhook["rules"][0]["resources"]:
            mine = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
            webhook |= {"objectSelector": {"matchExpressions": [mine]}}
        webhooks.append(webhook)
    metadata = {"name": f"{operator.program}-{hook['kind'].lower()}"}
    return {**hook, "metadata": metadata, "webhooks": webhooks}


def _applied(real: RealCluster, text: str) -> None:
    said = real.kubectl("apply", "--server-side", "-f", "-", document=text)
    if said.returncode:
        raise RuntimeError(said.stderr)


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    return False


if __name__ == "__main__":
    build()
