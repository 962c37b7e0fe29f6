"""The scale subresource of a custom kind: its replicas, shown and changed as an autoscaling/v1 Scale."""

from __future__ import annotations

from dataclasses import replace

from allaboard.api.documents import Document, dig
from allaboard.api.documents import replace as replaced
from allaboard.api.errors import BadRequest, Cause, Conflict, NotFound
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


async def apply_scale(cluster: Cluster, place: Place, ask: Ask) -> None:
    """Upstream: an apply of a Scale ends in a conflict with who owns the replicas, or in a failed conversion."""
    document = cluster.store.document(get(cluster, place))
    where = split(paths(place).spec_path)
    owners = [
        entry
        for entry in document["metadata"].get("managedFields") or ()
        if dig(entry.get("fieldsV1"), *(f"f:{part}" for part in where)) is not None
    ]
    if owners and not ask.force:
        said = [_owner_words(entry) for entry in owners]
        causes = [Cause("FieldManagerConflict", f".{'.'.join(where)}", words) for words in said]
        head = f"Apply failed with {len(said)} conflict{'s' if len(said) > 1 else ''}"
        raise Conflict(f"{head}: {said[0]}: .{'.'.join(where)}", causes=causes)
    name = f"(/{place.key.name}; {VERSION}, Kind=Scale)"
    why = f"request to convert CR to an invalid group/version: {VERSION}"
    raise refusals.bare(500, f"failed to convert new object {name} to proper version: {why}")


def _owner_words(entry: Document) -> str:
    words = f'conflict with "{entry.get("manager")}"'
    if entry.get("subresource"):
        words += f' with subresource "{entry["subresource"]}"'
    return f"{words} using {VERSION}" if entry.get("operation") == "Update" else words


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
        return track_as(place, new, old, ask)

    item = await change(cluster, place._replace(subresource=""), build, replace(ask))
    return shown(place, cluster.store.document(item))
