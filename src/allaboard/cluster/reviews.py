"""Questions to the server about access: who a token is, who may do what, and tokens for service accounts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import BadRequest, Cause, Invalid, Unauthorized
from allaboard.api.kinds import Kind
from allaboard.api.meta import stamp
from allaboard.cluster import refusals
from allaboard.cluster.access import AUTHENTICATED, Allow, Attributes, Rbac, User
from allaboard.cluster.ask import Ask, Place
from allaboard.cluster.ownership import track
from allaboard.cluster.plane import Cluster
from allaboard.cluster.store import encode
from allaboard.cluster.tokens import BIND_KINDS, ISSUER, Claim, Tokens
from allaboard.merge import apply as merging
from allaboard.merge.apply import Actor
from allaboard.schema import builtin
from allaboard.schema.structure import Structure

HOUR = 3600
TOKEN_VERSION = "authentication.k8s.io/v1"
TOKEN_REQUEST = Structure({"$ref": builtin.type_of(TOKEN_VERSION, "TokenRequest")})
SHORTEST, LONGEST = 600, 1 << 32


class Reviews:
    """Answers reviews; nothing of it is stored."""

    def __init__(self, cluster: Cluster, tokens: Tokens, access: Allow | Rbac) -> None:
        self.cluster, self.tokens, self.access = cluster, tokens, access

    def answer(self, place: Place, document: Document, ask: Ask) -> Document | None:
        """The review with its status; None where the kind is no review."""
        spec = document.get("spec") or {}
        match place.rules.kind.kind:
            case "TokenReview":
                status = self._token(spec)
            case "SelfSubjectReview":
                metadata = {"creationTimestamp": stamp(self.cluster.world.now())}
                return {**document, "metadata": metadata, "status": {"userInfo": ask.user.document()}}
            case "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview":
                return self._access(place, document, ask)
            case "SelfSubjectRulesReview":
                return {**document, "spec": {}, "status": self._rules(ask.user, spec.get("namespace") or "")}
            case _:
                return None
        return {**track(place, document, None, ask, self.cluster.world.now()), "status": status}

    def _token(self, spec: Document) -> Document:
        if not spec.get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            user, audiences = self.tokens.user(spec["token"], self.cluster.world.now(), spec.get("audiences") or ())
        except Unauthorized:
            wanted = spec.get("audiences") or [ISSUER]
            return {"user": {}, "error": _unwelcome(self.tokens.made_for(spec["token"]), wanted)}
        shown = {"audiences": list(audiences)} if audiences else {"audiences": [ISSUER]}
        return {"authenticated": True, "user": user.document(), **shown}

    def _access(self, place: Place, document: Document, ask: Ask) -> Document:
        """Whether somebody may do something, and by which binding."""
        kind, spec = place.rules.kind, document.get("spec") or {}
        tracked = track(place, _placed(place, document), None, ask, self.cluster.world.now())
        if causes := access_causes(kind.kind, tracked, place.key.namespace):
            raise _nameless(kind.group, causes)
        user = ask.user if kind.kind.startswith("Self") else _subject(spec)
        wanted = _attributes(spec)
        status: Document = {"allowed": self.access.allows(user, wanted)}
        if status["allowed"] and (why := self.access.why(user, wanted)):
            status["reason"] = why
        return {**tracked, "status": status}

    def _rules(self, user: User, namespace: str) -> Document:
        if not namespace:
            raise BadRequest("no namespace on request")
        rules = self.access.rules_for(user, namespace)
        resources = [rule for rule in rules if not rule.get("nonResourceURLs")]
        paths = [rule for rule in rules if rule.get("nonResourceURLs")]
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}

    def request_token(self, place: Place, document: Document, ask: Ask) -> Document:
        """A token for a service account."""
        account = self.cluster.head.get(kinds.SERVICE_ACCOUNT, place.key)
        if account is None:
            raise refusals.not_found(place.rules.kind, place.key.name)
        if self.tokens.signer is None:
            raise BadRequest("this server signs no service account tokens; give it a signing key")
        asked = document.get("spec") or {}
        spec = dict(asked)
        spec["audiences"] = spec.get("audiences") or [self.tokens.signer.issuer]
        seconds = spec["expirationSeconds"] = spec.get("expirationSeconds") or HOUR
        spec.setdefault("boundObjectRef", None)
        _check_seconds(seconds)
        _check_account(place, document["metadata"].get("name") or place.key.name)
        now = self.cluster.world.now()
        bound = self._bound(spec["boundObjectRef"], place.key.namespace)
        token = self.tokens.signer.sign(
            Claim(account, spec["audiences"], seconds, now, self.cluster.world.uid(), bound)
        )
        metadata = {name: account["metadata"][name] for name in ("name", "namespace", "uid")}
        metadata["creationTimestamp"] = stamp(now)
        actor = Actor(ask.manager, TOKEN_VERSION, stamp(now), "token")
        stated = {
            "kind": "TokenRequest",
            "apiVersion": TOKEN_VERSION,
            "metadata": metadata,
            "spec": {**asked, "expirationSeconds": seconds},
        }
        answer = merging.track(None, stated, TOKEN_REQUEST, actor)
        status = {"token": token, "expirationTimestamp": stamp(now + timedelta(seconds=seconds))}
        return {**answer, "spec": spec, "status": status}

    def _bound(self, reference: Document | None, namespace: str) -> Document | None:
        if reference is None:
            return None
        kind = BIND_KINDS.get(reference.get("kind", ""))
        if kind is None:
            version = reference.get("apiVersion") or ""
            version = version if "/" in version else f"/{version}"
            raise BadRequest(f"cannot bind token to object of type {version}, Kind={reference.get('kind', '')}")
        key = Key(namespace if kind.namespaced else "", reference.get("name", ""))
        holder = self.cluster.head.get(kind, key)
        if holder is None:
            raise refusals.not_found(kind, key.name)
        if reference.get("uid") and reference["uid"] != holder["metadata"]["uid"]:
            why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            raise refusals.conflict(kind, key.name, f"{why}The object might have been deleted and then recreated")
        return holder


def _check_account(place: Place, named: str) -> None:
    if named != place.key.name:
        words = f'Invalid value: "{named}": must match the service account name if specified'
        kind = Kind("authentication.k8s.io", "v1", "TokenRequest", "")
        raise refusals.invalid(kind, place.key.name, [Cause("FieldValueInvalid", "metadata.name", words)])


def _check_seconds(seconds: int) -> None:
    words = ""
    if seconds < SHORTEST:
        words = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
    elif seconds > LONGEST:
        words = f"Invalid value: {seconds}: may not specify a duration larger than 2^32 seconds"
    if words:
        kind = Kind("authentication.k8s.io", "v1", "TokenRequest", "")
        raise refusals.invalid(kind, "", [Cause("FieldValueInvalid", "spec.expirationSeconds", words)])


def _unwelcome(made_for: Sequence[str], wanted: Sequence[str]) -> str:
    if not made_for or set(made_for) & set(wanted):
        return "invalid bearer token"
    theirs, ours = (encode(list(audiences)).decode() for audiences in (made_for, wanted))
    return f"[invalid bearer token, token audiences {theirs} is invalid for the target audiences {ours}]"


def _placed(place: Place, review: Document) -> Document:
    """The review where it was sent to; only what lies in a namespace speaks of one."""
    metadata, namespace = review["metadata"], place.key.namespace
    if namespace and (metadata.get("namespace") or namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    named = {name: value for name, value in metadata.items() if name == "name"}
    named |= {"namespace": namespace} if namespace else {}
    rest = {name: value for name, value in metadata.items() if name not in ("name", "namespace")}
    return {**review, "metadata": named | rest}


def _subject(spec: Document) -> User:
    groups = tuple(spec.get("groups") or ())
    extra = {name: tuple(values) for name, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", (*groups, AUTHENTICATED), spec.get("uid") or "", extra)


def access_causes(kind: str, review: Document, namespace: str) -> list[Cause]:
    """What is wrong with a question about access."""
    spec, said = review.get("spec") or {}, review["metadata"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    causes: list[Cause] = []
    if not kind.startswith("Self") and not spec.get("user") and not spec.get("groups"):
        causes.append(_invalid("spec.user", '""', "at least one of user or group must be specified"))
    causes += _attribute_causes(resource, path)
    causes += [cause for name in ("fieldSelector", "labelSelector") for cause in _selector_causes(resource or {}, name)]
    if set(said) - {"managedFields", *(("namespace",) if namespace else ())}:
        causes.append(_invalid("metadata", encode(said).decode(), "must be empty"))
    if namespace and resource is not None and (resource.get("namespace") or "") != namespace:
        shown = encode(resource.get("namespace") or "").decode()
        causes.append(_invalid("spec.resourceAttributes.namespace", shown, "must match metadata.namespace"))
    if namespace and path is not None:
        causes.append(_invalid("spec.nonResourceAttributes", _go_path(path), "disallowed on this kind of request"))
    return causes


def _attribute_causes(resource: Document | None, path: Document | None) -> list[Cause]:
    if (resource is None) is not (path is None):
        return []
    shown = "null" if resource is None else "{}"
    words = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    return [_invalid("spec", shown, words)]


def _selector_causes(resource: Document, name: str) -> list[Cause]:
    selector = resource.get(name) or {}
    if not selector.get("rawSelector") or not selector.get("requirements"):
        return []
    shown = encode(selector["rawSelector"]).decode()
    words = "may not specified at the same time as requirements"
    return [_invalid(f"spec.resourceAttributes.{name}.rawSelector", shown, words)]


def _go_path(path: Document) -> str:
    return encode({"Path": path.get("path") or "", "Verb": path.get("verb") or ""}).decode()


def _invalid(where: str, shown: str, words: str) -> Cause:
    return Cause("FieldValueInvalid", where, f"Invalid value: {shown}: {words}")


def _nameless(group: str, causes: list[Cause]) -> Invalid:
    """Upstream: these refusals know their group only."""
    return Invalid(f'.{group} "" is invalid: {refusals.summed(tuple(causes))}', details={"group": group}, causes=causes)


def _attributes(spec: Document) -> Attributes:
    if (path := spec.get("nonResourceAttributes")) is not None:
        return Attributes(path.get("verb") or "", path=path.get("path") or "")
    wanted = spec["resourceAttributes"]
    parts = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(wanted.get(part) or "" for part in parts))
