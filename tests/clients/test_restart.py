"""A plane that was away: clients find what they wrote, and watches from before it went are told to list again."""

import json

import pytest

from tests.clients.objects import config_map, package

package("kubernetes")

from kubernetes import client, config, watch  # noqa: E402


def test_an_old_watch_is_gone_after_a_restart_and_everything_else_is_there(person, kubeconfig):
    with config.new_client_from_config(kubeconfig) as api:
        core = client.CoreV1Api(api)
        before = core.create_namespaced_config_map("default", config_map("kept", a="1"))
        account = {"metadata": {"name": "worker"}}
        core.create_namespaced_service_account("default", account)
        token = core.create_namespaced_service_account_token(
            "worker", "default", {"spec": {"audiences": []}}
        ).status.token
    assert person.aboard("down").code == 0
    assert person.aboard("up", "--port=0").code == 0
    with config.new_client_from_config(kubeconfig) as api:
        core = client.CoreV1Api(api)
        after = core.read_namespaced_config_map("kept", "default")
        assert (after.metadata.uid, after.data) == (before.metadata.uid, {"a": "1"})
        assert after.metadata.resource_version == before.metadata.resource_version
        written = core.patch_namespaced_config_map("kept", "default", {"data": {"a": "2"}})
        assert int(written.metadata.resource_version) > int(before.metadata.resource_version)
        old = watch.Watch().stream(core.list_namespaced_config_map, "default", resource_version="1", timeout_seconds=2)
        with pytest.raises(client.ApiException) as caught:
            list(old)
        assert caught.value.status == 410
        review = client.AuthenticationV1Api(api).create_token_review({"spec": {"token": token}})
        assert review.status.authenticated and json.dumps(review.status.user.username)
