"""A real Kubernetes control plane on loopback, for `make test-real`: etcd, kube-apiserver, kube-controller-manager.

`python -m tools.real_cluster build` compiles the programs from their Go modules into a cache folder (some minutes,
once); `up FOLDER` starts a plane and prints its kubeconfig, `down FOLDER` ends it. `KUBE_BIN` names a folder that has
the programs already.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from allaboard.kube.certificates import issue, keep, make_authority, write_private

KUBERNETES, ETCD = "v1.36.3", "v3.7.3"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
# What a plain cluster runs for the objects we touch; its scheduler is ours.
CONTROLLERS = (
    "namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller", "garbage-collector-controller", "job-controller",
    "endpointslice-controller", "endpoints-controller", "clusterrole-aggregation-controller",
    "ttl-after-finished-controller", "resourcequota-controller", "persistentvolumeclaim-protection-controller",
    "cronjob-controller",
)  # fmt: skip
TOKENS = 'admin-token,admin,admin,"system:masters"\nuser-token,alice,alice,"developers"\n'


def cache() -> Path:
    """Where programs built here are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "allaboard" / f"kube-{KUBERNETES}"


def binaries() -> Path | None:
    """The folder with every program, if there is one."""
    named = os.environ.get("KUBE_BIN")
    folder = Path(named) if named else cache()
    return folder if all((folder / program).exists() for program in PROGRAMS) else None


def why_not() -> str:
    """Why there is no real cluster here, and what to do about it."""
    named = os.environ.get("KUBE_BIN")
    if named:
        lacking = [program for program in PROGRAMS if not (Path(named) / program).exists()]
        return f'KUBE_BIN: "{named}" lacks {", ".join(lacking)}; name a folder that has {", ".join(PROGRAMS)}'
    how = "run `python -m tools.real_cluster build`" if shutil.which("go") else "install Go 1.26 and build them"
    return f"no kube-apiserver: KUBE_BIN is not set and {cache()} is empty; {how}, or set KUBE_BIN"


# --- building ---


def build(folder: Path) -> None:
    """Compile every program from its Go module."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        _compile(Path(scratch) / "etcd", folder, ["etcd"], _etcd_module())
        packages = [program for program in PROGRAMS if program != "etcd"]
        _compile(Path(scratch) / "kube", folder, packages, _kube_module(Path(scratch)))


def _etcd_module() -> dict[str, str]:
    main = 'package main\nimport ("os"; "go.etcd.io/etcd/server/v3/etcdmain")\nfunc main() { etcdmain.Main(os.Args) }\n'
    return {
        "go.mod": f"module real\ngo 1.26.0\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n",
        "main.go": main,
    }


def _kube_module(scratch: Path) -> dict[str, str]:
    """Kubernetes replaces its staged modules by folders; outside of its tree they are versions."""
    shown = _go(["mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}"], scratch, module=False)
    staged = Path(json.loads(shown)["GoMod"]).read_text()
    names = sorted({line.split()[0] for line in staged.splitlines() if "=> ./staging/" in line})
    version = "v0." + KUBERNETES.partition(".")[2]
    lines = [f"replace {name} => {name} {version}\n" for name in names]
    return {"go.mod": f"module real\ngo 1.26.0\nrequire k8s.io/kubernetes {KUBERNETES}\n" + "".join(lines)}


def _compile(module: Path, folder: Path, programs: Sequence[str], files: Mapping[str, str]) -> None:
    module.mkdir(parents=True)
    for name, text in files.items():
        (module / name).write_text(text)
    for program in programs:
        package = "." if program == "etcd" else f"k8s.io/kubernetes/cmd/{program}"
        print(f"building {program}", file=sys.stderr, flush=True)
        _go(["build", "-o", str(folder / program), package], module)


def _go(words: Sequence[str], folder: Path, *, module: bool = True) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=mod" if module else ""}
    return subprocess.run(
        ["go", *words], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


# --- running ---


@dataclass
class RealCluster:
    """One control plane: `admin-token` may do everything, `user-token` is alice of the group developers."""

    folder: Path
    controllers: Sequence[str] = CONTROLLERS
    api_flags: Sequence[str] = ()
    ports: list[int] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports[0]}"

    def start(self) -> RealCluster:
        """Every program, until the API server says it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ports = free_ports(4)
        self._keys()
        self._etcd()
        self._api_server()
        self.kubeconfig.write_text(json.dumps(self._kubeconfig("admin-token")))
        (self.folder / "alice.kubeconfig").write_text(json.dumps(self._kubeconfig("user-token")))
        self._await_ready()
        if self.controllers:
            self._controller_manager()
        (self.folder / "pids").write_text(" ".join(str(process.pid) for process in self.processes))
        return self

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kubectl(self, *words: str, document: str | None = None, user: str = "") -> subprocess.CompletedProcess[str]:
        """What kubectl answers; `document` is its standard input."""
        config = self.folder / f"{user}.kubeconfig" if user else self.kubeconfig
        command = [str(_bin() / "kubectl"), f"--kubeconfig={config}", f"--cache-dir={self.folder / 'cache'}", *words]
        return subprocess.run(command, input=document, capture_output=True, text=True, timeout=60, check=False)

    def _run(self, program: str, *flags: str) -> None:
        log = (self.folder / f"{program}.log").open("wb")
        command = [str(_bin() / program), *flags]
        self.processes.append(subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log))

    def _keys(self) -> None:
        now = datetime.now(UTC)
        authority = make_authority("real-cluster", now)
        keep(self.folder, "ca", authority)
        keep(self.folder, "server", issue(authority, "kube-apiserver", ["127.0.0.1", "localhost", "kubernetes"], now))
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        write_private(self.folder / "sa.key", key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
        public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        write_private(self.folder / "sa.pub", public)
        write_private(self.folder / "tokens.csv", TOKENS.encode())

    def _etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports[1:3])
        self._run(
            "etcd", "--data-dir=etcd", "--unsafe-no-fsync", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        )  # fmt: skip

    def _api_server(self) -> None:
        self._run(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.ports[1]}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self.ports[0]}", "--tls-cert-file=server.crt",
            "--tls-private-key-file=server.key", "--client-ca-file=ca.crt", "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC", "--anonymous-auth=false", "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key", "--service-cluster-ip-range=10.0.0.0/24", *self.api_flags,
        )  # fmt: skip

    def _controller_manager(self) -> None:
        self._run(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
            f"--controllers={','.join(self.controllers)}", "--service-account-private-key-file=sa.key",
            "--root-ca-file=ca.crt", f"--secure-port={self.ports[3]}", "--bind-address=127.0.0.1",
            "--kube-api-qps=1000", "--kube-api-burst=2000",  # many stories at once, none waits for another
        )  # fmt: skip

    def _kubeconfig(self, token: str) -> dict[str, object]:
        cluster = {"server": self.server, "certificate-authority": str(self.folder / "ca.crt")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "someone", "user": {"token": token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "someone"}}],
            "current-context": "real",
        }

    def _await_ready(self) -> None:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        request = urllib.request.Request(f"{self.server}/readyz", headers={"Authorization": "Bearer admin-token"})
        for _ in range(600):
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                urllib.request.urlopen(request, context=context, timeout=5).close()
                return
            if any(process.poll() is not None for process in self.processes):
                break
            time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"the API server did not get ready; its log is {self.folder / 'kube-apiserver.log'}")


def _bin() -> Path:
    found = binaries()
    if found is None:
        raise FileNotFoundError(why_not())
    return found


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["build", "up", "down"])
    parser.add_argument("folder", nargs="?", type=Path, help="of the plane (up, down) or of the programs (build)")
    options = parser.parse_args()
    if options.verb == "build":
        if options.folder or binaries() is None:
            build(options.folder or cache())
        print(options.folder or binaries())
        return 0
    if options.folder is None:
        parser.error(f"{options.verb} needs a folder")
    if options.verb == "up":
        print(RealCluster(options.folder.resolve()).start().kubeconfig)
        return 0
    for pid in (options.folder / "pids").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
