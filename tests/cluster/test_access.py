"""Who may do what: tokens, roles and the reviews that ask about them."""

import asyncio
from datetime import timedelta

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import AboardError, Unauthorized
from allaboard.cluster.access import AUTHENTICATED, MASTERS, Allow, Attributes, Rbac, User, covers
from allaboard.cluster.tokens import Claim, Tokens, read_tokens
from tests.cluster.plane import ALICE, SIGNER, START, Plane, plain

RBAC = "rbac.authorization.k8s.io/v1"
READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}

RULES = {
    "a verb it names": (READ_PODS, Attributes("get", "", "pods"), True),
    "a verb it does not": (READ_PODS, Attributes("delete", "", "pods"), False),
    "another group": (READ_PODS, Attributes("get", "batch", "pods"), False),
    "a subresource is not the resource": (READ_PODS, Attributes("get", "", "pods", "log"), False),
    "a subresource by name": ({**READ_PODS, "resources": ["pods/log"]}, Attributes("get", "", "pods", "log"), True),
    "any subresource": ({**READ_PODS, "resources": ["*/log"]}, Attributes("get", "", "pods", "log"), True),
    "everything": ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, Attributes("x", "g", "r", "s"), True),
    "only these names": ({**READ_PODS, "resourceNames": ["a"]}, Attributes("get", "", "pods", name="a"), True),
    "not other names": ({**READ_PODS, "resourceNames": ["a"]}, Attributes("get", "", "pods", name="b"), False),
    "names do not allow lists": ({**READ_PODS, "resourceNames": ["a"]}, Attributes("list", "", "pods"), False),
    "a path": ({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, Attributes("get", path="/metrics"), True),
    "paths below": ({"nonResourceURLs": ["/logs/*"], "verbs": ["get"]}, Attributes("get", path="/logs/x"), True),
    "resources are no paths": (READ_PODS, Attributes("get", path="/pods"), False),
}


@pytest.mark.parametrize(("rule", "wanted", "allowed"), RULES.values(), ids=RULES)
def test_a_rule_covers(rule, wanted, allowed):
    assert covers(rule, wanted) is allowed


def role(kind, name, namespace="", **rest):
    return plain(RBAC, kind, name, namespace, **rest)


def binding(kind, name, subject, role_kind, role_name, namespace=""):
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role_name}
    return plain(RBAC, kind, name, namespace, subjects=[subject], roleRef=reference)


async def granted(plane):
    """Alice reads pods in `default` by a Role, and jobs everywhere by an aggregated ClusterRole."""
    create = plane.client.create
    await create(kinds.ROLE, role("Role", "reader", "default", rules=[READ_PODS]), manager="t")
    subject = {"kind": "User", "name": "alice"}
    await create(kinds.ROLE_BINDING, binding("RoleBinding", "b", subject, "Role", "reader", "default"), manager="t")
    jobs = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}
    part = role("ClusterRole", "part", rules=[jobs], metadata={"labels": {"sum": "yes"}})
    await create(kinds.CLUSTER_ROLE, part, manager="t")
    whole = role("ClusterRole", "whole", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"sum": "yes"}}]})
    await create(kinds.CLUSTER_ROLE, {**whole, "rules": []}, manager="t")
    group = {"kind": "Group", "name": "developers"}
    await create(
        kinds.CLUSTER_ROLE_BINDING, binding("ClusterRoleBinding", "b", group, "ClusterRole", "whole"), manager="t"
    )


QUESTIONS = {
    "what a role in the namespace allows": (ALICE, Attributes("list", "", "pods", namespace="default"), True),
    "not in another namespace": (ALICE, Attributes("list", "", "pods", namespace="other"), False),
    "not in all namespaces": (ALICE, Attributes("list", "", "pods"), False),
    "what a group is given through a sum of roles": (ALICE, Attributes("get", "batch", "jobs", namespace="x"), True),
    "masters may everything": (User("root", (MASTERS,)), Attributes("delete", "", "nodes"), True),
    "strangers nothing": (User("bob", (AUTHENTICATED,)), Attributes("get", "", "pods", namespace="default"), False),
    "everyone known may look at discovery": (User("bob", (AUTHENTICATED,)), Attributes("get", path="/apis"), True),
    "and ask about themselves": (
        User("bob", (AUTHENTICATED,)), Attributes("create", "authorization.k8s.io", "selfsubjectaccessreviews"), True
    ),
}  # fmt: skip


@pytest.mark.parametrize(("user", "wanted", "allowed"), QUESTIONS.values(), ids=QUESTIONS)
def test_roles_decide(user, wanted, allowed):
    async def story():
        plane = await Plane().furnish()
        await granted(plane)
        assert Rbac(plane.cluster.head).allows(user, wanted) is allowed

    asyncio.run(story())


def test_a_refusal_says_who_may_not_do_what():
    async def story():
        plane = await Plane().furnish()
        answer = await plane.ask("GET", "/api/v1/namespaces/default/pods/x/log", token="alice")
        words = 'pods "x" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace'
        assert answer.code == 403 and answer.message.startswith(words)
        nodes = await plane.ask("GET", "/api/v1/nodes", token="alice")
        assert nodes.message.endswith("at the cluster scope")

    asyncio.run(story())


def test_mode_allow_lets_everyone_known_do_everything():
    async def story():
        plane = await Plane(mode="allow").furnish()
        assert (await plane.ask("GET", "/api/v1/nodes", token="alice")).code == 200
        assert (await plane.ask("GET", "/api/v1/nodes", token="stranger")).code == 401

    asyncio.run(story())


def test_mode_allow_gives_a_pods_account_what_its_roles_say_and_no_more():
    async def story():
        plane = await Plane(mode="allow").furnish()
        allow = Allow(plane.cluster.head)
        pod = User("system:serviceaccount:default:default", ("system:serviceaccounts", "system:authenticated"))
        secrets = Attributes("list", "", "secrets", namespace="default")
        assert not allow.allows(pod, secrets)
        assert allow.allows(User("alice"), secrets)
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]
        await plane.client.create(kinds.ROLE, role("Role", "r", "default", rules=rules), manager="t")
        grant = binding("RoleBinding", "r", subject, "Role", "r", "default")
        await plane.client.create(kinds.ROLE_BINDING, grant, manager="t")
        assert allow.allows(pod, secrets)

    asyncio.run(story())


def test_an_apply_that_would_create_needs_the_right_to_create():
    async def story():
        plane = await Plane().furnish()
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]
        await plane.client.create(kinds.ROLE, role("Role", "p", "default", rules=rules), manager="t")
        subject = {"kind": "User", "name": "alice"}
        grant = binding("RoleBinding", "p", subject, "Role", "p", "default")
        await plane.client.create(kinds.ROLE_BINDING, grant, manager="t")
        body = plain("v1", "ConfigMap", "a", data={})
        path, media = "/api/v1/namespaces/default/configmaps/a?fieldManager=m", "application/apply-patch+yaml"
        assert "cannot create" in (await plane.ask("PATCH", path, body, token="alice", content_type=media)).message
        await plane.ask("PATCH", path, body, content_type=media)
        assert (await plane.ask("PATCH", path, body, token="alice", content_type=media)).code == 200

    asyncio.run(story())


def test_the_token_file_is_read_and_a_short_line_refused():
    text = '# comment\nt1,alice,1,"a,b"\nt2,bob,2\n'
    users = read_tokens(text)
    assert users["t1"].groups == ("a", "b", AUTHENTICATED) and users["t2"].groups == (AUTHENTICATED,)
    with pytest.raises(AboardError, match="line 1"):
        read_tokens("t1,alice")


def claim(account, **rest):
    facts = {"audiences": [SIGNER.issuer], "seconds": 600, "now": START, "identity": "j"} | rest
    return Claim(account, **facts)


def test_a_service_account_token_stands_for_its_account_until_either_ends():
    async def story():
        plane = await Plane().furnish()
        account = await plane.client.get(kinds.SERVICE_ACCOUNT, Key("default", "default"))
        tokens = Tokens({}, SIGNER, plane.cluster.head)
        token = SIGNER.sign(claim(account))
        user, audiences = tokens.user(token, START)
        assert (user.name, audiences) == ("system:serviceaccount:default:default", [SIGNER.issuer])
        assert "system:serviceaccounts:default" in user.groups
        refused = (
            (token, START + timedelta(seconds=600), ()),  # its time is over
            (token, START, ("elsewhere",)),  # for somebody else
            (token[:-4] + "AAAA", START, ()),  # not ours
            ("a.b.c", START, ()),
            ("nonsense", START, ()),
        )
        for text, now, wanted in refused:
            with pytest.raises(Unauthorized):
                tokens.user(text, now, wanted)
        await plane.client.delete(kinds.SERVICE_ACCOUNT, Key("default", "default"))
        with pytest.raises(Unauthorized):
            tokens.user(token, START)

    asyncio.run(story())


def test_reviews_answer_for_users_and_tokens():
    async def story():
        plane = await Plane().furnish()
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        token = (await plane.ask("POST", path, {"spec": {}})).body["status"]["token"]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        told = (await plane.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)).body["status"]
        assert told["authenticated"] and told["user"]["username"] == "system:serviceaccount:default:default"
        short = await plane.ask("POST", path, {"spec": {"expirationSeconds": 10}})
        assert short.code == 422 and "less than 10 minutes" in short.message
        who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await plane.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", who, token=token)
        assert answer.body["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"

    asyncio.run(story())


def test_others_can_check_our_tokens_with_the_published_key():
    keys = SIGNER.keys()["keys"]
    assert (keys[0]["kty"], keys[0]["alg"], keys[0]["use"]) == ("RSA", "RS256", "sig")
    assert SIGNER.discovery()["jwks_uri"].startswith(SIGNER.issuer)
