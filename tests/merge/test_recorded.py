"""Recorded exchanges of a real API server, pushed through apply, tracking and patches without a server around them."""

import json
from pathlib import Path

import pytest

from allaboard.api import crds
from allaboard.api.errors import ApiError
from allaboard.merge.apply import SPEC_AND_METADATA, STATUS, Actor, apply, track
from allaboard.merge.patch import json_patch, merge_patch
from allaboard.schema import builtin, structure

RECORDED = Path(__file__).parents[3] / "shared" / "conformance" / "kube" / "scenarios"
# Kinds without defaults or generated fields of their own: what merging makes is what the server answers.
SCENARIOS = ["ssa-configmap", "ssa-custom-lists", "ssa-entry-order", "ssa-trainjob", "ssa-jobset", "ssa-errors"]
SCENARIOS += ["ssa-empty-and-null", "patch-json", "patch-merge"]
PLAIN = {"ConfigMap"}
# The answer depends on something else than merging: another door, the text of a body.
LEFT_OUT = {"ssa-trainjob/22-patch", "patch-merge/19-patch"}


class World:
    """What a scenario has made so far: the kinds it knows, and the objects as the real server answered them."""

    def __init__(self):
        self.kinds, self.objects = {}, {}
        for definition in crds.documents():
            self.learn(definition)
        for resource in builtin.resources():
            version = f"{resource['group']}/{resource['version']}".lstrip("/")
            name = builtin.type_of(version, resource["kind"])
            if name and resource["kind"] in PLAIN:
                self.kinds[version, resource["plural"]] = (structure.compile({"$ref": name}), False)

    def learn(self, definition):
        spec = definition["spec"]
        for version in spec["versions"]:
            found = structure.compile(version["schema"]["openAPIV3Schema"])
            has_status = "status" in (version.get("subresources") or {})
            self.kinds[f"{spec['group']}/{version['name']}", spec["names"]["plural"]] = (found, has_status)


def placed(path):
    """apiVersion, plural, name and subresource of a path."""
    parts = path.strip("/").split("/")
    version, rest = (parts[1], parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
    rest = rest[2:] if rest[:1] == ["namespaces"] and len(rest) > 2 else rest
    return version, *(rest + ["", "", ""])[:3]


def steps(name):
    path = RECORDED / f"{name}.json"
    if not path.exists():
        return
    for step in json.loads(path.read_text())["steps"]:
        request = step.get("request") or {}
        if request.get("method") == "GET" or isinstance(request.get("body"), dict | list):
            yield step["id"], request, step["expect"]


def made(world, request, second):
    version, plural, name, door = placed(request["path"])
    found, has_status = world.kinds[version, plural]
    live, body, query = world.objects.get((plural, name)), request["body"], request.get("query") or {}
    reset = SPEC_AND_METADATA if door else STATUS if has_status else {}
    manager = query.get("fieldManager") or "conformance"
    actor = Actor(manager, version, f"2026-01-01T00:00:{second:02d}Z", door, reset)
    media = (request.get("headers") or {}).get("Content-Type", "")
    if "apply" in media:
        return found.admit(apply(live, body, found, actor, force="force" in query), sent=False).document
    if request["method"] == "PATCH":
        body = (json_patch if "json-patch" in media else merge_patch)(live, body)
    new = found.admit(body).document
    if live is not None:
        kept = {k: live["metadata"][k] for k in ("uid", "creationTimestamp", "generation") if k in live["metadata"]}
        new = {**new, "metadata": {**new["metadata"], **kept}}
    return track(live, new, found, actor)


def timeless(document):
    entries = document["metadata"].get("managedFields") or []
    return sorted(json.dumps({**entry, "time": "time" in entry}, sort_keys=True) for entry in entries)


def with_times(answer, ours):
    """The recorded object with the times of our own entries: the markers of the recording are no times."""
    known = {
        (e["manager"], e["operation"], e.get("subresource")): e.get("time")
        for e in ours["metadata"].get("managedFields") or []
    }
    for entry in answer["metadata"].get("managedFields") or []:
        if "time" in entry:
            entry["time"] = (
                known.get((entry["manager"], entry["operation"], entry.get("subresource"))) or "2026-01-01T00:00:00Z"
            )
    return answer


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recorded_scenario(scenario):
    if not RECORDED.exists():
        pytest.skip("no recorded data beside the repository")
    world, wrong = World(), []
    for second, (step, request, expected) in enumerate(steps(scenario)):
        version, plural, name, door = placed(request["path"])
        answer = expected.get("body") or {}
        if plural == "customresourcedefinitions" and expected["status"] == 201:
            world.learn(request["body"])
        if (version, plural) not in world.kinds or door not in ("", "status"):
            continue
        if f"{scenario}/{step}" in LEFT_OUT or (request["method"] == "GET" and name and not door):
            world.objects[plural, name] = with_times(answer, world.objects[plural, name])
            continue
        if request["method"] == "GET":
            continue
        try:
            ours = made(world, request, second)
        except ApiError as refusal:
            if (refusal.code, refusal.message) != (expected["status"], answer.get("message")):
                wrong.append((step, refusal.message, answer.get("message")))
            continue
        if expected["status"] >= 400:
            continue
        if timeless(ours) != timeless(answer):
            wrong.append((step, timeless(ours), timeless(answer)))
        for part in set(answer) - {"metadata", "status"}:
            if ours.get(part) != answer[part]:
                wrong.append((step, part, ours.get(part), answer[part]))
        if "dryRun" not in (request.get("query") or {}):
            world.objects[plural, name or answer["metadata"]["name"]] = with_times(answer, ours)
    assert not wrong
