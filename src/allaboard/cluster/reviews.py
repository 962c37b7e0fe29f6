"""Questions to the server about access: who a token is, who may do what, and tokens for service accounts."""

from __future__ import annotations

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
            case "SelfSubjectAccessReview":
                status = self._access(ask.user, place, spec)
            case "SubjectAccessReview" | "LocalSubjectAccessReview":
                status = self._access(_subject(place, spec), place, spec)
            case "SelfSubjectRulesReview":
                status = self._rules(ask.user, spec.get("namespace") or "")
            case _:
                return None
        tracked = track(place, document, None, ask, self.cluster.world.now())
        metadata = {name: value for name, value in tracked.get("metadata", {}).items() if name == "managedFields"}
        return {**tracked, "metadata": metadata, "status": status}

    def _token(self, spec: Document) -> Document:
        if not spec.get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            user, audiences = self.tokens.user(spec["token"], self.cluster.world.now(), spec.get("audiences") or ())
        except Unauthorized:
            return {"user": {}, "error": "invalid bearer token"}
        shown = {"audiences": list(audiences)} if audiences else {"audiences": [ISSUER]}
        return {"authenticated": True, "user": user.document(), **shown}

    def _access(self, user: User, place: Place, spec: Document) -> Document:
        wanted = _attributes(place, spec)
        return {"allowed": True} if self.access.allows(user, wanted) else {"allowed": False}

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
        now = self.cluster.world.now()
        bound = self._bound(spec["boundObjectRef"], place.key.namespace)
        token = self.tokens.signer.sign(
            Claim(account, spec["audiences"], seconds, now, self.cluster.world.uid(), bound)
        )
        metadata = {name: account["metadata"][name] for name in ("name", "namespace", "uid")}
        metadata["creationTimestamp"] = stamp(now)
        actor = Actor(ask.manager, TOKEN_VERSION, stamp(now), "token")
        stated = {"kind": "TokenRequest", "apiVersion": TOKEN_VERSION, "metadata": metadata, "spec": asked}
        answer = merging.track(None, stated, TOKEN_REQUEST, actor)
        status = {"token": token, "expirationTimestamp": stamp(now + timedelta(seconds=seconds))}
        return {**answer, "spec": spec, "status": status}

    def _bound(self, reference: Document | None, namespace: str) -> Document | None:
        if reference is None:
            return None
        kind = BIND_KINDS.get(reference.get("kind", ""))
        if kind is None:
            raise BadRequest(f"cannot bind token for serviceaccount to object of type {reference.get('kind', '')}")
        key = Key(namespace if kind.namespaced else "", reference.get("name", ""))
        holder = self.cluster.head.get(kind, key)
        if holder is None:
            raise refusals.not_found(kind, key.name)
        if reference.get("uid") and reference["uid"] != holder["metadata"]["uid"]:
            why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            raise refusals.conflict(kind, key.name, f"{why}The object might have been deleted and then recreated")
        return holder


def _check_seconds(seconds: int) -> None:
    words = ""
    if seconds < SHORTEST:
        words = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
    elif seconds > LONGEST:
        words = f"Invalid value: {seconds}: may not specify a duration larger than 2^32 seconds"
    if words:
        kind = Kind("authentication.k8s.io", "v1", "TokenRequest", "")
        raise refusals.invalid(kind, "", [Cause("FieldValueInvalid", "spec.expirationSeconds", words)])


def _subject(place: Place, spec: Document) -> User:
    causes = []
    if not spec.get("user") and not spec.get("groups"):
        words = 'Invalid value: "": at least one of user or group must be specified'
        causes.append(Cause("FieldValueInvalid", "spec.user", words))
    causes += _attribute_causes(spec)
    if causes:
        raise _nameless(place.rules.kind.group, causes)
    groups = tuple(spec.get("groups") or ())
    extra = {name: tuple(values) for name, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", (*groups, AUTHENTICATED), spec.get("uid") or "", extra)


def _attribute_causes(spec: Document) -> list[Cause]:
    if bool(spec.get("resourceAttributes")) != bool(spec.get("nonResourceAttributes")):
        return []
    shown = "null" if not spec.get("resourceAttributes") else "{}"
    words = f"Invalid value: {shown}: exactly one of nonResourceAttributes or resourceAttributes must be specified"
    return [Cause("FieldValueInvalid", "spec", words)]


def _nameless(group: str, causes: list[Cause]) -> Invalid:
    """Upstream: these refusals know their group only."""
    return Invalid(f'.{group} "" is invalid: {refusals.summed(tuple(causes))}', details={"group": group}, causes=causes)


def _attributes(place: Place, spec: Document) -> Attributes:
    if causes := _attribute_causes(spec):
        raise _nameless(place.rules.kind.group, causes)
    if path := spec.get("nonResourceAttributes"):
        return Attributes(path.get("verb") or "", path=path.get("path") or "")
    wanted = spec["resourceAttributes"]
    parts = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(wanted.get(part) or "" for part in parts))
