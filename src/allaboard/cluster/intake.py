"""A document on its way in: unknown fields complained about and dropped, defaults filled, its kind checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest, Cause
from allaboard.api.kinds import Kind
from allaboard.cluster import refusals
from allaboard.cluster.ask import Ask
from allaboard.cluster.body import check_kind_is_said
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import encode
from allaboard.schema import builtin
from allaboard.schema.structure import Admitted, Structure


class Malformed(BadRequest):
    """A value that cannot be decoded; a strategic patch converts instead, and has its own words for it."""

    def __init__(self, message: str, unconvertible: str) -> None:
        super().__init__(message)
        self.unconvertible = unconvertible or message


def accept(
    rules: Rules,
    document: Document,
    ask: Ask,
    duplicates: Sequence[str] = (),
    *,
    ordered: bool = False,
    applied: bool = False,
) -> Document:
    """The document with what its schema does not know removed and what it leaves out filled in.

    `ordered` names unknown fields by the alphabet: what a patch made has no order of its own. What an apply put
    together (`applied`) keeps its nulls.
    """
    admitted = rules.structure.admit(document, sent=not applied)
    _check(rules, ask, duplicates, admitted, ordered=ordered)
    return rules.default(admitted.document)


def accept_new(rules: Rules, document: Document, ask: Ask, duplicates: Sequence[str] = ()) -> Document:
    """The same for what shall be created, which may be one of many made from one template."""
    molds, spec = rules.molds, document.get("spec")
    if molds is None or (text := molds.text_of(spec)) is None:
        return accept(rules, document, ask, duplicates)
    known = molds.cast(text, document["spec"])
    if known is not None:
        document = {name: value for name, value in document.items() if name != "spec"}
    admitted = rules.structure.admit(document)
    _check(rules, ask, duplicates, admitted)
    if known is not None:
        return molds.rest({**admitted.document, "spec": known})
    settled = rules.default(admitted.document)
    if not admitted.unknown:
        molds.keep(text, settled["spec"])
    return settled


def _check(rules: Rules, ask: Ask, duplicates: Sequence[str], admitted: Admitted, *, ordered: bool = False) -> None:
    """Refuse what cannot be read, and say what means nothing."""
    if admitted.malformed:
        raise Malformed(cannot_handle(rules.kind, admitted.malformed), admitted.unconvertible)
    complain(rules.kind, ask, duplicates, sorted(admitted.unknown) if ordered else admitted.unknown)


def complain(kind: Kind, ask: Ask, duplicates: Sequence[str], unknown: Sequence[str]) -> None:
    """Refuse (Strict) or warn about (Warn) fields that mean nothing."""
    if ask.validation == "Ignore" or not (duplicates or unknown):
        return
    complaints = [*duplicates, *(f'unknown field "{path}"' for path in unknown)]
    if ask.validation == "Strict":
        raise BadRequest(cannot_handle(kind, f"strict decoding error: {', '.join(complaints)}"))
    ask.warnings.extend(complaints)


def single_owners(document: Document, ask: Ask, *, patched: bool = False) -> Document:
    """The document with each owner named once; saying one twice is warned about, of a patch in other words."""
    owners = document["metadata"].get("ownerReferences")
    if not owners or len(owners) == 1 or len({str(owner) for owner in owners}) == len(owners):
        return document
    once = {str(owner): owner for owner in owners}
    uids = dict.fromkeys(str(o.get("uid")) for i, o in enumerate(owners) if o in owners[:i])
    when = " after mutating admission happens" if patched else ""
    ask.warnings.append(
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(uids)
    )
    return {**document, "metadata": {**document["metadata"], "ownerReferences": list(once.values())}}


def cannot_handle(kind: Kind, why: str) -> str:
    """What a body cannot be read as, and why."""
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'


def check_kind(rules: Rules, document: Document, ask: Ask) -> Document:
    """The document with its type meta; built-in kinds may leave it out, another kind is refused."""
    kind = rules.kind
    version, name = document.get("apiVersion"), document.get("kind")
    if version == kind.api_version and name == kind.kind:
        return document
    if rules.custom:
        _refuse_custom(rules, document, ask)
    elif (name or kind.kind) != kind.kind:
        _read_as(str(version or kind.api_version), str(name), document)
        raise BadRequest(other_kind(kind, str(version or kind.api_version), str(name)))
    elif (version or kind.api_version) != kind.api_version:
        raise BadRequest(_other_version(rules, str(version)))
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind}


def _read_as(version: str, name: str, document: Document) -> None:
    """Upstream reads a body as the kind it says it is, before it finds that this is not the one."""
    known = builtin.type_of(version, name)
    fault = Structure({"$ref": known}).admit(document).malformed if known else ""
    if fault:
        raise BadRequest(f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {name}: {fault}')


def _refuse_custom(rules: Rules, document: Document, ask: Ask) -> None:
    kind, version, name = rules.kind, document.get("apiVersion") or "", document.get("kind")
    if not name:
        check_kind_is_said(document, kind.kind, encode(document), "")
    if name != kind.kind and version == kind.api_version:
        words = f'Invalid value: "{name}": must be {kind.kind}'
        given = document.get("metadata") or {}
        named = str(given.get("name") or "") if isinstance(given, dict) else ""
        raise refusals.invalid(replace(kind, kind=str(name)), named, [Cause("FieldValueInvalid", "kind", words)])
    if ask.validation != "Ignore":  # Upstream: of a version that is not there, no field is known
        unknown = sorted(field for field in document if field not in ("apiVersion", "kind", "metadata"))
        ask.warnings.extend(f'unknown field "{field}"' for field in unknown)
    raise BadRequest(
        f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
    )


def other_kind(kind: Kind, version: str, name: str) -> str:
    """A body of one kind where another is wanted; upstream knows which kinds there are."""
    short = version.rpartition("/")[2]
    why = _unregistered(name, version)
    if builtin.type_of(version, name):
        internal = kind.group.split(".")[0] or "core"
        why = f"converting ({short}.{name}) to ({internal}.{kind.kind}): unknown conversion"
    return f'{name} in version "{short}" cannot be handled as a {kind.kind}: {why}'


def _unregistered(name: str, version: str) -> str:
    return f'no kind "{name}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'


def _other_version(rules: Rules, version: str) -> str:
    kind = rules.kind.kind
    why = _unregistered(kind, version)
    return f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: {why}'
