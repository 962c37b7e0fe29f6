"""Every pod is somebody: it gets a service account, the account's pull secrets, and a token to speak with."""

from __future__ import annotations

from hashlib import blake2b

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, Key
from allaboard.cluster.admission import Request, View
from allaboard.cluster.admitters.refusing import forbidden_early

MIRROR = "kubernetes.io/config.mirror"
MOUNTED_AT = "/var/run/secrets/kubernetes.io/serviceaccount"
LETTERS = b"bcdfghjklmnpqrstvwxz2456789"
_LETTER_OF = bytes(LETTERS[byte % len(LETTERS)] for byte in range(256))


class ServiceAccounts:
    name = "ServiceAccount"
    prefix = False
    alike = True
    kinds = (kinds.POD,)
    operations = ("CREATE",)

    def mutate(self, request: Request, view: View) -> Document | None:
        pod = request.new or {}
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            return None
        spec = dict(pod["spec"])
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = view.get(kinds.SERVICE_ACCOUNT, Key(request.key.namespace, name))
        if account is None:
            where = f"{request.key.namespace}/{name}"
            raise forbidden_early(
                request, f'error looking up service account {where}: serviceaccount "{name}" not found'
            )
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": secret.get("name", "")} for secret in account["imagePullSecrets"]]
        if wants_token(spec, account):
            spec |= with_token(spec, pod["metadata"].get("uid", ""))
        return {**pod, "spec": spec}


def wants_token(spec: Document, account: Document) -> bool:
    own, given = spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")
    return own is not False if own is not None else given is not False


def with_token(spec: Document, uid: str) -> Document:
    """The parts of a pod spec that change when every container that has no token mounted yet gets one.

    The volume's name is made from the uid; pods made together have that of the first.
    """
    volumes = spec.get("volumes") or []
    name, mounted = _volume_name(volumes, uid), dict[str, Documents]()
    for part in ("containers", "initContainers"):
        if listed := spec.get(part):
            mounted[part] = [_mounting(container, name) for container in listed]
    if all(new is old for part, listed in mounted.items() for new, old in zip(listed, spec[part])):
        return {}
    existing = any(volume.get("name") == name for volume in volumes)
    return {**mounted, "volumes": [*volumes, *([] if existing else [_volume(name)])]}


def _volume_name(volumes: Documents, uid: str) -> str:
    for volume in volumes:
        if str(volume.get("name", "")).startswith("kube-api-access-"):
            return str(volume["name"])
    return "kube-api-access-" + blake2b(uid.encode(), digest_size=5).digest().translate(_LETTER_OF).decode()


def _mounting(container: Document, name: str) -> Document:
    mounts = container.get("volumeMounts") or []
    if any(mount.get("mountPath") == MOUNTED_AT for mount in mounts):
        return container
    return {**container, "volumeMounts": [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNTED_AT}]}


def _volume(name: str) -> Document:
    return {"name": name, "projected": _TOKEN}


# What every pod is given, word for word: one value serves them all.
_OWN_NAMESPACE = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
_TOKEN: Document = {
    "defaultMode": 0o644,
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [_OWN_NAMESPACE]}},
    ],
}
