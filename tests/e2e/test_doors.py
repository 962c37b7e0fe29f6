"""The doors by rank and from Python: plan, scale, why after a failure, files, ports, and the guide's own example."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.e2e.doors import PATIENCE

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "05-from-python.md"
SERVES = """
import http.server
server = http.server.HTTPServer(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler)
print("serving", flush=True)
server.serve_forever()
"""
FAILS = "import sys\nprint('all is lost', flush=True)\nsys.exit(3)\n"


def script(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    return str(path)


def test_the_guides_example_runs_as_it_stands(person, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    command = [sys.executable, script(tmp_path, code)]
    done = subprocess.run(command, env=person.environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:2]) == ["r0 rank 0 of 2: 3 steps, lr 0.1", "r1 rank 1 of 2: 3 steps, lr 0.1"]
    assert lines[2:] == ["Complete", "Complete"]


def test_a_job_that_cannot_fit_is_foreseen_explained_and_made_smaller(person, tmp_path):
    wide = (script(tmp_path, "print('fits')\n"), "--nodes=200", "--cpus=100m")
    foreseen = person.aboard("plan", *wide)
    assert foreseen.code == 1 and "(NeverFits)" in foreseen.out and "fits now with --nodes" in foreseen.out
    assert person.aboard("run", *wide, "--name=wide", "--detach").code == 0
    assert person.aboard("wait", "wide", "--for=running", "--timeout=0.5").code == 124
    # A node that just joined is waited for.
    why = person.until(lambda said: "wide is IMPOSSIBLE" in said.out, "why", "wide").out
    assert "NeverFits" in why
    assert re.search(r"aboard scale wide --nodes \d+", why)
    assert person.aboard("scale", "wide", "--nodes=1").code == 0
    assert person.aboard("wait", "wide", "--timeout=240").code == 0
    refused = person.aboard("scale", "wide", "--nodes=2")
    assert refused.code == 5 and "is complete" in refused.err


def test_the_first_failure_outlives_its_pod(person, tmp_path):
    assert person.aboard("run", script(tmp_path, FAILS), "--name=lost").code == 1
    pod = next(line for line in person.aboard("get", "pods", "-o", "name").out.split() if "/lost-" in line)
    assert person.aboard("delete", "pod", pod.partition("/")[2]).code == 0
    why = person.aboard("why", "lost").out
    assert "exit code 3" in why and "all is lost" in why
    assert "all is lost" in person.aboard("describe", "tj", "lost").out


def test_files_and_ports_by_rank(person, tmp_path):
    assert person.aboard("run", script(tmp_path, SERVES), "--name=web", "--detach").code == 0
    assert person.aboard("wait", "web", "--for=running", "--timeout=240").code == 0
    (tmp_path / "here.txt").write_text("carried over")
    assert person.aboard("cp", str(tmp_path / "here.txt"), "web:/tmp/there.txt").code == 0
    assert person.aboard("exec", "web", "--", "cat", "/tmp/there.txt").out == "carried over"
    assert person.aboard("cp", "web:/tmp/there.txt", str(tmp_path / "back.txt")).code == 0
    assert (tmp_path / "back.txt").read_text() == "carried over"
    person.until(lambda said: "serving" in said.out, "logs", "web")
    with person.running("port-forward", "web", ":8000") as forwarding:
        port = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stderr.readline()).group(1)
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE).status == 200
        forwarding.send_signal(signal.SIGINT)
        assert forwarding.wait(PATIENCE) == 130
    for words in (("top", "nodes"), ("top", "jobs"), ("queue",), ("events", "web")):
        assert person.aboard(*words).code == 0, words
    assert person.aboard("delete", "tj", "web").code == 0
