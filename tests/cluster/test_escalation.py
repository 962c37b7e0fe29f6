"""What one must hold to write or bind a role."""

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.api.errors import Forbidden
from allaboard.cluster.access import User
from allaboard.cluster.admission import Request
from allaboard.cluster.admitters.escalation import NoEscalation
from allaboard.cluster.kinds import rules_for

SPACE = "space"
ANN = User("ann")


def rule(verbs, resources, groups="", names=""):
    found = {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": groups.split(",")}
    return found | ({"resourceNames": names.split()} if names else {})


class Roles:
    """What ann holds: one role in the namespace; a second one is there to be bound."""

    def __init__(self, *held):
        self.held = list(held)

    def get(self, kind, key):
        rules = {"held": self.held, "large": [rule("*", "*", "*")]}.get(key.name)
        return None if rules is None else {"metadata": {"name": key.name}, "rules": rules}

    def list(self, kind, namespace=""):
        subject, reference = {"kind": "User", "name": "ann"}, {"kind": "Role", "name": "held"}
        return [{"subjects": [subject], "roleRef": reference}] if kind == kinds.ROLE_BINDING else []


READS = rule("get list", "pods pods/log")
RBAC = "rbac.authorization.k8s.io"
CASES = {
    #                                        held                          given
    "what is held": (READS, rule("get", "pods"), True),
    "a subresource of its own": (READS, rule("get", "pods/log"), True),
    "a subresource that is not held": (READS, rule("get", "pods/exec"), False),
    "a verb more": (READS, rule("get delete", "pods"), False),
    "another group": (READS, rule("get", "pods", "apps"), False),
    "everything": (READS, rule("*", "*", "*"), False),
    "everything, by one who has it": (rule("*", "*", "*"), rule("*", "*", "*"), True),
    "all names of what is held by name": (rule("get", "pods", "", "a b"), rule("get", "pods"), False),
    "one name of those": (rule("get", "pods", "", "a b"), rule("get", "pods", "", "b"), True),
    "more, with the right to escalate": (rule("escalate", "roles", RBAC), rule("*", "*", "*"), True),
}


def ask(view, document, kind=kinds.ROLE, old=None):
    operation = "UPDATE" if old else "CREATE"
    NoEscalation().validate(Request(operation, rules_for(kind), Key(SPACE, "new"), document, old, "", ANN), view)


@pytest.mark.parametrize(("held", "given", "allowed"), CASES.values(), ids=CASES)
def test_a_role(held, given, allowed):
    if allowed:
        ask(Roles(held), {"rules": [given]})
    else:
        with pytest.raises(Forbidden, match="attempting to grant RBAC permissions not currently held"):
            ask(Roles(held), {"rules": [given]})


def test_a_role_that_stays_as_it_is_may_be_labelled():
    role = {"rules": [rule("*", "*", "*")]}
    ask(Roles(READS), {**role, "metadata": {"labels": {"a": "b"}}}, old=role)


@pytest.mark.parametrize(("held", "allowed"), [(READS, False), (rule("bind", "roles", RBAC, "large"), True)])
def test_a_binding_gives_what_its_role_allows(held, allowed):
    binding = {"roleRef": {"kind": "Role", "name": "large"}, "subjects": []}
    if allowed:
        ask(Roles(held), binding, kinds.ROLE_BINDING)
    else:
        with pytest.raises(Forbidden, match=r'rolebindings\.rbac\.authorization\.k8s\.io "new" is forbidden'):
            ask(Roles(held), binding, kinds.ROLE_BINDING)
