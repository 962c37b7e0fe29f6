"""Service account tokens as others read them: a JWT library, the discovery document and the keys it leads to."""

import asyncio
import json

import pytest

from allaboard.cluster.tokens import ISSUER
from tests.cluster.plane import Plane

jwt = pytest.importorskip("jwt", reason="needs PyJWT: pip install pyjwt")
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"


async def story(audiences):
    plane = await Plane().furnish()
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences}}
    made = await plane.ask("POST", TOKEN, wish)
    page = await plane.ask("GET", "/.well-known/openid-configuration")
    keys = await plane.ask("GET", "/openid/v1/jwks")
    return made.body["status"]["token"], page.body, keys.body


def test_a_token_is_what_discovery_says_it_is():
    token, page, keys = asyncio.run(story(["me", "you"]))
    assert page["issuer"] == ISSUER and page["jwks_uri"] == f"{ISSUER}/openid/v1/jwks"
    head = jwt.get_unverified_header(token)
    key = next(key for key in keys["keys"] if key["kid"] == head["kid"])
    assert head["alg"] in page["id_token_signing_alg_values_supported"]
    options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}  # the plane's time stands still
    public = jwt.algorithms.RSAAlgorithm.from_jwk(json.dumps(key))
    claims = jwt.decode(token, public, ["RS256"], audience="me", issuer=ISSUER, options=options)
    assert claims["sub"] == "system:serviceaccount:default:default" and claims["aud"] == ["me", "you"]
    with pytest.raises(jwt.InvalidAudienceError):
        jwt.decode(token, public, ["RS256"], audience="them", issuer=ISSUER, options=options)
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(f"{token[:-8]}AAAAAAAA", public, ["RS256"], audience="me", options=options)
