"""SUITE=kube: recorded exchanges of a real kube-apiserver, and recorded kubectl commands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.plane import Plane, plane
from tests.conformance.results import Result

# Which controllers ran beside the recorded server; no admission of ours.
API = "namespaces,accounts,rootca,garbage,claim-protection"
FULL = f"{API},claims,job,ttl,quota,endpoints,grouper,scheduler,binder"
PROFILES = {"api": API, "full": FULL}
OLDEST_KUBECTL = (1, 32)
# What kubectl logs where `--timeout=1s` ends while its watch is still being opened: the machine was busy.
HASTE = re.compile(r"\$\{log\} reflector\.go:\d+\] .*?\\n")


def run(data: Path) -> Iterable[tuple[str, Iterable[Result]]]:
    """Sub-suites `kube/api` and `kube/kubectl`."""
    yield "kube/api", [result for profile in PROFILES for result in _exchanges(data, profile)]
    yield "kube/kubectl", _commands(data)


def _options(profile: str) -> list[str]:
    return [f"--controllers={PROFILES[profile]}", "--admission=", "--auth=rbac", "--plain"]


def _exchanges(data: Path, profile: str) -> Iterable[Result]:
    with plane(_options(profile)) as server, tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, str(data / "replay.py"), "--server", server.server, "--token", server.token]
        subprocess.run([*command, "--profile", profile, "--json", report.name], stdout=subprocess.DEVNULL, check=False)
        scenarios = json.loads(Path(report.name).read_text())["scenarios"]
    for scenario in scenarios:
        if "error" in scenario:
            yield Result(f"{scenario['scenario']}/error", [scenario["error"]])
        for exchange in scenario["exchanges"]:
            others = [diff for diff in exchange["diffs"] if not _is_ours(*diff)]
            lines = [f"{path}: {json.dumps(want)} -> {json.dumps(got)}" for path, want, got in others]
            yield Result(f"{scenario['scenario']}/{exchange['id']}", lines)


def _is_ours(path: str, want: object, got: object) -> bool:
    """Ruling 7: annotations `aboard.dev/*` and the status field `aboard` are ours, and dropped before comparing."""
    if "aboard.dev/" in path or path.endswith("status.aboard"):
        return True
    return want == "<absent>" and isinstance(got, dict) and bool(got) and all("aboard.dev/" in key for key in got)


def _commands(data: Path) -> Iterable[Result]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        print("kube/kubectl: skipped, no kubectl on the PATH", file=sys.stderr)
        return
    if _version(kubectl) < OLDEST_KUBECTL:
        print("kube/kubectl: skipped, kubectl is older than 1.32", file=sys.stderr)
        return
    options = [option for option in _options("api") if option != "--plain"]  # kubectl sends no token over plain http
    with plane(options) as server:
        yield from _session_lines(data, server, kubectl)


def _version(kubectl: str) -> tuple[int, int]:
    said = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True).stdout
    version = json.loads(said)["clientVersion"]
    return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


def _session_lines(data: Path, server: Plane, kubectl: str) -> Iterable[Result]:
    command = [sys.executable, str(data / "kubectl_replay.py"), "--kubeconfig", str(server.kubeconfig), "-v"]
    said = subprocess.run([*command, "--kubectl", kubectl], capture_output=True, text=True, check=False).stdout
    current: list[Result] = []
    sessions: list[tuple[str, list[Result]]] = []
    for line in said.splitlines():
        if match := re.match(r"(ok  |FAIL) (\S+)$", line):
            current = []
            sessions.append((match[2], current))
        elif match := re.match(r"  (ok  |FAIL) (\d+) (.*)$", line):
            current.append(Result(f"{match[2]} {match[3]}", []))
        elif line.startswith("       ") and current:
            current[-1].differences.append(line.strip())
    for session, results in sessions:
        for unit, differences in results:
            yield Result(f"{session}/{unit}", _unhurried(differences))


def _unhurried(lines: list[str]) -> list[str]:
    """Pairs of `expected` and `got` that still differ without what kubectl says of its own haste."""
    pairs = [lines[start : start + 2] for start in range(0, len(lines), 2)]
    return [line for pair in pairs if _differs(*pair) for line in pair]


def _differs(*pair: str) -> bool:
    texts = {HASTE.sub("", line.partition(": ")[2].strip()) for line in pair}
    return len(texts) > 1 or len(pair) == 1
