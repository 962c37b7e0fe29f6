"""Versions of a custom kind that somebody else translates: what a conversion webhook is sent and must answer.

What it answered is remembered, so that everything that shows objects can go on without waiting: whoever reads asks
`ready` first. A definition that changes starts with an empty memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from allaboard.api.documents import Document
from allaboard.api.meta import name_of, namespace_of, uid_of
from allaboard.cluster import metadata, refusals
from allaboard.cluster.outside import Caller, Unreachable
from allaboard.schema.structure import Structure

REMEMBERED = 20_000  # documents
SECONDS, QUERY = 30.0, "?timeout=30s"
Reach = Callable[[], Caller | None]


class Converter:
    """Translates the objects of one definition; shared by the rules of all its versions."""

    def __init__(self, definition: Document, reach: Reach) -> None:
        spec = definition["spec"]
        webhook = spec["conversion"].get("webhook") or {}
        self.client: Document = webhook.get("clientConfig") or {}
        self.reviews: Sequence[str] = webhook.get("conversionReviewVersions") or ()
        self.kind = str(spec["names"]["kind"])
        kept = next(version for version in spec["versions"] if version.get("storage"))
        self.storage = f"{spec['group']}/{kept['name']}"
        self.structure = Structure((kept.get("schema") or {}).get("openAPIV3Schema") or {})
        self.reach = reach
        self._known: dict[tuple[str, str, str], Document] = {}

    def known(self, version: str, document: Document) -> Document | None:
        """A document in a version, where it was made `ready`."""
        return self._known.get(_identity(version, document))

    async def ready(self, version: str, documents: Iterable[Document]) -> None:
        """Have these in a version: one question for all that are not known yet."""
        missing = [
            document
            for document in documents
            if document["apiVersion"] != version and _identity(version, document) not in self._known
        ]
        if not missing:
            return
        if len(self._known) + len(missing) > REMEMBERED:
            self._known.clear()
        for document, converted in zip(missing, await self._ask(version, missing)):
            self._known[_identity(version, document)] = converted

    async def stored(self, document: Document) -> Document:
        """A document in the version that is stored: without what that version does not know, with its defaults."""
        if document["apiVersion"] == self.storage:
            return document
        converted = await self.convert(self.storage, document)
        return self.structure.default(converted)

    async def convert(self, version: str, document: Document) -> Document:
        """A document that need not be stored, in another version."""
        return document if document["apiVersion"] == version else (await self._ask(version, [document]))[0]

    async def _ask(self, version: str, documents: Sequence[Document]) -> list[Document]:
        caller = self.reach()
        if caller is None:
            raise refusals.bare(500, f"{self._named(documents)} failed: this server calls nobody")
        uid = caller.uid()
        try:
            answer = await caller.post(self.client, self._review(version, documents, uid), SECONDS, QUERY)
            found = _objects(answer, uid, strict=self._form() == "v1")
        except (Unreachable, ValueError) as fault:
            raise refusals.bare(500, f"{self._named(documents)} failed: {fault}") from fault
        if len(found) != len(documents):
            words = f"returned {len(found)} objects, expected {len(documents)}"
            raise refusals.bare(500, f"{self._named(documents)} {words}")
        return [self._checked(version, old, new) for old, new in zip(documents, found)]

    def _form(self) -> str:
        """Upstream speaks the first form of its reviews that the definition names."""
        return next((form for form in self.reviews if form in ("v1", "v1beta1")), "v1")

    def _named(self, documents: Sequence[Document]) -> str:
        return f"conversion webhook for {documents[0]['apiVersion']}, Kind={self.kind}"

    def _review(self, version: str, documents: Sequence[Document], uid: str) -> Document:
        request = {"uid": uid, "desiredAPIVersion": version, "objects": list(documents)}
        empty: Document = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
        form = f"apiextensions.k8s.io/{self._form()}"
        return {"kind": "ConversionReview", "apiVersion": form, "request": request, "response": empty}

    def _checked(self, version: str, old: Document, new: object) -> Document:
        """An answer as it may be used: of the right version, about the same object, with its metadata as it was."""
        what = f"{self._named([old])} returned invalid"
        if not isinstance(new, dict):
            raise refusals.bare(500, f"{what} object: it is none")
        if new.get("apiVersion") != version:
            words = f"invalid groupVersion (expected {version}, received {new.get('apiVersion', '')})"
            raise refusals.bare(500, f"{what} object at index 0: {words}")
        if new.get("kind") != self.kind:
            words = f"invalid kind (expected {self.kind}, received {new.get('kind', '')})"
            raise refusals.bare(500, f"{what} object at index 0: {words}")
        if why := _another(old, new):
            raise refusals.bare(500, f"{what} object: {why}")
        try:
            return {**new, "metadata": _metadata(old, new)}
        except ValueError as fault:
            raise refusals.bare(500, f"{what} metadata: {fault}") from fault


def _identity(version: str, document: Document) -> tuple[str, str, str]:
    return version, uid_of(document), str(document["metadata"].get("resourceVersion", ""))


def _objects(answer: Document, uid: str, *, strict: bool) -> list[object]:
    """The objects of an answer that says success."""
    said = f"{answer.get('apiVersion') or '/'}, Kind={answer.get('kind', '')}"
    wanted = "apiextensions.k8s.io/v1, Kind=ConversionReview"
    if strict and said != wanted:
        raise ValueError(f"expected webhook response of {wanted}, got {said}")
    response = answer.get("response")
    if not isinstance(response, dict):
        raise ValueError("no response provided")
    if strict and response.get("uid", "") != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        words = f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise ValueError(result.get("message") or words)
    return list(response.get("convertedObjects") or [])


def _another(old: Document, new: Document) -> str:
    """Which part of its identity an answer changed."""
    given = {**new, "metadata": new["metadata"] if isinstance(new.get("metadata"), dict) else {}}
    facts = (("name", name_of), ("namespace", namespace_of), ("UID", uid_of))
    for what, read in facts:
        if read(old) != read(given):
            return f"must have the same {what}: {read(old)} != {read(given)}"
    return ""


def _metadata(old: Document, new: Document) -> Document:
    """The metadata as it was; labels and annotations are the webhook's to change."""
    given = new.get("metadata")
    if not isinstance(given, dict):
        raise ValueError("missing metadata in converted object")
    kept = {name: value for name, value in old["metadata"].items() if name not in ("labels", "annotations")}
    for part in ("labels", "annotations"):
        if (said := given.get(part)) is not None:
            _check_texts(part, said)
            if said != old["metadata"].get(part):
                _check_keys(part, said)
            kept[part] = said
    return kept


def _check_texts(part: str, said: object) -> None:
    if not isinstance(said, dict):
        raise ValueError(f"invalid metadata.{part} of type {_go_type(said)} in converted object")
    for key, value in said.items():
        if not isinstance(value, str):
            raise ValueError(f"metadata.{part}[{key}] must be a string, but is {_go_type(value)} in converted object")


def _check_keys(part: str, said: Document) -> None:
    if part == "labels":
        causes = metadata.label_causes(said, "metadata.labels")
    else:  # Upstream writes it so
        causes = metadata.annotation_causes(said, "metadata.annotation")
    if causes:
        raise ValueError(refusals.summed(tuple(causes)))


def _go_type(value: object) -> str:
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")
