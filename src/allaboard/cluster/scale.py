"""The scale subresource of a custom kind: its replicas, shown and changed as an autoscaling/v1 Scale."""

from __future__ import annotations

from dataclasses import replace

from allaboard.api.documents import Document, dig
from allaboard.api.documents import replace as replaced
from allaboard.api.errors import BadRequest, Cause, NotFound
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.ownership import track_as
from allaboard.cluster.patch import Patch, patched_document
from allaboard.cluster.plane import Cluster
from allaboard.cluster.read import get
from allaboard.cluster.rules import Scale
from allaboard.cluster.update import change, check_revision

VERSION = "autoscaling/v1"
KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def read_scale(cluster: Cluster, place: Place) -> Document:
    """The Scale of an object."""
    return shown(place, cluster.store.document(get(cluster, place)))


def shown(place: Place, document: Document) -> Document:
    scale = paths(place)
    metadata = {name: document["metadata"][name] for name in KEPT if name in document["metadata"]}
    status: Document = {"replicas": dig(document, *split(scale.status_path), default=0)}
    if scale.selector_path and (selector := dig(document, *split(scale.selector_path))):
        status["selector"] = selector
    replicas = dig(document, *split(scale.spec_path))
    if replicas is None:
        raise NotFound(f"the spec replicas field {scale.spec_path!r} does not exist")
    return {
        "kind": "Scale",
        "apiVersion": VERSION,
        "metadata": metadata,
        "spec": {"replicas": replicas},
        "status": status,
    }


def paths(place: Place) -> Scale:
    if place.rules.scale is None:
        raise refusals.no_resource()
    return place.rules.scale


def split(path: str) -> list[str]:
    return path.strip(".").split(".")


async def write_scale(cluster: Cluster, place: Place, wanted: Document | Patch, ask: Ask) -> Document:
    """Change the replicas of an object, by a whole Scale or a patch of it."""
    where = split(paths(place).spec_path)

    def build(old: Document) -> Document:
        scale = patched_document(place, wanted, shown(place, old)) if isinstance(wanted, Patch) else wanted
        check_revision(place, {"metadata": scale.get("metadata") or {}}, old)
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int):
            raise BadRequest("spec.replicas must be a number")
        if replicas < 0:
            words = f"Invalid value: {replicas}: should be a non-negative integer"
            raise refusals.invalid(
                place.rules.kind, place.key.name, [Cause("FieldValueInvalid", f".{'.'.join(where)}", words)]
            )
        new = replaced(old, *where, value=replicas)
        return track_as(place, new, old, ask, VERSION)

    item = await change(cluster, place._replace(subresource=""), build, replace(ask))
    return shown(place, cluster.store.document(item))
