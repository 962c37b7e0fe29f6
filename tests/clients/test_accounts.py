"""Who may do what, as clients see it: a plane that asks roles, its admin, and accounts with tokens."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from allaboard.cli import planes
from allaboard.sdk.home import Home
from tests.clients.objects import GROUP, config_map, package, train_job, until
from tests.patience import PATIENCE

package("kubernetes")

from kubernetes import client, config  # noqa: E402
from kubernetes.client import ApiException  # noqa: E402

READER = {
    "metadata": {"name": "reader"},
    "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": [GROUP], "resources": ["trainjobs"], "verbs": ["get"]},
    ],
}
BINDING = {
    "metadata": {"name": "reads"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [{"kind": "ServiceAccount", "name": "worker", "namespace": "default"}],
}


@pytest.fixture(scope="module")
def strict():
    """The kubeconfig of a plane that asks roles."""
    home = Home(Path(tempfile.mkdtemp(prefix="aboard-clients-")))
    running = planes.start(home, ["--port=0", "--auth=rbac"])
    yield str(home.kubeconfig)
    planes.stop(running)
    shutil.rmtree(home.path, ignore_errors=True)


@pytest.fixture(scope="module")
def admin(strict):
    with config.new_client_from_config(strict) as connected:
        yield connected


@pytest.fixture(scope="module")
def token(admin):
    core = client.CoreV1Api(admin)
    core.create_namespaced_service_account("default", {"metadata": {"name": "worker"}})
    return core.create_namespaced_service_account_token("worker", "default", {"spec": {"audiences": []}}).status.token


@pytest.fixture(scope="module")
def worker(admin, token):
    """A client that has nothing but an account's token."""
    mine = client.Configuration(host=admin.configuration.host)
    mine.ssl_ca_cert, mine.api_key = admin.configuration.ssl_ca_cert, {"authorization": f"Bearer {token}"}
    with client.ApiClient(mine) as connected:
        yield connected


def forbidden(call, *words):
    with pytest.raises(ApiException) as caught:
        call(*words)
    assert caught.value.status == 403
    return caught.value.body


def test_an_account_may_do_what_its_roles_say_and_no_more(admin, worker):
    mine, custom = client.CoreV1Api(worker), client.CustomObjectsApi(worker)
    jobs = (GROUP, "v1alpha1", "default", "trainjobs")
    words = forbidden(mine.list_namespaced_config_map, "default")
    assert 'User \\"system:serviceaccount:default:worker\\" cannot list resource \\"configmaps\\" in API group' in words
    roles = client.RbacAuthorizationV1Api(admin)
    roles.create_namespaced_role("default", READER)
    roles.create_namespaced_role_binding("default", BINDING)
    client.CustomObjectsApi(admin).create_namespaced_custom_object(*jobs, train_job("seen", suspend=True))
    until(lambda: mine.list_namespaced_config_map("default").items)
    assert custom.get_namespaced_custom_object(*jobs, "seen")["metadata"]["name"] == "seen"
    forbidden(mine.create_namespaced_config_map, "default", config_map("mine"))
    forbidden(custom.list_namespaced_custom_object, *jobs)
    forbidden(mine.list_namespaced_config_map, "kube-system")
    forbidden(mine.list_node)


def test_nobody_gives_away_more_than_they_have(admin, worker):
    roles = client.RbacAuthorizationV1Api(admin)
    maker = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}
    roles.create_namespaced_role("default", {"metadata": {"name": "maker"}, "rules": [maker]})
    binding = {**BINDING, "metadata": {"name": "makes"}, "roleRef": {**BINDING["roleRef"], "name": "maker"}}
    roles.create_namespaced_role_binding("default", binding)
    greedy = {"metadata": {"name": "greedy"}, "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]}
    words = forbidden(client.RbacAuthorizationV1Api(worker).create_namespaced_role, "default", greedy)
    assert "is attempting to grant RBAC permissions not currently held" in words
    held = {"metadata": {"name": "modest"}, "rules": [READER["rules"][0]]}
    assert client.RbacAuthorizationV1Api(worker).create_namespaced_role("default", held).metadata.uid


@pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl: install kubectl 1.32 or newer")
def test_kubectl_asks_for_itself_and_for_others(strict, worker):
    def can(*words):
        command = ["kubectl", "--kubeconfig", strict, "auth", "can-i", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()

    account = "--as=system:serviceaccount:default:worker"
    assert can("delete", "nodes") == "yes"
    assert can("get", "trainjobs", account) == "yes"
    assert can("delete", "trainjobs", account) == "no"
    assert can("get", "trainjobs", "--as=somebody", "--as-group=system:masters") == "yes"


def test_nobody_acts_as_another_without_the_right_to(worker):
    worker.set_default_header("Impersonate-User", "admin")
    words = forbidden(client.CoreV1Api(worker).list_namespaced_config_map, "default")
    del worker.default_headers["Impersonate-User"]
    assert 'cannot impersonate resource \\"users\\" in API group' in words


def test_a_token_is_good_until_its_account_is_gone(admin, worker, token):
    reviews = client.AuthenticationV1Api(admin)
    assert reviews.create_token_review({"spec": {"token": token}}).status.authenticated
    client.CoreV1Api(admin).delete_namespaced_service_account("worker", "default")
    assert not reviews.create_token_review({"spec": {"token": token}}).status.authenticated
    with pytest.raises(ApiException) as caught:
        client.CoreV1Api(worker).list_namespaced_config_map("default")
    assert caught.value.status == 401
