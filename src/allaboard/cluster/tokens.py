"""Who somebody is: static tokens, service account tokens signed as RS256 JWTs, and client certificates."""

from __future__ import annotations

import base64
import binascii
import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import AboardError, Unauthorized
from allaboard.api.meta import uid_of
from allaboard.cluster.access import ACCOUNT, AUTHENTICATED, User, View

ISSUER = "https://kubernetes.default.svc"
BIND_KINDS = {"Pod": kinds.POD, "Secret": kinds.SECRET, "Node": kinds.NODE}


def read_tokens(text: str) -> dict[str, User]:
    """Static tokens, one a line as `token,user,uid,"group,group"`, as Kubernetes' token file has them."""
    users = {}
    for number, row in enumerate(csv.reader(io.StringIO(text), skipinitialspace=True), start=1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3:
            raise AboardError(f'token file, line {number}: "{",".join(row)}" needs at least token, user and uid')
        groups = tuple(filter(None, (group.strip() for group in (row[3] if len(row) > 3 else "").split(","))))
        users[row[0]] = User(row[1], (*groups, AUTHENTICATED), row[2])
    return users


def user_of_certificate(data: bytes) -> User:
    """Whom a verified client certificate (DER) names: its common name, and its organizations as groups."""
    certificate = x509.load_der_x509_certificate(data)
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        raise Unauthorized("Unauthorized")
    groups = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    credential = f"X509SHA256={hashlib.sha256(data).hexdigest()}"
    extra = {"authentication.kubernetes.io/credential-id": (credential,)}
    return User(str(names[0].value), (*groups, AUTHENTICATED), "", extra)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass(frozen=True, slots=True)
class Claim:
    """What a new service account token shall say."""

    account: Document
    audiences: Sequence[str]
    seconds: int
    now: datetime
    identity: str  # jti
    bound: Document | None = None  # the pod, secret or node it ends with


class Signer:
    """Signs and checks service account tokens with one RSA key."""

    def __init__(self, key: rsa.RSAPrivateKey, issuer: str = ISSUER) -> None:
        self.key, self.issuer = key, issuer
        numbers = key.public_key().public_numbers()
        der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _encoded(hashlib.sha256(der).digest())
        self._numbers = (numbers.n, numbers.e)

    def sign(self, claim: Claim) -> str:
        metadata = claim.account["metadata"]
        start = int(claim.now.timestamp())
        private: Document = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": uid_of(claim.account)},
        }
        if claim.bound is not None:
            bound = claim.bound["metadata"]
            private[claim.bound["kind"].lower()] = {"name": bound["name"], "uid": bound["uid"]}
        body = {
            "aud": list(claim.audiences),
            "exp": start + claim.seconds,
            "iat": start,
            "iss": self.issuer,
            "jti": claim.identity,
            "kubernetes.io": private,
            "nbf": start,
            "sub": f"{ACCOUNT}{metadata['namespace']}:{metadata['name']}",
        }
        head = {"alg": "RS256", "kid": self.key_id}
        text = f"{_encoded(msgspec.json.encode(head))}.{_encoded(msgspec.json.encode(body))}"
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signature)}"

    def read(self, token: str) -> Document | None:
        """The claims of a token we signed; None for anything else."""
        try:
            text, _, signature = token.rpartition(".")
            self.key.public_key().verify(_decoded(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256())
            return msgspec.json.decode(_decoded(text.partition(".")[2]), type=Document)
        except (InvalidSignature, binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def discovery(self) -> Document:
        """The OpenID configuration that names our keys."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> Document:
        modulus, exponent = self._numbers
        sizes = [(number.bit_length() + 7) // 8 for number in self._numbers]
        key = {"use": "sig", "kty": "RSA", "kid": self.key_id, "alg": "RS256"}
        key |= {"n": _encoded(modulus.to_bytes(sizes[0], "big")), "e": _encoded(exponent.to_bytes(sizes[1], "big"))}
        return {"keys": [key]}


class Tokens:
    """Who a bearer token stands for."""

    def __init__(self, static: Mapping[str, User], signer: Signer | None, view: View) -> None:
        self.static, self.signer, self.view = dict(static), signer, view
        self._known: dict[str, Document] = {}  # verified claims, so that a signature is checked once

    def user(self, token: str, now: datetime, audiences: Sequence[str] = ()) -> tuple[User, Sequence[str]]:
        """The user, and the audiences the token is good for; raises `Unauthorized`."""
        ours = self.signer.issuer if self.signer else ISSUER
        wanted = list(audiences) or [ours]
        if (user := self.static.get(token)) is not None:
            if ours not in wanted:
                raise Unauthorized("Unauthorized")
            return user, ()
        claims = self._claims(token)
        good = [audience for audience in wanted if audience in (claims.get("aud") or ())]
        if not good or not claims["nbf"] <= now.timestamp() < claims["exp"]:
            raise Unauthorized("Unauthorized")
        return self._account(claims), good

    def made_for(self, token: str) -> Sequence[str]:
        """The audiences of a token we signed; none where we did not."""
        try:
            return self._claims(token).get("aud") or ()
        except Unauthorized:
            return ()

    def _claims(self, token: str) -> Document:
        claims = self._known.get(token)
        if claims is None and self.signer is not None and token.count(".") == 2:
            claims = self.signer.read(token)
        if claims is None or claims.get("iss") != (self.signer.issuer if self.signer else ""):
            raise Unauthorized("Unauthorized")
        if len(self._known) > 4096:
            self._known.clear()
        self._known[token] = claims
        return claims

    def _account(self, claims: Document) -> User:
        """The service account a token was made for, if it (and what the token is bound to) still exists."""
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        found = self.view.get(kinds.SERVICE_ACCOUNT, Key(namespace, account["name"]))
        if found is None or uid_of(found) != account["uid"]:
            raise Unauthorized("Unauthorized")
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)}
        for word, kind in BIND_KINDS.items():
            if bound := private.get(word.lower()):
                holder = self.view.get(kind, Key(namespace if kind.namespaced else "", bound["name"]))
                if holder is None or uid_of(holder) != bound["uid"]:
                    raise Unauthorized("Unauthorized")
                extra[f"authentication.kubernetes.io/{word.lower()}-name"] = (bound["name"],)
                extra[f"authentication.kubernetes.io/{word.lower()}-uid"] = (bound["uid"],)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        return User(f"{ACCOUNT}{namespace}:{account['name']}", groups, account["uid"], extra)
