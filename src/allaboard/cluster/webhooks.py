"""Admission webhooks: in which order they are asked, what they are sent, and what their answers mean."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable

import msgspec

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents
from allaboard.api.errors import ApiError, Cause, Internal, from_status
from allaboard.api.kinds import Kind
from allaboard.cluster.admission import Request, Rounds, View
from allaboard.cluster.interest import Equivalents, concerned, meets
from allaboard.cluster.outside import Caller, Unreachable
from allaboard.cluster.rules import Rules
from allaboard.merge.patch import Rejected, json_patch

SECONDS = 10
LONGEST_PREFIX, SUFFIX = 58, 5
EMPTY = base64.b64encode(b"[]")
# A document in another version of its kind.
Translate = Callable[[Rules, Document], Awaitable[Document]]


class Webhooks:
    """Asks the webhooks that configurations in the store name."""

    def __init__(self, caller: Caller, view: View, equivalents: Equivalents, translate: Translate) -> None:
        self.caller, self.view = caller, view
        self.equivalents, self.translate = equivalents, translate

    def are_there(self) -> bool:
        return bool(self.view.list(kinds.MUTATING_WEBHOOK) or self.view.list(kinds.VALIDATING_WEBHOOK))

    async def mutate(self, request: Request, rounds: Rounds) -> Document | None:
        """One after the other in the order of their names; those that want it are asked again after a change."""
        for index, hook in enumerate(self._configured(kinds.MUTATING_WEBHOOK, request)):
            rules = concerned(hook, request, self.view, self.equivalents)
            if rules is None or not rounds.includes(index):
                continue
            asked = await self._as(rules, request)
            changed = await self._mutated(hook, asked, request)
            if changed is not None:
                back = changed if rules is request.rules else await self.translate(request.rules, changed)
                request = request.about(back)
            rounds.note(index, changed=changed is not None, again=hook.get("reinvocationPolicy") == "IfNeeded")
        return request.new

    async def validate(self, request: Request) -> None:
        """All at once; the first refusal in their order counts."""
        asked = []
        for hook in self._configured(kinds.VALIDATING_WEBHOOK, request):
            rules = concerned(hook, request, self.view, self.equivalents)
            if rules is not None:
                asked.append(self._ask(hook, await self._as(rules, request), request, mutating=False))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    def _configured(self, kind: Kind, request: Request) -> Documents:
        if request.kind in (kinds.MUTATING_WEBHOOK, kinds.VALIDATING_WEBHOOK):
            return []
        configurations = sorted(self.view.list(kind), key=lambda document: str(document["metadata"]["name"]))
        return [hook for configuration in configurations for hook in configuration.get("webhooks") or ()]

    async def _as(self, rules: Rules, request: Request) -> Request:
        """The request as a webhook that wants another version sees it."""
        if rules is request.rules:
            return request
        new = None if request.new is None else await self.translate(rules, request.new)
        old = None if request.old is None else await self.translate(rules, request.old)
        return request.of(rules, new, old)

    async def _mutated(self, hook: Document, asked: Request, request: Request) -> Document | None:
        """The document as a webhook changed it; None where it did not."""
        response = await self._ask(hook, asked, request, mutating=True)
        try:
            operations = msgspec.json.decode(base64.b64decode(response.get("patch") or EMPTY))
        except (binascii.Error, ValueError):
            self._unheard(hook, "received undecodable patch in webhook response: unexpected end of JSON input")
            return None
        if not operations:
            return None
        if asked.new is None:
            words = "attempted to modify the object, which is not supported for this operation"
            raise internal(f'admission webhook "{hook["name"]}" {words}')
        if response["patchType"] != "JSONPatch":
            self._unheard(hook, f'unsupported patch type "{response["patchType"]}"')
            return None
        patched = _patched(asked, operations)
        return None if patched == asked.new else patched

    async def _ask(self, hook: Document, asked: Request, request: Request, *, mutating: bool) -> Document:
        """The response of a webhook that allows, {} where none counts; raises where it refuses."""
        review = review_of(hook, asked, request, self.caller.uid(), mutating=mutating)
        if not meets(hook, review["request"]):
            return {}
        seconds = int(hook.get("timeoutSeconds") or SECONDS)
        try:
            answer = await self.caller.post(hook["clientConfig"], review, seconds, f"?timeout={seconds}s")
        except Unreachable as fault:
            self._unheard(hook, f"failed to call webhook: {fault}")
            return {}
        if why := unusable(answer, review, mutating=mutating):
            self._unheard(hook, f"received invalid webhook response: {why}")
            return {}
        response: Document = answer["response"]
        request.warnings.extend(response.get("warnings") or ())
        if not response.get("allowed"):
            raise denial(hook["name"], response.get("status") or {})
        return response

    def _unheard(self, hook: Document, words: str) -> None:
        """No usable answer: a failure, unless that may be ignored."""
        if hook.get("failurePolicy") != "Ignore":
            raise internal(f'failed calling webhook "{hook["name"]}": {words}')


def _patched(request: Request, operations: object) -> Document:
    """The document after a webhook's patch, read again as its kind: what the kind does not know is dropped."""
    try:
        patched = json_patch(request.new or {}, operations)
    except Rejected as fault:
        raise internal(fault.why) from fault
    except ApiError as fault:
        raise internal(fault.message) from fault
    admitted = request.rules.structure.admit(patched)
    if admitted.malformed:
        raise internal(admitted.malformed)
    return request.rules.default(admitted.document)


def review_of(hook: Document, asked: Request, request: Request, uid: str, *, mutating: bool) -> Document:
    """The AdmissionReview a webhook is sent; `asked` is the request in the version the webhook wants."""
    kind, sent = asked.kind, request.kind
    form = next((form for form in hook.get("admissionReviewVersions") or () if form in ("v1", "v1beta1")), "v1")
    new = unborn(asked.new) if mutating and request.operation == "CREATE" and asked.new else asked.new
    body: Document = {
        "uid": uid,
        "kind": _kind(kind),
        "resource": _resource(kind),
        "requestKind": _kind(sent),
        "requestResource": _resource(sent),
        "name": request.key.name if new is asked.new or new is None else new["metadata"].get("name", ""),
        "namespace": request.key.namespace,
        "operation": request.operation,
        "userInfo": request.user.document(),
        "object": new,
        "oldObject": asked.old,
        "dryRun": request.dry_run,
        "options": options_of(request),
    }
    body = {name: value for name, value in body.items() if value != ""}
    if request.subresource:
        body |= {"subResource": request.subresource, "requestSubResource": request.subresource}
    return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{form}", "request": body}


def _kind(kind: Kind) -> Document:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: Kind) -> Document:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def unborn(document: Document) -> Document:
    """A new document as mutating webhooks see it: before the server gives it a name and an identity."""
    given = document["metadata"]
    metadata = {k: v for k, v in given.items() if k not in ("uid", "creationTimestamp", "generation")}
    prefix = str(given.get("generateName") or "")[:LONGEST_PREFIX]
    if prefix and len(given.get("name", "")) == len(prefix) + SUFFIX and given["name"].startswith(prefix):
        del metadata["name"]
    return {**document, "metadata": metadata}


_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def options_of(request: Request) -> Document | None:
    """How the write was asked for, as a typed document of what it turned out to be."""
    kind = _OPTIONS.get(request.operation)
    said = {name: value for name, value in request.options.items() if name not in ("kind", "apiVersion", "force")}
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **said} if kind else None


def unusable(answer: Document, review: Document, *, mutating: bool) -> str:
    """What is wrong with an answer, if anything. Upstream: admissionreview.go, VerifyAdmissionResponse."""
    response, uid = answer.get("response"), review["request"]["uid"]
    if not isinstance(response, dict):
        return "webhook response was absent"
    if review["apiVersion"].endswith("/v1beta1"):
        return ""
    if response.get("uid", "") != uid:
        return f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
    if not answer.get("kind"):
        return f"expected webhook response of {review['apiVersion']}, Kind={review['kind']}, got /, Kind="
    patch, form = response.get("patch"), response.get("patchType")
    if not mutating:
        found = "patch" if patch else "patchType" if form is not None else ""
        return f"validating webhook may not return response.{found}" if found else ""
    if patch and form is None:
        return "webhook returned response.patch but not response.patchType"
    if form is not None and not patch:
        return "webhook returned response.patchType but not response.patch"
    return f'webhook returned invalid response.patchType of "{form}"' if form == "" else ""


def internal(words: str) -> Internal:
    return Internal(f"Internal error occurred: {words}", causes=[Cause("", "", words)])


def denial(name: str, status: Document) -> ApiError:
    """A webhook's refusal, in the server's words."""
    by = f'admission webhook "{name}" denied the request'
    words = status.get("message") or status.get("reason")
    code = max(int(status.get("code") or 0), 400)
    message = f"{by}: {words}" if words else f"{by} without explanation"
    return from_status(code, {**status, "message": message, "reason": status.get("reason", "")})
