"""From a request to its answer: the method and the place choose the verb."""

from __future__ import annotations

from allaboard.api.documents import Document
from allaboard.api.errors import BadRequest
from allaboard.cluster import options, refusals
from allaboard.cluster.answers import Answer, Shaper, negotiate, written
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.call import (
    APPLY,
    Call,
    asked,
    check_patch_type,
    read_apply,
    read_body,
    read_delete_options,
    read_patch,
)
from allaboard.cluster.create import create
from allaboard.cluster.delete import Outcome, Wish, delete, delete_collection
from allaboard.cluster.patch import Patch, apply, patch
from allaboard.cluster.plane import Cluster
from allaboard.cluster.pods import wish_of
from allaboard.cluster.read import Page, Query, found, listed
from allaboard.cluster.registry import table_of
from allaboard.cluster.subresources import Flow, Subresources
from allaboard.cluster.update import update
from allaboard.cluster.versions import ready


class Dispatcher:
    """Answers requests about objects. Watches are streams and answered elsewhere."""

    def __init__(self, cluster: Cluster, subresources: Subresources) -> None:
        self.cluster, self.subresources = cluster, subresources

    def shaper(self, call: Call, place: Place) -> Shaper:
        form = negotiate(call.headers.get("accept", ""), streams=call.method == "GET" and not place.key.name)
        include = options.first(call.query, "includeObject")
        return Shaper(self.cluster.store, place.rules, form, self.cluster.world.now, include)

    async def answer(self, call: Call, place: Place) -> Answer | Flow:
        """The answer to a request about an object, a collection or a subresource."""
        check_method(call, place)
        if place.subresource or "get" not in place.rules.verbs:
            special = await self.subresources.answer(call, place)
            if special is not None:
                return special
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
            case "DELETE", False:
                return await self._delete_collection(call, place)
        raise refusals.no_method()

    async def _get(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        if revision := options.first(call.query, "resourceVersion"):
            self._check_number(revision)
        return shaper.one(await found(self.cluster, place))

    def _check_number(self, revision: str) -> None:
        if words := options.no_revision(revision):
            raise refusals.bare(500, words)
        if int(revision) > self.cluster.store.committed:
            raise refusals.from_the_future(int(revision), self.cluster.store.committed)

    async def _list(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        wanted = options.read_list(place.rules, call.query).query
        if wanted.start and wanted.revision not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        if words := options.no_revision(wanted.revision):
            raise BadRequest(f"invalid resource version: {words}")
        if wanted.revision and int(wanted.revision) > self.cluster.store.committed:
            raise refusals.from_the_future(int(wanted.revision), self.cluster.store.committed)
        return shaper.page(await self._ready(place, wanted))

    async def _ready(self, place: Place, wanted: Query) -> Page:
        """A list whose items can be shown; fields that only a conversion tells are looked at after it."""
        if place.rules.converter is not None:
            await ready(place.rules, self.cluster.store.table(table_of(place.rules)).items(), self.cluster.store)
        return listed(self.cluster, place, wanted)

    async def _create(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        ask = asked(call, options.read_write("CreateOptions", call.query))
        document, twice = read_body(call, place)
        item = await create(self.cluster, place, document, ask, twice)
        return shaper.one(item, 201)

    async def _update(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        ask = asked(call, options.read_write("UpdateOptions", call.query))
        document, twice = read_body(call, place)
        item, new = await update(self.cluster, place, document, ask, twice)
        return shaper.one(item, 201 if new else 200)

    async def _patch(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        media = call.content_type.split(";")[0].strip().lower()
        check_patch_type(media, place)
        ask = asked(call, options.read_write("PatchOptions", call.query, apply=media in APPLY))
        if media in APPLY:
            document, twice = read_apply(call.data)
            item, new = await apply(self.cluster, place, document, ask, twice)
            return shaper.one(item, 201 if new else 200)
        value, twice = read_patch(call.data, media)
        item = await patch(self.cluster, place, Patch(media, value, twice), ask)
        return shaper.one(item)

    async def _delete(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        wish, ask = self._wish(call)
        outcome = await delete(self.cluster, place, wish, ask)
        if not outcome.gone or place.rules.answers_object:
            return shaper.one(outcome.item)
        return written(shaper.form, deleted(place, outcome))

    async def _delete_collection(self, call: Call, place: Place) -> Answer:
        shaper = self.shaper(call, place)
        wanted = options.read_list(place.rules, call.query).query
        wish, ask = self._wish(call)
        page = await self._ready(place, wanted)
        await delete_collection(self.cluster, place, [item.key for item in page.items], wish, ask)
        return shaper.page(page)

    def _wish(self, call: Call) -> tuple[Wish, Ask]:
        stated = read_delete_options(call) if call.data else options.read_delete(call.query)
        if causes := options.delete_causes(stated):
            raise refusals.options_invalid("DeleteOptions", causes)
        ask = Ask(call.user, dry_run=bool(stated.get("dryRun")), options=stated, warnings=call.warnings)
        return wish_of(stated), ask


VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def check_method(call: Call, place: Place) -> None:
    """Refuse a method that the place does not have."""
    verb = VERBS.get(call.method, "")
    if place.rules.refusal and verb in ("create", "update", "patch"):
        raise refusals.forbidden(place.rules.kind, place.key.name, place.rules.refusal)
    if place.subresource:
        found = next(sub for sub in place.rules.resource["subresources"] if sub["name"] == place.subresource)
        verbs = found["verbs"]
    else:
        verbs = place.rules.verbs
        if not place.key.name:
            verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    if verb not in verbs:
        raise refusals.not_supported(place.rules.kind, verb) if place.rules.custom else refusals.no_method()


def deleted(place: Place, outcome: Outcome) -> Document:
    """The Status that says an object is gone."""
    details = refusals.details(place.rules.kind, outcome.item.key.name) | {"uid": outcome.item.uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
