"""The roles every cluster has, as the server reads them."""

import pytest

from allaboard.api.documents import Key
from allaboard.cluster.access import Attributes, Rbac, User
from allaboard.upkeep import roles


class Stored:
    """The roles and one binding of `alice` in `team`."""

    def __init__(self, role):
        subject = {"kind": "User", "name": "alice"}
        metadata = {"name": "b", "namespace": "team"}
        reference = {"kind": "ClusterRole", "name": role}
        self.bindings = [{"kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": [subject]}]

    def list(self, kind, namespace=""):
        if kind.kind == "RoleBinding":
            return self.bindings
        return [document for document in roles.objects() if document["kind"] == kind.kind]

    def get(self, kind, key):
        return next((d for d in self.list(kind) if Key("", d["metadata"]["name"]) == key), None)


# role, verb, group, resource, whether
CASES = [
    ("view", "get", "", "pods", True),
    ("view", "get", "", "secrets", False),
    ("view", "create", "", "pods", False),
    ("view", "get", "trainer.kubeflow.org", "trainjobs", True),
    ("view", "create", "trainer.kubeflow.org", "trainjobs", False),
    ("edit", "create", "", "pods", True),
    ("edit", "get", "", "pods", True),
    ("edit", "get", "", "secrets", True),
    ("edit", "create", "trainer.kubeflow.org", "trainjobs", True),
    ("edit", "delete", "scheduling.run.ai", "queues", False),
    ("edit", "create", "rbac.authorization.k8s.io", "roles", False),
    ("admin", "create", "rbac.authorization.k8s.io", "roles", True),
    ("admin", "watch", "batch", "jobs", True),
    ("admin", "get", "", "nodes", False),
    ("cluster-admin", "delete", "anything", "whatever", True),
]


@pytest.mark.parametrize(("role", "verb", "group", "resource", "may"), CASES)
def test_what_a_role_allows_in_a_namespace(role, verb, group, resource, may):
    alice = User("alice", ("system:authenticated",))
    wanted = Attributes(verb, group, resource, namespace="team")
    assert Rbac(Stored(role)).allows(alice, wanted) is may
    assert not Rbac(Stored(role)).allows(User("bob"), wanted)


def test_every_role_has_a_name_of_its_own_and_every_binding_a_role():
    named = [(each["kind"], each["metadata"]["name"]) for each in roles.objects()]
    assert len(set(named)) == len(named)
    bound = {each["roleRef"]["name"] for each in roles.objects() if each["kind"] == "ClusterRoleBinding"}
    assert bound <= {name for kind, name in named if kind == "ClusterRole"}
