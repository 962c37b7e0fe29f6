"""From a request to its answer: the method and the place choose the verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allaboard.api.documents import Document, Key
from allaboard.api.errors import BadRequest, UnsupportedMedia
from allaboard.cluster import body, options, refusals
from allaboard.cluster.access import User
from allaboard.cluster.answers import Answer, Form, Shaper, negotiate, written
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.create import create
from allaboard.cluster.delete import Outcome, Wish, delete, delete_collection
from allaboard.cluster.patch import Patch, apply, patch
from allaboard.cluster.plane import Cluster
from allaboard.cluster.pods import wish_of
from allaboard.cluster.read import get, listed
from allaboard.cluster.update import update

APPLY = ("application/apply-patch+yaml", "application/apply-patch+json")
PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json")


@dataclass(slots=True)
class Call:
    """One request as it came in; who asks is known already."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    data: bytes
    user: User

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


class Dispatcher:
    """Answers requests about objects. Watches are streams and answered elsewhere."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def shaper(self, call: Call, place: Place) -> Shaper:
        form = negotiate(call.headers.get("accept", ""))
        include = options.first(call.query, "includeObject")
        return Shaper(self.cluster.store, place.rules, form, self.cluster.world.now(), include)

    async def answer(self, call: Call, place: Place) -> Answer:
        """The answer to a request about an object, a collection or a subresource."""
        match call.method, bool(place.key.name):
            case "GET", True:
                return await self._get(call, place)
            case "GET", False:
                return await self._list(call, place)
            case "POST", _ if not place.key.name or place.rules.custom:
                return await self._create(call, place)
            case "PUT", True:
                return await self._update(call, place)
            case "PATCH", True:
                return await self._patch(call, place)
            case "DELETE", True:
                return await self._delete(call, place)
            case "DELETE", False if "deletecollection" in place.rules.verbs:
                return await self._delete_collection(call, place)
        raise refusals.no_method()

    async def _get(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        if revision := options.first(call.query, "resourceVersion"):
            self._check_number(revision)
        return shaper.one(get(self.cluster, place))

    def _check_number(self, revision: str) -> None:
        if not revision.isdecimal():
            words = (
                f'resourceVersion: Invalid value: "{revision}": strconv.ParseUint: parsing "{revision}": invalid syntax'
            )
            raise refusals.bare(500, words)
        if int(revision) > self.cluster.store.committed:
            raise refusals.from_the_future(int(revision), self.cluster.store.committed)

    async def _list(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        wanted = options.read_list(place.rules, call.query).query
        if wanted.start and wanted.revision not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        if wanted.revision and not wanted.revision.isdecimal():
            words = (
                f'Invalid value: "{wanted.revision}": strconv.ParseUint: parsing "{wanted.revision}": invalid syntax'
            )
            raise BadRequest(f"invalid resource version: resourceVersion: {words}")
        if wanted.revision and int(wanted.revision) > self.cluster.store.committed:
            raise refusals.from_the_future(int(wanted.revision), self.cluster.store.committed)
        return shaper.page(listed(self.cluster, place, wanted))

    async def _create(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        ask = self._ask(call, options.read_write("CreateOptions", call.query))
        document, twice = body.read(call.data, call.content_type, place.rules.kind.kind)
        item = await create(self.cluster, place, document, ask, twice)
        return warned(shaper.one(item, 201), ask)

    async def _update(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        ask = self._ask(call, options.read_write("UpdateOptions", call.query))
        document, twice = body.read(call.data, call.content_type, place.rules.kind.kind)
        item = await update(self.cluster, place, document, ask, twice)
        return warned(shaper.one(item), ask)

    async def _patch(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        media = call.content_type.split(";")[0].strip().lower()
        check_patch_type(media, place)
        ask = self._ask(call, options.read_write("PatchOptions", call.query, apply=media in APPLY))
        if media in APPLY:
            document, twice = read_apply(call.data, ask)
            item, new = await apply(self.cluster, place, document, ask)
            return warned(shaper.one(item, 201 if new else 200), ask)
        value, twice = read_patch(call.data)
        item = await patch(self.cluster, place, Patch(media, value, twice), ask)
        return warned(shaper.one(item), ask)

    async def _delete(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        wish, ask = self._wish(call)
        outcome = await delete(self.cluster, place, wish, ask)
        if not outcome.gone or place.rules.answers_object:
            return warned(shaper.one(outcome.item), ask)
        return warned(written(shaper.form, deleted(place, outcome)), ask)

    async def _delete_collection(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        wanted = options.read_list(place.rules, call.query).query
        wish, ask = self._wish(call)
        page = listed(self.cluster, place, wanted)
        await delete_collection(self.cluster, place, [item.key for item in page.items], wish, ask)
        return warned(shaper.page(page), ask)

    def _wish(self, call: Call) -> tuple[Wish, Ask]:
        stated = read_delete_options(call) if call.data else options.read_delete(call.query)
        if causes := options.delete_causes(stated):
            raise refusals.options_invalid("DeleteOptions", causes)
        ask = Ask(call.user, dry_run=bool(stated.get("dryRun")), options=stated)
        return wish_of(stated), ask

    def _ask(self, call: Call, wanted: options.WriteOptions) -> Ask:
        manager = wanted.manager or call.headers.get("user-agent", "").partition("/")[0] or "unknown"
        return Ask(call.user, manager, wanted.dry_run, wanted.validation, wanted.force)


def read_delete_options(call: Call) -> Document:
    document, _ = body.read(call.data, call.content_type, "DeleteOptions")
    version, kind = document.get("apiVersion", ""), document.get("kind", "")
    if kind not in ("", "DeleteOptions"):
        where = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        raise BadRequest(f'no kind "{kind}" is registered for version "{version}" in scheme "{where}"')
    return document


def check_patch_type(media: str, place: Place) -> None:
    if media not in (*APPLY, *PATCHES):
        raise UnsupportedMedia("415: Unsupported Media Type", details={})
    if place.rules.custom and media == PATCHES[2]:
        raise UnsupportedMedia(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{PATCHES[0]}, {PATCHES[1]}, {APPLY[0]}"
        )


def read_patch(data: bytes) -> tuple[object, list[str]]:
    try:
        return body.read_json(data)
    except body.Unreadable as fault:
        raise BadRequest(f"error decoding patch: {fault}") from fault


def read_apply(data: bytes, ask: Ask) -> tuple[Document, list[str]]:
    """The stated configuration; a key said twice is an error or a warning."""
    try:
        value, twice = body.read_yaml(data)
    except body.Unreadable as fault:
        raise BadRequest(f"error decoding YAML: {fault}") from fault
    if twice and ask.validation == "Strict":
        lines = "\n  ".join(twice)
        raise BadRequest(
            f"error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  {lines}"
        )
    if twice and ask.validation == "Warn":
        ask.warnings.extend(twice)
    if not isinstance(value, dict):
        raise BadRequest("error decoding YAML: an object is needed")
    return value, twice


def deleted(place: Place, outcome: Outcome) -> Document:
    """The Status that says an object is gone."""
    details = refusals.details(place.rules.kind, outcome.item.key.name) | {"uid": outcome.item.uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def warned(answer: Answer, ask: Ask) -> Answer:
    """The answer with its warnings as headers."""
    for text in dict.fromkeys(ask.warnings):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        answer.headers.append((b"warning", f'299 - "{escaped}"'.encode()))
    return answer


__all__ = ["Call", "Dispatcher", "Form", "Key"]
