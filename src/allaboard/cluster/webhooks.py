"""Admission webhooks by URL: which are asked about a request, what they are sent, and what their answers mean.

The call itself is a function that main hands in: this module reaches nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import ApiError, Internal, from_status
from allaboard.api.kinds import Kind
from allaboard.api.selectors import from_document
from allaboard.cluster.admission import Request, View
from allaboard.cluster.world import World
from allaboard.merge.patch import json_patch
from allaboard.schema.cel.compiler import CelCompileError, Program, compile_rule
from allaboard.schema.cel.scope import Scope
from allaboard.schema.cel.types import DYN
from allaboard.schema.cel.values import CelError

# (url, review, seconds, CA bundle) → the review that came back.
Call = Callable[[str, Document, float, bytes], Awaitable[Document]]
# Where a service of the cluster listens; "" where nobody knows.
Locate = Callable[[Document], str]
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Outside:
    """What webhooks need of the outside world."""

    call: Call
    locate: Locate = lambda service: ""


class Webhooks:
    """Asks the webhooks that configurations in the store name."""

    def __init__(self, outside: Outside, view: View, world: World) -> None:
        self.outside, self.view, self.world = outside, view, world

    def are_there(self) -> bool:
        return bool(self.view.list(kinds.MUTATING_WEBHOOK) or self.view.list(kinds.VALIDATING_WEBHOOK))

    async def mutate(self, request: Request) -> Document | None:
        """One after the other in the order of their names; those that want it are asked again after a change."""
        hooks = self._interested(kinds.MUTATING_WEBHOOK, request)
        changed_after: set[int] = set()
        for index, hook in enumerate(hooks):
            changed = await self._mutated(hook, request)
            if changed is not None:
                request = request.about(changed)
                changed_after |= set(range(index))
        for index in sorted(changed_after):
            if hooks[index].get("reinvocationPolicy") == "IfNeeded":
                changed = await self._mutated(hooks[index], request)
                request = request if changed is None else request.about(changed)
        return request.new if hooks else None

    async def validate(self, request: Request) -> None:
        """All at once; the first refusal in their order counts."""
        hooks = self._interested(kinds.VALIDATING_WEBHOOK, request)
        if hooks:
            await asyncio.gather(*(self._ask(hook, request) for hook in hooks))

    def _interested(self, kind: Kind, request: Request) -> Sequence[Document]:
        if request.kind in (kinds.MUTATING_WEBHOOK, kinds.VALIDATING_WEBHOOK):
            return ()
        configurations = sorted(self.view.list(kind), key=lambda document: str(document["metadata"]["name"]))
        hooks = [hook for configuration in configurations for hook in configuration.get("webhooks") or ()]
        return [hook for hook in hooks if concerns(hook, request, self.view)]

    async def _mutated(self, hook: Document, request: Request) -> Document | None:
        response = await self._ask(hook, request)
        if not response.get("patch"):
            return None
        try:
            operations = msgspec.json.decode(base64.b64decode(response["patch"]))
            return json_patch(request.new or {}, operations)
        except (binascii.Error, ValueError, ApiError) as fault:
            raise Internal(f"Internal error occurred: {fault}") from fault

    async def _ask(self, hook: Document, request: Request) -> Document:
        """The response of a webhook that allows; raises where it does not, or cannot be reached and must."""
        name = hook["name"]
        review = review_of(request, self.world.uid())
        if not meets(hook, review["request"]):
            return {}
        try:
            answer = await self._call(hook, review)
            response = answer["response"]
            if response.get("uid") != review["request"]["uid"]:
                raise ValueError(f"expected response.uid={review['request']['uid']!r}, got {response.get('uid')!r}")
        except (ApiError, OSError, TimeoutError, KeyError, TypeError, ValueError) as fault:
            if hook.get("failurePolicy") == "Ignore":
                return {}
            words = f'failed calling webhook "{name}": failed to call webhook: {fault}'
            raise Internal(f"Internal error occurred: {words}") from fault
        request.warnings.extend(response.get("warnings") or ())
        if not response.get("allowed"):
            raise denial(name, response.get("status") or {})
        return dict(response)

    async def _call(self, hook: Document, review: Document) -> Document:
        config = hook["clientConfig"]
        url = config.get("url") or self.outside.locate(config.get("service") or {})
        if not url:
            raise ValueError(f"service {(config.get('service') or {}).get('name')!r} has no address this server knows")
        bundle = base64.b64decode(config.get("caBundle") or "")
        return await self.outside.call(url, review, float(hook.get("timeoutSeconds") or SECONDS), bundle)


def meets(hook: Document, request: Document) -> bool:
    """Whether a request meets every condition of a webhook; one that cannot be judged refuses, or is passed over."""
    scope = Scope({"object": request["object"], "oldObject": request["oldObject"], "request": request})
    fault = ""
    for condition in hook.get("matchConditions") or ():
        try:
            if _condition(condition["expression"]).run(scope) is False:
                return False
        except (CelError, CelCompileError) as problem:
            fault = fault or f"{condition.get('name')}: {problem}"
    if fault and hook.get("failurePolicy") != "Ignore":
        raise Internal(f'Internal error occurred: failed calling webhook "{hook["name"]}": match condition {fault}')
    return not fault


@lru_cache(maxsize=256)
def _condition(text: str) -> Program:
    return compile_rule(text, {"object": DYN, "oldObject": DYN, "request": DYN})


def concerns(hook: Document, request: Request, view: View) -> bool:
    """Whether a webhook wants to be asked about a request."""
    if not any(_rule_matches(rule, request) for rule in hook.get("rules") or ()):
        return False
    objects = from_document(hook.get("objectSelector") or {})
    if objects.requirements and not any(d and objects.matches_document(d) for d in (request.new, request.old)):
        return False
    spaces = from_document(hook.get("namespaceSelector") or {})
    if not spaces.requirements:
        return True
    if request.kind == kinds.NAMESPACE:
        return spaces.matches_document(request.new or request.old or {})
    if not request.key.namespace:
        return True
    return spaces.matches_document(view.get(kinds.NAMESPACE, Key("", request.key.namespace)) or {})


def _rule_matches(rule: Document, request: Request) -> bool:
    kind = request.kind
    resource = f"{kind.plural}/{request.subresource}" if request.subresource else kind.plural
    scope = rule.get("scope") or "*"
    return (
        _among(rule.get("operations"), request.operation)
        and _among(rule.get("apiGroups"), kind.group)
        and _among(rule.get("apiVersions"), kind.version)
        and any(_resource_matches(each, resource) for each in rule.get("resources") or ())
        and scope in ("*", "Namespaced" if kind.namespaced else "Cluster")
    )


def _among(values: Sequence[str] | None, value: str) -> bool:
    return any(each in ("*", value) for each in values or ())


def _resource_matches(wanted: str, resource: str) -> bool:
    name, _, part = resource.partition("/")
    wanted_name, _, wanted_part = wanted.partition("/")
    return wanted_name in ("*", name) and (wanted_part in ("*", part) if part else not wanted_part or wanted == "*/*")


def review_of(request: Request, uid: str) -> Document:
    """The AdmissionReview a webhook is sent."""
    kind = request.kind
    about = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    body: Document = {
        "uid": uid,
        "kind": about,
        "resource": resource,
        "requestKind": about,
        "requestResource": resource,
        "name": request.key.name,
        "namespace": request.key.namespace,
        "operation": request.operation,
        "userInfo": request.user.document(),
        "object": request.new,
        "oldObject": request.old,
        "dryRun": request.dry_run,
        "options": request.options or None,
    }
    if request.subresource:
        body |= {"subResource": request.subresource, "requestSubResource": request.subresource}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": body}


def denial(name: str, status: Document) -> ApiError:
    """A webhook's refusal, in the server's words."""
    by = f'admission webhook "{name}" denied the request'
    words = status.get("message") or status.get("reason")
    code = max(int(status.get("code") or 0), 400)
    message = f"{by}: {words}" if words else f"{by} without explanation"
    return from_status(code, {**status, "message": message, "reason": status.get("reason", "")})
