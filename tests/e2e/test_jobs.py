"""What a user tries next: failures, gangs that wait, suspension, deletion, and everything through one plane."""

import json
import re

FAILS = """
import os, sys, time
rank = int(os.environ["PET_NODE_RANK"])
print("rank", rank, "starts", flush=True)
if rank == 1:
    print("something went wrong in here", flush=True)
    sys.exit(3)
time.sleep(6000)
"""
SLEEPS = "import time\nprint('asleep', flush=True)\ntime.sleep(6000)\n"


def script(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    return str(path)


def phase(person, name):
    job = json.loads(person.aboard("get", "tj", name, "-o", "json").out)
    return job["status"]["aboard"]["phase"]


def test_the_first_failing_rank_is_shown_with_its_code_and_last_lines(person, tmp_path):
    said = person.aboard("run", script(tmp_path, FAILS), "--nodes=2", "--name=fails")
    assert said.code == 1
    assert "first failure   rank 1" in said.err and "exit 3" in said.err
    assert "something went wrong in here" in said.err
    why = person.aboard("why", "fails")
    assert "exit code 3" in why.out


def test_a_gang_that_does_not_fit_waits_whole_and_runs_when_there_is_room(person, tmp_path):
    waits = script(tmp_path, person.waits)
    cpus = json.loads(person.aboard("get", "node", "-o", "json").out)["items"][0]["status"]["allocatable"]["cpu"]
    half = f"{int(float(cpus) * 1000) // 2 if not cpus.endswith('m') else int(cpus[:-1]) // 2}m"
    for name in ("first", "second"):
        assert person.aboard("run", waits, "--nodes=2", f"--cpus={half}", f"--name={name}", "--detach").code == 0
    assert person.aboard("wait", "first", "--for=running", "--timeout=240").code == 0
    waits = re.compile(r"(?m)^second\b.* 0/2 .*Pending.*\(")
    person.until(lambda said: waits.search(said.out), "ps")
    for job in ("first", "second"):
        assert person.aboard("wait", job, "--for=running", "--timeout=240").code == 0
        person.release(job, 0, 1)
        assert person.aboard("wait", job, "--timeout=240").code == 0
    assert phase(person, "first") == phase(person, "second") == "Succeeded"


def test_suspend_takes_the_pods_away_and_resume_brings_them_back(person, tmp_path):
    assert person.aboard("run", script(tmp_path, SLEEPS), "--name=sleeper", "--detach").code == 0
    assert person.aboard("wait", "sleeper", "--for=running", "--timeout=240").code == 0
    inside = person.aboard("exec", "sleeper", "--", "sh", "-c", "hostname; exit 7")
    assert (inside.code, inside.out.strip()) == (7, "sleeper-node-0-0")
    assert person.aboard("suspend", "sleeper").code == 0
    assert person.aboard("wait", "sleeper", "--for=suspended", "--timeout=240").code == 0
    assert person.aboard("resume", "sleeper").code == 0
    assert person.aboard("wait", "sleeper", "--for=running", "--timeout=240").code == 0
    said = person.aboard("delete", "tj", "sleeper")
    assert said.code == 0, said.err
    for kind in ("jobsets", "jobs", "pods", "podgroups", "configmaps"):
        assert "sleeper" not in person.aboard("get", kind, "-o", "name").out


def test_every_object_of_the_walk_can_be_read(person):
    assert person.aboard("run", "hello", "--name=walk").code == 0
    for kind in ("trainjobs", "jobsets", "jobs", "pods", "podgroups"):
        said = person.aboard("get", kind)
        assert said.code == 0 and "walk" in said.out, (kind, said)
    assert "Children:" in person.aboard("describe", "tj", "walk").out
    assert "r0 │" in person.aboard("logs", "walk", "--rank=0").out
    assert "hello from rank 1" in person.aboard("logs", "walk", "--rank=last").out
