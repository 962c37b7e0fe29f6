"""A document on its way in: unknown fields complained about and dropped, defaults filled, its kind checked."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest
from allaboard.cluster.ask import Ask
from allaboard.cluster.rules import Rules
from allaboard.cluster.store import encode
from allaboard.schema import builtin
from allaboard.schema.structure import Structure


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
    if admitted.malformed:
        raise Malformed(_cannot_handle(rules, admitted.malformed), admitted.unconvertible)
    complain(rules, ask, duplicates, sorted(admitted.unknown) if ordered else admitted.unknown)
    return rules.default(admitted.document)


def complain(rules: Rules, ask: Ask, duplicates: Sequence[str], unknown: Sequence[str]) -> None:
    """Refuse (Strict) or warn about (Warn) fields that mean nothing."""
    if ask.validation == "Ignore" or not (duplicates or unknown):
        return
    complaints = [*duplicates, *(f'unknown field "{path}"' for path in unknown)]
    if ask.validation == "Strict":
        raise BadRequest(_cannot_handle(rules, f"strict decoding error: {', '.join(complaints)}"))
    ask.warnings.extend(complaints)


def single_owners(document: Document, ask: Ask) -> Document:
    """The document with each owner named once; saying one twice is warned about."""
    owners = document["metadata"].get("ownerReferences")
    if not owners or len({str(owner) for owner in owners}) == len(owners):
        return document
    once = {str(owner): owner for owner in owners}
    uids = dict.fromkeys(str(o.get("uid")) for i, o in enumerate(owners) if o in owners[:i])
    ask.warnings.append(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        f"reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {', '.join(uids)}"
    )
    return {**document, "metadata": {**document["metadata"], "ownerReferences": list(once.values())}}


def _cannot_handle(rules: Rules, why: str) -> str:
    kind = rules.kind
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
        raise BadRequest(_other_kind(rules, str(version or kind.api_version), str(name)))
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
    kind, version, name = rules.kind, document.get("apiVersion"), document.get("kind")
    if not name or not version:
        missing = "Kind" if not name else "apiVersion"
        text = encode(document).decode()
        what = f"the object provided is unrecognized (must be of type {kind.kind})"
        raise BadRequest(f"{what}: Object '{missing}' is missing in '{text}' ({text})")
    if name != kind.kind:
        raise BadRequest(f'{name} in version "{version}" cannot be handled as a {kind.kind}: unexpected kind')
    if ask.validation != "Ignore":  # Upstream: of a version that is not there, no field is known
        unknown = sorted(field for field in document if field not in ("apiVersion", "kind", "metadata"))
        ask.warnings.extend(f'unknown field "{field}"' for field in unknown)
    raise BadRequest(
        f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
    )


def _other_kind(rules: Rules, version: str, name: str) -> str:
    short = version.rpartition("/")[2]
    internal = rules.kind.group.split(".")[0] or "core"
    why = f"converting ({short}.{name}) to ({internal}.{rules.kind.kind}): unknown conversion"
    return f'{name} in version "{short}" cannot be handled as a {rules.kind.kind}: {why}'


def _other_version(rules: Rules, version: str) -> str:
    kind = rules.kind.kind
    why = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    return f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: {why}'
