"""Names of custom kinds: what another of the group has is not accepted, and what it leaves is taken."""

import asyncio

import pytest

from tests.cluster.plane import Plane, plain

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OPEN = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
VERSIONS = [{"name": "v1", "served": True, "storage": True, "schema": OPEN}]


def definition(plural, kind, group="n.example.com", **names):
    spec = {"group": group, "scope": "Namespaced", "versions": VERSIONS}
    spec["names"] = {"plural": plural, "kind": kind, **names}
    return plain("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


FIRST = definition("alphas", "Alpha", shortNames=["al", "a"])
# What the second wants; the reason and the words it gets, and the names it has meanwhile. From a real API server.
CLASHES = {
    "a kind (whose list is named after it)": (
        definition("betas", "Alpha"), "ListKindConflict", '"AlphaList" is already in use',
        {"plural": "betas", "kind": ""},
    ),
    "a kind that is another's list": (
        definition("betas", "AlphaList", listKind="BetaList"), "KindConflict", '"AlphaList" is already in use',
        {"plural": "betas", "kind": "", "singular": "alphalist", "listKind": "BetaList"},
    ),
    "a singular": (
        definition("betas", "Beta", singular="alpha"), "SingularConflict", '"alpha" is already in use',
        {"plural": "betas", "kind": "Beta", "listKind": "BetaList"},
    ),
    "a plural that is another's singular": (
        definition("alpha", "Beta"), "PluralConflict", '"alpha" is already in use',
        {"plural": "", "kind": "Beta", "singular": "beta", "listKind": "BetaList"},
    ),
    "short names": (
        definition("betas", "Beta", shortNames=["al", "a", "b"]), "ShortNamesConflict",
        '["al" is already in use, "a" is already in use]',
        {"plural": "betas", "kind": "Beta", "singular": "beta", "listKind": "BetaList"},
    ),
    "everything": (
        definition("al", "Alpha", singular="alpha", shortNames=["a"]), "ListKindConflict",
        '"AlphaList" is already in use', {"plural": "", "kind": ""},
    ),
}  # fmt: skip


def told(answer):
    status = answer.body["status"]
    conditions = {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}
    return conditions["NamesAccepted"], conditions["Established"], status["acceptedNames"]


NEW = ("False", "NotAccepted", "not all names are accepted")
GOOD = ("True", "NoConflicts", "no conflicts found")
SERVED = ("True", "InitialNamesAccepted", "the initial names have been accepted")


@pytest.mark.parametrize(("second", "reason", "words", "names"), CLASHES.values(), ids=CLASHES)
def test_a_name_that_is_taken_is_waited_for(second, reason, words, names):
    async def story():
        plane, where = await Plane().furnish(), f"{PATH}/{second['metadata']['name']}"
        for document in (FIRST, second):
            await plane.ask("POST", PATH, document)
        assert told(await plane.ask("GET", where)) == (("False", reason, words), NEW, names)
        assert (await plane.ask("GET", f"/apis/n.example.com/v1/{second['spec']['names']['plural']}")).code == 404
        await plane.ask("DELETE", f"{PATH}/{FIRST['metadata']['name']}")
        await plane.keeper.settle()
        accepted, established, all_names = told(await plane.ask("GET", where))
        assert (accepted, established) == (GOOD, SERVED)
        assert all_names == (await plane.ask("GET", where)).body["spec"]["names"]

    asyncio.run(story())


def test_another_group_is_another_space():
    async def story():
        plane, other = await Plane().furnish(), definition("alphas", "Alpha", group="o.example.com")
        for document in (FIRST, other):
            await plane.ask("POST", PATH, document)
        assert told(await plane.ask("GET", f"{PATH}/alphas.o.example.com"))[:2] == (GOOD, SERVED)

    asyncio.run(story())


def test_a_definition_that_is_served_stays_so_when_its_new_name_is_taken():
    async def story():
        plane, second = await Plane().furnish(), definition("betas", "Beta")
        for document in (FIRST, second):
            await plane.ask("POST", PATH, document)
        patch = {"spec": {"names": {"shortNames": ["al"]}}}
        where = f"{PATH}/betas.n.example.com"
        await plane.ask("PATCH", where, patch, content_type="application/merge-patch+json")
        accepted, established, names = told(await plane.ask("GET", where))
        assert (accepted[:2], established) == (("False", "ShortNamesConflict"), SERVED)
        assert "shortNames" not in names

    asyncio.run(story())


def test_an_object_is_read_through_the_schema_of_today():
    async def story():
        plane, where = await Plane().furnish(), "/apis/n.example.com/v1/namespaces/default/things"
        text = {"type": "string"}
        body = definition("things", "Thing")
        spec = {"type": "object", "properties": {"old": text, "same": text}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        body["spec"]["versions"] = [{**VERSIONS[0], "schema": schema}]
        await plane.ask("POST", PATH, body)
        await plane.ask("POST", where, plain("n.example.com/v1", "Thing", "x", spec={"old": "1", "same": "2"}))
        later = {"type": "object", "properties": {"new": {**text, "default": "3"}, "same": text}}
        place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
        change = [{"op": "replace", "path": place, "value": later}]
        named = f"{PATH}/things.n.example.com"
        assert (await plane.ask("PATCH", named, change, content_type="application/json-patch+json")).code == 200
        assert (await plane.ask("GET", f"{where}/x")).body["spec"] == {"same": "2", "new": "3"}
        assert [item["spec"] for item in (await plane.ask("GET", where)).body["items"]] == [{"same": "2", "new": "3"}]

    asyncio.run(story())
