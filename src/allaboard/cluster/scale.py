"""The scale subresource of a custom kind: its replicas, shown and changed as an autoscaling/v1 Scale."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from allaboard.api.documents import Document, dig
from allaboard.api.documents import replace as replaced
from allaboard.api.errors import BadRequest, Cause, Conflict, Internal
from allaboard.api.meta import name_of
from allaboard.cluster import refusals
from allaboard.cluster.answers import Form
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.kinds.shown import AGE, NAME, age_of, column
from allaboard.cluster.ownership import track_as
from allaboard.cluster.patch import Patch, check_names, patched_document
from allaboard.cluster.plane import Cluster
from allaboard.cluster.read import found, metadata_only
from allaboard.cluster.rules import Scale
from allaboard.cluster.table import definition
from allaboard.cluster.update import change, check_revision, check_uid

VERSION = "autoscaling/v1"
COLUMNS = (
    NAME,
    column("Desired", "How many replicas are wanted.", type="integer"),
    column("Available", "How many replicas there are.", type="integer"),
    column("Age", AGE.description, type="date"),
)
KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def read_scale(cluster: Cluster, place: Place) -> Document:
    """The Scale of an object."""
    return shown(place, cluster.store.document(await found(cluster, place)))


def shown(place: Place, document: Document) -> Document:
    scale = paths(place)
    metadata = {name: document["metadata"][name] for name in KEPT if name in document["metadata"]}
    status: Document = {"replicas": dig(document, *split(scale.status_path), default=0)}
    if scale.selector_path and (selector := dig(document, *split(scale.selector_path))):
        status["selector"] = selector
    replicas = dig(document, *split(scale.spec_path))
    if replicas is None:
        why = f'the spec replicas field "{scale.spec_path}" does not exist'
        raise Internal(f"Internal error occurred: {why}", causes=[Cause("", "", why)])
    return {
        "kind": "Scale",
        "apiVersion": VERSION,
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def shaped(form: Form, scale: Document, now: datetime) -> Document:
    """A Scale in the form a client asked for."""
    short = {**metadata_only(scale), "apiVersion": f"meta.k8s.io/{form.version}"}
    if form.shape != "Table":
        return short if form.shape else scale
    cells = [name_of(scale), scale["spec"].get("replicas", 0), scale["status"]["replicas"], age_of(scale, now)]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
        "columnDefinitions": [definition(column) for column in COLUMNS],
        "rows": [{"cells": cells, "object": short}],
    }


async def apply_scale(cluster: Cluster, place: Place, ask: Ask) -> None:
    """Upstream: an apply of a Scale ends in a conflict with who owns the replicas, or in a failed conversion."""
    document = cluster.store.document(await found(cluster, place))
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
        stated = {"metadata": scale.get("metadata") or {}}
        check_names(place, stated)
        check_uid(place, stated["metadata"].get("uid"), old)
        check_revision(place, stated, old)
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
