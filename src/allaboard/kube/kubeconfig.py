"""Where a cluster is and who we are there: kubeconfig files, and the account a pod is given."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from allaboard.api.documents import Document, dig
from allaboard.api.errors import AboardError
from allaboard.api.meta import moment_of
from allaboard.kube.http import Address, Token, Transport

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_LIFE = timedelta(minutes=1)  # a mounted token is read again this often


class ConfigError(AboardError):
    """A kubeconfig that cannot be used; the message says which and why."""


def write_kubeconfig(server: str, authority: bytes, token: str) -> bytes:
    """A kubeconfig for one administrator of one embedded plane."""
    return _written(server, authority, {"token": token})


def certified_kubeconfig(server: str, authority: bytes, certificate: bytes, key: bytes) -> bytes:
    """A kubeconfig for a user who shows a certificate."""
    texts = {"client-certificate-data": certificate, "client-key-data": key}
    return _written(server, authority, {name: base64.b64encode(text).decode() for name, text in texts.items()})


def _written(server: str, authority: bytes, user: Document) -> bytes:
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    context = {"cluster": "aboard", "user": "aboard", "namespace": "default"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "aboard", "cluster": cluster}],
        "users": [{"name": "aboard", "user": user}],
        "contexts": [{"name": "aboard", "context": context}],
        "current-context": "aboard",
    }
    return yaml.safe_dump(config, sort_keys=False).encode()


def connect(path: Path, context: str = "") -> tuple[Transport, str]:
    """A transport to the cluster a kubeconfig file names, and the namespace to assume there."""
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: {error.strerror}; start a plane with `aboard up`") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"kubeconfig {path}: is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"kubeconfig {path}: is empty; start a plane with `aboard up`")
    chosen = _named(config, "contexts", context or config.get("current-context", ""), path)["context"]
    cluster = _named(config, "clusters", chosen.get("cluster", ""), path)["cluster"]
    user = _named(config, "users", chosen.get("user", ""), path).get("user") or {}
    transport = Transport(_address(cluster, user, path.parent), _token(user, path.parent))
    return transport, str(chosen.get("namespace") or "default")


def inside_a_pod() -> Transport:
    """A transport from a pod to its own cluster, as the pod's service account."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port or not (ACCOUNT / "token").exists():
        raise ConfigError("not inside a pod: KUBERNETES_SERVICE_HOST is unset; give --kubeconfig")
    tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    return Transport(Address(host, int(port), tls), _file_token(ACCOUNT / "token"))


def _named(config: Document, section: str, name: str, path: Path) -> Document:
    entries: list[Document] = config.get(section) or []
    for entry in entries:
        if entry.get("name") == name:
            return entry
    known = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise ConfigError(f'kubeconfig {path}: {section} has no "{name}"; it has: {known}')


def _address(cluster: Document, user: Document, folder: Path) -> Address:
    url = urlsplit(str(cluster.get("server", "")))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(f'kubeconfig: server "{cluster.get("server", "")}" must be an http or https address')
    tls = _tls(cluster, user, folder) if url.scheme == "https" else None
    port = url.port or (443 if tls else 80)
    name = str(cluster.get("tls-server-name", ""))
    return Address(url.hostname, port, tls, server_name=name, prefix=url.path.rstrip("/"))


def _tls(cluster: Document, user: Document, folder: Path) -> ssl.SSLContext:
    authority = _data(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate, key = _data(user, "client-certificate", folder), _data(user, "client-key", folder)
    if certificate and key:
        _load_pair(context, certificate, key)
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """ssl reads a key pair only from files: a memory file keeps the key off the disk."""
    memory = os.memfd_create("client") if hasattr(os, "memfd_create") else None
    if memory is None:
        raise ConfigError("client certificates need Linux here; use a token instead")
    try:
        os.write(memory, certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)


def _data(entry: Document, field: str, folder: Path) -> bytes:
    """A PEM given inline (`field-data`) or as a path relative to the kubeconfig."""
    if inline := entry.get(f"{field}-data"):
        return base64.b64decode(inline)
    return (folder / str(entry[field])).read_bytes() if entry.get(field) else b""


def _token(user: Document, folder: Path) -> Token:
    if user.get("exec"):
        return _exec_token(user["exec"])
    if user.get("tokenFile"):
        return _file_token(folder / str(user["tokenFile"]))
    text = str(user.get("token", ""))

    async def token() -> str:
        return text

    return token


def _file_token(path: Path) -> Token:
    """Tokens in files are renewed by others: read again once a minute."""
    kept, until = "", datetime.min.replace(tzinfo=UTC)

    async def token() -> str:
        nonlocal kept, until
        now = datetime.now(UTC)
        if now >= until:
            kept, until = path.read_text().strip(), now + TOKEN_LIFE
        return kept

    return token


def _exec_token(plugin: Document) -> Token:
    """A credential plugin: a program that prints a token and how long it is good for."""
    kept, until = "", datetime.min.replace(tzinfo=UTC)

    async def token() -> str:
        nonlocal kept, until
        if datetime.now(UTC) >= until:
            kept, until = await _run_plugin(plugin)
        return kept

    return token


async def _run_plugin(plugin: Document) -> tuple[str, datetime]:
    extra = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or []}
    about = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(about)}
    command = [str(plugin.get("command")), *map(str, plugin.get("args") or [])]
    try:
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    except OSError as error:
        raise ConfigError(f'credential plugin "{command[0]}": {error.strerror}; is it installed?') from error
    output, _ = await process.communicate()
    if process.returncode:
        raise ConfigError(f'credential plugin "{command[0]}": ended with code {process.returncode}')
    status = dig(json.loads(output), "status", default={})
    expires = status.get("expirationTimestamp")
    until = moment_of(expires) if expires else datetime.max.replace(tzinfo=UTC)
    return str(status.get("token", "")), until
