"""kubectl, unmodified: objects, watches, logs, exec, cp, port-forward; what is not served is refused by name."""

import json
import re
import select
import shutil
import subprocess
import urllib.request

import pytest

from tests.clients.objects import COUNTS, SERVES, config_map, job_set, pod, train_job, until
from tests.e2e.doors import talking
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl: install kubectl 1.32 or newer")


@pytest.fixture(scope="module")
def kubectl(person, kubeconfig):
    """Run kubectl; `text` goes to its standard input. An unexpected end fails with what it said."""
    environment = {**person.environment, "KUBECONFIG": kubeconfig, "HOME": str(person.home)}

    def run(*words, text=None, code=0):
        if isinstance(text, dict):
            text = json.dumps(text)
        done = subprocess.run(
            ["kubectl", *words], env=environment, input=text, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == code, f"kubectl {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if code else "")

    run.environment = environment
    return run


@pytest.fixture(scope="module")
def served(kubectl):
    """A pod that runs."""
    kubectl("create", "-f", "-", text=pod("served", SERVES, app="served"))
    kubectl("wait", "--for=condition=Ready", "pod/served", f"--timeout={PATIENCE}s")
    with talking(["kubectl", "logs", "-f", "served"], env=kubectl.environment, stdout=subprocess.PIPE) as logs:
        assert logs.stdout.readline() == "serving\n"  # from here on its port is open
    return "served"


def test_apply_creates_then_configures_then_leaves_alone(kubectl):
    assert kubectl("apply", "-f", "-", text=config_map("applied", a="1")) == "configmap/applied created\n"
    assert kubectl("apply", "-f", "-", text=config_map("applied", b="2")) == "configmap/applied configured\n"
    assert kubectl("apply", "-f", "-", text=config_map("applied", b="2")) == "configmap/applied unchanged\n"
    assert kubectl("get", "cm", "applied", "-o", "jsonpath={.data}") == '{"b":"2"}'
    assert '+  b: "3"' in kubectl("diff", "-f", "-", text=config_map("applied", b="3"), code=1)
    assert kubectl("diff", "-f", "-", text=config_map("applied", b="2")) == ""


def test_server_side_apply_and_its_conflicts(kubectl):
    apply = ("apply", "--server-side", "-f", "-")
    assert kubectl(*apply, "--field-manager=one", text=config_map("owned", a="1")) == (
        "configmap/owned serverside-applied\n"
    )
    said = kubectl(*apply, "--field-manager=two", text=config_map("owned", a="2"), code=1)
    assert 'Apply failed with 1 conflict: conflict with "one": .data.a' in said
    kubectl(*apply, "--field-manager=two", "--force-conflicts", text=config_map("owned", a="2"))
    assert kubectl("get", "cm/owned", "-o", "jsonpath={.data.a}") == "2"


def test_create_replace_patch_label_annotate_edit_and_delete(kubectl):
    assert kubectl("create", "configmap", "made", "--from-literal=a=1") == "configmap/made created\n"
    assert "already exists" in kubectl("create", "configmap", "made", code=1)
    for type_, patch in (
        ("merge", '{"data": {"b": "2"}}'),
        ("strategic", '{"data": {"c": "3"}}'),
        ("json", '[{"op": "remove", "path": "/data/a"}]'),
    ):
        assert kubectl("patch", "cm", "made", f"--type={type_}", "-p", patch) == "configmap/made patched\n"
    assert kubectl("label", "cm", "made", "who=me") == "configmap/made labeled\n"
    assert kubectl("annotate", "cm", "made", "note=mine") == "configmap/made annotated\n"
    found = json.loads(kubectl("get", "cm", "-l", "who=me", "-o", "json"))["items"]
    assert [(item["metadata"]["name"], item["data"]) for item in found] == [("made", {"b": "2", "c": "3"})]
    assert kubectl("replace", "-f", "-", text=config_map("made", z="before")) == "configmap/made replaced\n"
    kubectl.environment["EDITOR"] = "sed -i s/before/after/"
    assert kubectl("edit", "cm", "made") == "configmap/made edited\n"
    assert kubectl("get", "cm", "made", "-o", "jsonpath={.data.z}") == "after"
    assert kubectl("delete", "cm", "made") == 'configmap "made" deleted\n'
    assert 'configmaps "made" not found' in kubectl("get", "cm", "made", code=1)


def test_what_is_wrong_is_said_before_anything_is_made(kubectl):
    wrong = train_job("wrong")
    wrong["spec"]["trainer"]["numNode"] = 2
    said = kubectl("create", "-f", "-", text=wrong, code=1)
    assert 'strict decoding error: unknown field "spec.trainer.numNode"' in said
    assert "metadata.name: Invalid value" in kubectl("create", "-f", "-", text=config_map("Not A Name"), code=1)


def test_get_prints_tables_and_every_format(kubectl, served):
    lines = kubectl("get", "pods", "served").splitlines()
    assert re.split(r"\s+", lines[0]) == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert re.split(r"\s+", lines[1])[:4] == ["served", "1/1", "Running", "0"]
    assert "node-0" in kubectl("get", "pods", "-o", "wide")
    assert kubectl("get", "pods", "-o", "name", "-l", "app=served") == "pod/served\n"
    assert kubectl("get", "pod", "served", "-o", "custom-columns=N:.metadata.name", "--no-headers") == "served\n"
    assert "kind: Pod" in kubectl("get", "pod", "served", "-o", "yaml")
    assert "served" in kubectl("get", "all")
    assert "default" in kubectl("get", "ns", "--sort-by=.metadata.name")
    until(lambda: "Started container main" in kubectl("describe", "pod", "served"))
    assert "Started" in kubectl("events", "--for", "pod/served")


def test_a_watch_shows_changes_as_they_come(kubectl):
    kubectl("create", "cm", "seen")
    command = ["kubectl", "get", "cm", "-w", "--field-selector=metadata.name=seen", "--output-watch-events"]
    with talking(command, env=kubectl.environment, stdout=subprocess.PIPE) as watching:
        assert watching.stdout.readline().startswith("EVENT")
        assert watching.stdout.readline().split()[:2] == ["ADDED", "seen"]
        kubectl("label", "cm", "seen", "a=b")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "seen"]
        kubectl("delete", "cm", "seen")
        assert watching.stdout.readline().split()[:2] == ["DELETED", "seen"]


def test_explain_and_resources(kubectl):
    assert "numNodes" in kubectl("explain", "trainjob.spec.trainer")
    assert "FIELD: containers" in kubectl("explain", "pod.spec.containers")
    listed = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    assert {"pods", "jobs.batch", "trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"} <= set(listed)
    assert "trainer.kubeflow.org/v1alpha1" in kubectl("api-versions")
    assert "Server Version: v1." in kubectl("version")
    assert "Kubernetes control plane" in kubectl("cluster-info")


def test_logs_are_followed_to_their_end(kubectl):
    kubectl("run", "counts", "--image=python:3.11-slim", "--restart=Never", "--command", "--", "python3", "-c", COUNTS)
    kubectl("wait", "--for=jsonpath={.status.phase}", "pod/counts", f"--timeout={PATIENCE}s")
    kubectl("wait", "--for=jsonpath={.status.startTime}", "pod/counts", f"--timeout={PATIENCE}s")
    want = "".join(f"line {number}\n" for number in range(5))
    assert kubectl("logs", "-f", "counts", "--pod-running-timeout=300s") == want
    assert kubectl("logs", "counts", "--tail=1", "--prefix") == "[pod/counts/counts] line 4\n"
    assert "container other is not valid for pod counts" in kubectl("logs", "counts", "-c", "other", code=1)


def test_exec_and_attach(kubectl, served):
    assert (
        kubectl("exec", "-i", served, "--", "sh", "-c", "read line; echo got $line", text="a word\n") == "got a word\n"
    )
    assert "command terminated with exit code 3" in kubectl("exec", served, "--", "sh", "-c", "exit 3", code=3)
    command = ["kubectl", "attach", served, "-q"]
    with talking(command, env=kubectl.environment, stdout=subprocess.PIPE) as attached:
        ask = "import urllib.request as r, sys; r.urlopen('http://127.0.0.1:8000/attached')"
        line = ""
        while "attached" not in line and attached.poll() is None:  # the first may be made before we are attached
            kubectl("exec", served, "--", "python3", "-c", ask)
            line = attached.stdout.readline() if select.select([attached.stdout], [], [], 0.2)[0] else ""
        assert line == "asked for /attached\n"


def test_a_container_that_has_ended_is_said_to_be_gone(kubectl):
    two = pod("two", "import time; time.sleep(6000)")
    two["spec"]["containers"].append({"name": "ended", "image": "python", "command": ["true"]})
    kubectl("create", "-f", "-", text=two)
    kubectl(
        "wait", "pod/two", f"--timeout={PATIENCE}s", "--for=jsonpath={.status.containerStatuses[1].state.terminated}"
    )
    said = kubectl("exec", "two", "-c", "ended", "--", "true", code=1)
    assert 'unable to upgrade connection: container not found ("ended")' in said
    kubectl("delete", "pod", "two")


def test_files_are_copied_in_and_out(kubectl, served, tmp_path):
    (tmp_path / "in.txt").write_text("carried\n" * 1000)
    kubectl("cp", str(tmp_path / "in.txt"), f"{served}:/tmp/there.txt")
    kubectl("cp", f"{served}:/tmp/there.txt", str(tmp_path / "out.txt"))
    assert (tmp_path / "out.txt").read_text() == "carried\n" * 1000


def test_a_port_is_forwarded(kubectl, served):
    command = ["kubectl", "port-forward", f"pod/{served}", ":8000"]
    with talking(command, env=kubectl.environment, stdout=subprocess.PIPE) as forwarding:
        port = re.search(r"127\.0\.0\.1:(\d+) -> 8000", forwarding.stdout.readline()).group(1)
        for word in ("one", "two"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{word}", timeout=PATIENCE) as answer:
                assert answer.read().decode() == f"you asked for /{word}"


def test_who_may_do_what(kubectl):
    assert kubectl("auth", "can-i", "create", "trainjobs") == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "Username" in kubectl("auth", "whoami")
    kubectl("create", "serviceaccount", "worker")
    assert kubectl("create", "token", "worker").count(".") == 2
    kubectl("create", "role", "reader", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "reads", "--role=reader", "--serviceaccount=default:worker")
    assert "reader" in kubectl("get", "rolebindings")


def test_a_trainjob_from_apply_to_delete(kubectl):
    kubectl("apply", "-f", "-", text=train_job("trained", nodes=2))
    kubectl("wait", "--for=condition=Complete", "trainjob/trained", f"--timeout={PATIENCE}s")
    header, line = kubectl("get", "trainjobs", "trained").splitlines()
    assert header.split()[0] == "NAME" and "Complete" in line
    selector = "jobset.sigs.k8s.io/jobset-name=trained"
    assert kubectl("logs", "-l", selector, "--prefix").count("trained\n") == 2
    assert kubectl("delete", "trainjob", "trained", "--wait") == 'trainjob.trainer.kubeflow.org "trained" deleted\n'
    kubectl("wait", "--for=delete", "pod", "-l", selector, f"--timeout={PATIENCE}s")
    kubectl("create", "-f", "-", text=job_set("sets"))
    assert "sets" in kubectl("get", "jobsets")


def test_nodes_are_cordoned_tainted_drained_and_freed(kubectl):
    assert "cordoned" in kubectl("cordon", "node-0")
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    assert "uncordoned" in kubectl("uncordon", "node-0")
    assert "tainted" in kubectl("taint", "nodes", "node-0", "some=thing:NoSchedule")
    assert "untainted" in kubectl("taint", "nodes", "node-0", "some-")
    assert "Allocatable" in kubectl("describe", "node", "node-0")
    kubectl("create", "-f", "-", text=pod("drained", SERVES, app="drained"))
    kubectl("wait", "--for=condition=Ready", "pod/drained", f"--timeout={PATIENCE}s")
    assert "pod/drained evicted" in kubectl("drain", "node-0", "--force", "--pod-selector=app=drained")
    assert "not found" in kubectl("get", "pod", "drained", code=1)
    kubectl("uncordon", "node-0")


def test_jobs_and_namespaces(kubectl):
    kubectl("create", "namespace", "other")
    kubectl("create", "job", "once", "-n", "other", "--image=python:3.11-slim", "--", "python3", "-c", "print('done')")
    kubectl("wait", "-n", "other", "--for=condition=Complete", "job/once", f"--timeout={PATIENCE}s")
    assert kubectl("logs", "-n", "other", "job/once") == "done\n"
    kubectl("delete", "namespace", "other", f"--timeout={PATIENCE}s")
    assert "not found" in kubectl("get", "namespace", "other", code=1)


def test_what_is_not_served_is_refused_by_name(kubectl):
    assert "Metrics API not available" in kubectl("top", "pods", code=1)
    assert 'the server doesn\'t have a resource type "nothings"' in kubectl("get", "nothings", code=1)
