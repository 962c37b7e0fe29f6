"""What the server must know of a kind to serve it: one frozen `Rules` value per kind and version.

Plain rules serve any kind; the files in `kinds/` replace the parts in which a built-in kind differs. Every function
here takes documents and returns documents: it never changes what it is given and shares what it does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from allaboard.api import names
from allaboard.api.documents import Document, without
from allaboard.api.errors import Cause
from allaboard.api.kinds import Kind
from allaboard.cluster import metadata, words
from allaboard.cluster.converting import Converter, Reach
from allaboard.cluster.molds import Molds
from allaboard.schema import builtin
from allaboard.schema.openapi import Entry
from allaboard.schema.structure import Structure

Default = Callable[[Document], Document]
Prepare = Callable[[Document, Document | None, str], Document]
Validate = Callable[[Document, Document | None, str], list[Cause]]
Warn = Callable[[Document, Document | None], list[str]]
Grace = Callable[[Document, int | None], int]
Value = Callable[[Document], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table kubectl prints."""

    name: str
    type: str = "string"
    description: str = ""
    format: str = ""
    priority: int = 0
    path: str = ""  # a JSONPath, for the columns of a CRD


Row = Callable[[Document, datetime], list[object]]


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a custom resource keeps what the scale subresource shows."""

    spec_path: str
    status_path: str
    selector_path: str = ""


def unchanged(document: Document) -> Document:
    return document


def no_causes(new: Document, old: Document | None, subresource: str) -> list[Cause]:
    return []


def no_warnings(new: Document, old: Document | None) -> list[str]:
    return []


def at_once(document: Document, asked: int | None) -> int:
    return 0


def spec_differs(new: Document, old: Document) -> bool:
    return bool(new.get("spec") != old.get("spec"))


def split_status(new: Document, old: Document | None, subresource: str) -> Document:
    """A main write leaves the status alone, a status write everything else but labels and the like."""
    if old is None:
        return {**new, "status": {}}
    if subresource == "status":
        return {**old, "metadata": new["metadata"], "status": new.get("status", {})}
    return {**new, "status": old.get("status", {})}


def whole(new: Document, old: Document | None, subresource: str) -> Document:
    return new


@dataclass(frozen=True, eq=False)
class Rules:
    """How one kind in one version is served."""

    kind: Kind
    schema: Document
    resource: Document  # what discovery says: verbs, subresources, names
    custom: bool = False  # from a CRD: no strategic merge, PUT needs a resourceVersion
    generation: bool = True  # metadata.generation is ours to count
    store: str = ""  # the table; "" is the kind's own
    names: metadata.NameRule = names.dns_subdomain
    default: Default = unchanged
    prepare: Prepare = whole
    check: Validate = no_causes  # what is particular to the kind; `validate` adds metadata
    warnings: Warn = no_warnings
    spec_changed: Callable[[Document, Document], bool] = spec_differs
    fields: Mapping[str, Value] = field(default_factory=dict)
    accepted: frozenset[str] = frozenset()
    answers_object: bool = False
    orphans: bool = False  # what a deletion does with dependents where it does not say
    orphan_warning: str = ""  # what somebody is told who lets that happen
    unconditional_update: bool = True
    create_on_update: bool = False
    grace: Grace = at_once
    columns: tuple[Column, ...] = ()
    row: Row | None = None
    scale: Scale | None = None
    deprecation: str = ""  # what everybody is told who uses it
    judged_as: Kind | None = None  # the kind that refusals name, where it is another
    incomplete: Callable[[Document], bool] | None = None  # what creation leaves for the next write to store
    molds: Molds | None = None  # where many objects of the kind are made from one template
    own_words: words.Apart | None = None  # where objects made in one batch may differ, besides their names
    refusal: str = ""  # why nobody may write one
    since: int = 0  # the revision of this schema; what was stored before is read through it
    lasting: bool = False  # the kind of a definition that never changed, in its only version
    converter: Converter | None = None  # who translates between versions, where somebody else does
    others: frozenset[str] = frozenset()  # the same kind's other versions and groups, as `apiVersion` names them

    @cached_property
    def structure(self) -> Structure:
        """The schema, compiled when first needed."""
        return Structure(self.schema, self.lasting)

    @cached_property
    def apart(self) -> words.Apart:
        """Everything in which objects made in one batch may differ without being anything else."""
        if self.custom:
            return words.of_custom(self.structure.root, self.names)
        if self.own_words is None:
            return {}
        return words.together(self.own_words, self.names)

    @cached_property
    def versions(self) -> frozenset[str]:
        """Every version in which somebody may own fields of an object."""
        return self.others | {self.kind.api_version}

    @cached_property
    def subresources(self) -> frozenset[str]:
        return frozenset(sub["name"] for sub in self.resource.get("subresources", ()))

    @cached_property
    def verbs(self) -> frozenset[str]:
        return frozenset(self.resource.get("verbs", ()))

    @property
    def named(self) -> Kind:
        """The kind as a refusal names it: events of both groups are judged as core ones."""
        return self.judged_as or self.kind

    def validate(self, new: Document, old: Document | None, subresource: str = "") -> list[Cause]:
        """Every broken rule, metadata first."""
        if old is None:
            found = metadata.on_create(new, self.names, namespaced=self.kind.namespaced)
        else:
            found = metadata.on_update(new, old, None if self.custom else self.names)
        if not self.custom and new["metadata"].get("finalizers"):
            found += metadata.unqualified_finalizers(new["metadata"])
        return found + self.check(new, old, subresource)


def facts(kind: Kind) -> Document:
    """What discovery says of a built-in kind."""
    return next(r for r in builtin.resources() if (r["group"], r["plural"]) == (kind.group, kind.plural))


def built_in(kind: Kind) -> Rules:
    """The plain rules of a built-in kind; its file replaces what differs."""
    resource = facts(kind)
    has_status = any(sub["name"] == "status" for sub in resource["subresources"])
    return Rules(
        kind=kind,
        schema={"$ref": builtin.type_of(kind.api_version, kind.kind)},
        resource=resource,
        generation=has_status,
        prepare=split_status if has_status else whole,
    )


def entries(served: Iterable[Rules]) -> list[Entry]:
    """The rules as OpenAPI documents describe them: every kind that somebody may write."""
    return [
        Entry(r.kind, r.schema, r.subresources, r.verbs, custom=r.custom, returned=r.answers_object)
        for r in served
        if not r.refusal
    ]


# Custom resources


CUSTOM_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]


def from_crd(definition: Document, reach: Reach = lambda: None) -> list[Rules]:
    """The rules of every version a CRD serves; `reach` leads to its conversion webhook."""
    spec, converter = definition["spec"], None
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        converter = Converter(definition, reach)
    return [_version(definition, version, converter) for version in spec["versions"] if version.get("served")]


def _version(definition: Document, version: Document, converter: Converter | None) -> Rules:
    spec = definition["spec"]
    kind = _kind(spec, version["name"])
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    columns = version.get("additionalPrinterColumns") or [AGE]
    return Rules(
        kind=kind,
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        resource=_resource(spec, kind, subresources),
        custom=True,
        prepare=_split_custom if "status" in subresources else whole,
        spec_changed=_beyond_status if "status" in subresources else _beyond_metadata,
        unconditional_update=False,
        warnings=_unqualified,
        fields=_selectable(version),
        deprecation=_deprecation(kind, version),
        columns=tuple(_column(column) for column in columns),
        scale=_scale(scale) if scale else None,
        converter=converter,
        others=frozenset(f"{spec['group']}/{other['name']}" for other in spec["versions"] if other.get("served")),
        since=_since(definition["metadata"]),
        lasting=len(spec["versions"]) == 1 and not _since(definition["metadata"]),
    )


def _since(metadata: Document) -> int:
    """When a definition last changed; one that never did holds for whatever is stored."""
    return int(metadata.get("resourceVersion") or 0) if metadata.get("generation", 1) > 1 else 0


def _unqualified(new: Document, old: Document | None) -> list[str]:
    """Finalizers of custom objects may have any name; those of a domain get into nobody's way."""
    before = (old or {"metadata": {}})["metadata"].get("finalizers") or ()
    why = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
    return [
        f'metadata.finalizers: "{name}": {why}'
        for name in new["metadata"].get("finalizers") or ()
        if "/" not in name and name not in metadata.STANDARD_FINALIZERS and name not in before
    ]


def _deprecation(kind: Kind, version: Document) -> str:
    if not version.get("deprecated"):
        return ""
    return str(version.get("deprecationWarning") or f"{kind.api_version} {kind.kind} is deprecated")


AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _kind(spec: Document, version: str) -> Kind:
    named = spec["names"]
    return Kind(
        spec["group"],
        version,
        named["kind"],
        named["plural"],
        namespaced=spec["scope"] == "Namespaced",
        short=tuple(named.get("shortNames") or ()),
        categories=tuple(named.get("categories") or ()),
    )


def _resource(spec: Document, kind: Kind, subresources: Document) -> Document:
    named = spec["names"]
    served = [
        {
            "name": name,
            "group": kind.group,
            "version": kind.version,
            "kind": kind.kind,
            "verbs": ["get", "patch", "update"],
        }
        for name in subresources
    ]
    for entry in served:
        if entry["name"] == "scale":
            entry |= {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    return {
        "group": kind.group,
        "version": kind.version,
        "kind": kind.kind,
        "plural": kind.plural,
        "singular": named.get("singular") or kind.singular,
        "namespaced": kind.namespaced,
        "verbs": CUSTOM_VERBS,
        "short": list(kind.short),
        "categories": list(kind.categories),
        "subresources": served,
    }


def _split_custom(new: Document, old: Document | None, subresource: str) -> Document:
    """A status write of a custom resource touches nothing but the status, not even labels."""
    if old is None:
        return without(new, "status")
    if subresource == "status":
        metadata_kept = old["metadata"]
        if "managedFields" in new["metadata"]:
            metadata_kept = {**metadata_kept, "managedFields": new["metadata"]["managedFields"]}
        return _with(old | {"metadata": metadata_kept}, "status", new.get("status"))
    return _with(new, "status", old.get("status"))


def _with(document: Document, key: str, value: object) -> Document:
    return without(document, key) if value is None else {**document, key: value}


def _beyond_status(new: Document, old: Document) -> bool:
    ignored = ("metadata", "status")
    return any(new.get(key) != old.get(key) for key in new.keys() | old.keys() if key not in ignored)


def _beyond_metadata(new: Document, old: Document) -> bool:
    return any(new.get(key) != old.get(key) for key in new.keys() | old.keys() if key != "metadata")


def _column(column: Document) -> Column:
    return Column(
        name=column["name"],
        type=column["type"],
        description=column.get("description", ""),
        format=column.get("format", ""),
        priority=column.get("priority", 0),
        path=column.get("jsonPath", ""),
    )


def _scale(scale: Document) -> Scale:
    return Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))


def _selectable(version: Document) -> dict[str, Value]:
    paths = [entry["jsonPath"].lstrip(".") for entry in version.get("selectableFields") or ()]
    return {path: _reader(path.split(".")) for path in paths}


def _reader(steps: list[str]) -> Value:
    def read(document: Document) -> str:
        value: object = document
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read
