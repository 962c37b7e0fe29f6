"""Folders of the machine in pods: what is allowed is there, made if need be; what is not fails the pod at once."""

import asyncio

from world import Api, config, log_of, pod, running

from allaboard.api.kinds import POD


def told(tmp_path, path):
    """How a pod with this hostPath ends, and what it printed."""
    mount = {"volumeMounts": [{"name": "folder", "mountPath": "/folder"}]}
    volumes = [{"name": "folder", "hostPath": {"path": str(path)}}]

    async def story():
        api = Api()
        async with running(api, config(tmp_path / "state", host_paths=(str(tmp_path / "open"),))) as agent:
            command = ["sh", "-c", "cat /folder/words; echo seen > /folder/answer"]
            await api.create(POD, pod("p", *command, container=mount, volumes=volumes))
            done = await api.phase("p", "Succeeded", "Failed")
            return done["status"], log_of(agent, done) if "containerStatuses" in done["status"] else ""

    return asyncio.run(story())


def test_an_allowed_folder_is_there_and_can_be_written(tmp_path):
    (tmp_path / "open" / "data").mkdir(parents=True)
    (tmp_path / "open" / "data" / "words").write_text("from outside\n")
    status, log = told(tmp_path, tmp_path / "open" / "data")
    assert (status["phase"], log) == ("Succeeded", "from outside\n")
    assert (tmp_path / "open" / "data" / "answer").read_text() == "seen\n"


def test_a_missing_folder_without_type_is_made(tmp_path):
    status, _ = told(tmp_path, tmp_path / "open" / "new")
    assert status["phase"] == "Succeeded" and (tmp_path / "open" / "new" / "answer").exists()


def test_a_folder_that_is_not_allowed_fails_the_pod_with_the_remedy(tmp_path):
    status, _ = told(tmp_path, tmp_path / "other")
    assert (status["phase"], status["reason"]) == ("Failed", "HostPathForbidden")
    assert "--host-path" in status["message"] and "containerStatuses" not in status
    assert not (tmp_path / "other").exists()
