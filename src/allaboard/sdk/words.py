"""The words people use for kinds: `trainjobs`, `tj`, `pods`, `po`, `TrainJob` …"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError, ApiError
from allaboard.api.kinds import KNOWN, POD_GROUP, Kind
from allaboard.kube.remote import RemoteClient

ALIASES = {"tj": "trainjobs", "rt": "clustertrainingruntimes", "q": "queues", "js": "jobsets"}


class UnknownKind(AboardError):
    """A word that names no kind this cluster serves."""

    exit_code = 2


def words_of(kind: Kind) -> tuple[str, ...]:
    return (kind.plural, kind.singular, kind.resource, *kind.short)


def _table() -> dict[str, Kind]:
    table: dict[str, Kind] = {}
    for kind in (POD_GROUP, *KNOWN):  # of the three PodGroups the plain word means ours
        for word in words_of(kind):
            table.setdefault(word, kind)
    return table | {alias: table[word] for alias, word in ALIASES.items()}


WORDS = _table()


async def kind_named(client: RemoteClient, word: str) -> Kind:
    """The kind a word names: ours and Kubernetes' own at once, anything else by asking the server."""
    known = WORDS.get(word.lower())
    if known is not None:
        return known
    served = await _discovered(client)
    if word.lower() in served:
        return served[word.lower()]
    close = difflib.get_close_matches(word.lower(), [*WORDS, *served], n=1)
    remedy = f'did you mean "{close[0]}"?' if close else "`aboard get crds` lists what was added"
    raise UnknownKind(f'the server serves no kind "{word}"; {remedy}')


async def kind_of_document(client: RemoteClient, document: Document, where: str) -> Kind:
    """The kind a manifest says it is; where nobody serves it, the nearest one that is served."""
    api_version, name = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    if not api_version or not name:
        missing = "apiVersion" if not api_version else "kind"
        raise UnknownKind(f"{where}: {missing} is missing; every document starts with apiVersion and kind")
    known = _matching(KNOWN, api_version, name) or _matching((await _discovered(client)).values(), api_version, name)
    if known is not None:
        return known
    near = [kind for kind in KNOWN if kind.kind == name] or [
        kind for kind in KNOWN if kind.kind in difflib.get_close_matches(name, [k.kind for k in KNOWN], n=1)
    ]
    remedy = f"did you mean {near[0].kind} in {near[0].api_version}?" if near else "apply its CRD first"
    raise UnknownKind(f'{where}: no kind "{name}" in {api_version}; {remedy}')


def _matching(kinds: Iterable[Kind], api_version: str, name: str) -> Kind | None:
    return next((kind for kind in kinds if (kind.api_version, kind.kind) == (api_version, name)), None)


async def _discovered(client: RemoteClient) -> dict[str, Kind]:
    """Every word for every kind the server's groups list."""
    try:
        groups = (await client.ask("GET", "/apis")).get("groups") or []
    except ApiError:
        return {}
    found: dict[str, Kind] = {}
    for group in groups:
        version = group["preferredVersion"]
        listing = await client.ask("GET", f"/apis/{version['groupVersion']}")
        for entry in listing.get("resources") or []:
            if "/" not in entry["name"]:
                short = tuple(entry.get("shortNames") or ())
                kind = Kind(group["name"], version["version"], entry["kind"], entry["name"], entry["namespaced"], short)
                found |= {word: kind for word in words_of(kind) if word not in found}
    return found
