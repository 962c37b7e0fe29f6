"""Claims get the default class, and storage in use is not pulled away from under a pod."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.cluster.admission import Request, View
from allaboard.cluster.kinds.claim import PROTECTION
from allaboard.cluster.kinds.storageclass import is_default

VOLUME_PROTECTION = "kubernetes.io/pv-protection"


class DefaultStorageClass:
    name = "DefaultStorageClass"
    prefix = False
    kinds = (kinds.CLAIM,)
    operations = ("CREATE",)

    def mutate(self, request: Request, view: View) -> Document | None:
        claim = request.new or {}
        if claim["spec"].get("storageClassName") is not None:
            return None
        classes = [found for found in view.list(kinds.STORAGE_CLASS) if is_default(found)]
        # Upstream: of several defaults the newest one counts.
        newest = max(
            classes, key=lambda c: (c["metadata"].get("creationTimestamp") or "", c["metadata"]["name"]), default=None
        )
        if newest is None:
            return None
        return {**claim, "spec": {**claim["spec"], "storageClassName": newest["metadata"]["name"]}}


class StorageProtection:
    """A finalizer that the protection controllers take away again."""

    name = "StorageObjectInUseProtection"
    prefix = False
    kinds = (kinds.CLAIM, kinds.VOLUME)
    operations = ("CREATE",)

    def mutate(self, request: Request, view: View) -> Document | None:
        document = request.new or {}
        finalizer = PROTECTION if request.kind == kinds.CLAIM else VOLUME_PROTECTION
        given = document["metadata"].get("finalizers") or []
        if finalizer in given:
            return None
        return {**document, "metadata": {**document["metadata"], "finalizers": [*given, finalizer]}}
