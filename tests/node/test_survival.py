"""The agent killed at any moment: nothing lost, nothing left, nothing wrong."""

import json
import os
import random
import signal
import time

import pytest
from outside import MARK, Lonely, code_of, last_phase, processes_with
from world import LEVELS, NOTHING, PATIENCE, WAYS, leftovers, opened, pod

from allaboard.node import records
from allaboard.node.families import end_process, start_ticks

ISOLATED = [level for level in LEVELS if level != "D"]


@pytest.fixture
def lonely(tmp_path, request):
    made = Lonely(tmp_path, request.param)
    yield made
    made.clean_up()


@pytest.fixture
def best(tmp_path):
    made = Lonely(tmp_path, LEVELS[0])
    yield made
    made.clean_up()


@pytest.mark.parametrize("lonely", ISOLATED, indirect=True)
def test_a_pod_outlives_its_agent_and_its_end_is_learned(lonely):
    during = lonely.gate.to(pod("during", f"{opened('during')}; exit 5"))
    lonely.start()
    lonely.put(during)
    lonely.put(lonely.gate.to(pod("after", f"{opened('after')}; exit 6")))
    lonely.until(lambda s: last_phase(s, "during") == last_phase(s, "after") == "Running")
    lonely.kill()
    lonely.gate.open("during")
    lonely.until(lambda _: lonely.ended(during))
    lonely.start()
    lonely.until(lambda s: last_phase(s, "during") == "Failed")
    lonely.gate.open("after")
    lonely.until(lambda s: last_phase(s, "after") == "Failed")
    found = lonely.statuses()
    assert [code_of(found[name][-1]) for name in ("during", "after")] == [5, 6]
    assert all(status["containerStatuses"][0]["restartCount"] == 0 for status in found["after"])


HOG = "x = bytearray(300 * 2**20)\nimport time\ntime.sleep(3000)"


@pytest.mark.parametrize("lonely", LEVELS, indirect=True)
def test_why_a_pod_ended_is_known_to_every_later_agent(lonely):
    lonely.start()
    lonely.put(pod("hog", "python", "-c", HOG, container={"resources": {"limits": {"memory": "100Mi"}}}))
    lonely.put(pod("last", "echo alas; exit 3", container={"terminationMessagePolicy": "FallbackToLogsOnError"}))
    lonely.put(pod("none", "nowhere", "x"))
    names = ("hog", "last", "none")
    lonely.until(lambda s: all(last_phase(s, name) == "Failed" for name in names))
    before = {name: lonely.statuses()[name][-1] for name in names}
    ended = {name: status["containerStatuses"][0]["state"]["terminated"] for name, status in before.items()}
    assert ended["hog"]["reason"] == "OOMKilled"
    assert ended["last"]["message"] == "alas\n"
    assert (ended["none"]["reason"], ended["none"]["startedAt"]) == ("StartError", "1970-01-01T00:00:00Z")
    lonely.kill()
    lonely.start()
    lonely.put(pod("next", "true"))
    lonely.until(lambda s: last_phase(s, "next") == "Succeeded")
    assert {name: lonely.statuses()[name][-1] for name in names} == before


@pytest.mark.parametrize("lonely", ISOLATED, indirect=True)
def test_the_zygote_may_die_too(lonely):
    lonely.start()
    lonely.put(lonely.gate.to(pod("early", f"{opened()}; hostname; exit 4")))
    lonely.until(lambda s: last_phase(s, "early") == "Running")
    lonely.end_zygote()
    lonely.put(pod("late", "exit 7"))
    lonely.until(lambda s: last_phase(s, "late") == "Failed")
    lonely.gate.open()
    lonely.until(lambda s: last_phase(s, "early") == "Failed")
    found = lonely.statuses()
    assert [code_of(found[name][-1]) for name in ("early", "late")] == [4, 7]


@pytest.mark.parametrize("lonely", ISOLATED[:1], indirect=True)
def test_a_container_that_comes_back_after_the_zygote_died_is_still_in_its_own_network(lonely):
    line = f"grep -c : /proc/net/dev; {opened()}; exit 1"
    lonely.start()
    lonely.put(lonely.gate.to(pod("again", line, restartPolicy="OnFailure")))
    lonely.until(lambda s: last_phase(s, "again") == "Running")
    lonely.end_zygote()
    lonely.gate.open()
    lonely.until(lambda s: s["again"][-1]["containerStatuses"][0]["restartCount"] >= 2)
    texts = [path.read_text().split() for path in lonely.state.glob("pods/*/main.*/log")]
    assert texts
    assert all(text[:1] in ([], ["2"]) for text in texts), "a pod sees its loopback and its eth0, not everybody's"


@pytest.mark.parametrize("lonely", LEVELS, indirect=True)
def test_an_agent_that_is_stopped_while_it_starts_ends_what_others_left(lonely):
    lonely.start()
    lonely.put(pod("stays", f"sleep {MARK}"))
    lonely.until(lambda s: last_phase(s, "stays") == "Running")
    lonely.kill()
    lonely.start()
    assert lonely.process.stdout.readline() == b"listening\n"
    lonely.process.terminate()
    assert lonely.process.wait(PATIENCE) == 0
    assert not processes_with(MARK)
    assert leftovers(lonely.state) == NOTHING


POLITE = "trap 'exit 0' TERM"


@pytest.mark.parametrize("lonely", LEVELS, indirect=True)
def test_pods_that_end_with_their_node_were_disrupted_and_neither_failed_nor_succeeded_by_themselves(lonely):
    lonely.start()
    lonely.put(pod("polite", f"{POLITE}; echo up; while :; do sleep 0.05; done"))
    lonely.put(pod("always", f"sleep {MARK}", restartPolicy="Always"))
    lonely.until(lambda s: last_phase(s, "polite") == last_phase(s, "always") == "Running")
    lonely.process.terminate()
    assert lonely.process.wait(PATIENCE) == 0
    lonely.start()
    back = lambda s: s["always"][-1]["containerStatuses"][0]["restartCount"] == 1
    lonely.until(lambda s: last_phase(s, "polite") == "Failed" and back(s))
    found = lonely.statuses()["polite"][-1]
    told = {c["type"]: c.get("reason") for c in found["conditions"] if c["status"] == "True"}
    assert (found["reason"], told["DisruptionTarget"]) == ("Terminated", "TerminationByKubelet")


@pytest.mark.parametrize("lonely", ISOLATED[:1], indirect=True)
def test_what_ran_before_the_machine_was_restarted_is_lost_and_comes_back_where_it_may(lonely):
    lonely.start()
    lonely.put(pod("once", f"sleep {MARK}"))
    lonely.put(pod("always", f"sleep {MARK}", restartPolicy="Always"))
    lonely.until(lambda s: last_phase(s, "once") == last_phase(s, "always") == "Running")
    lonely.kill()
    for name in ("zygote", "holder"):
        end_process(json.loads((lonely.state / name).read_text())["pid"], signal.SIGKILL)
    for path in lonely.state.glob("pods/*/main.0/record"):
        end_process(records.read(path).get("process")["pid"], signal.SIGKILL)
        # Of the old boot; in the new one its number may be anybody's.
        records.note(path, "process", {"pid": os.getpid(), "start": start_ticks(), "at": 0})
    (lonely.state / "boot").write_text("another")
    lonely.start()
    back = lambda s: s["always"][-1]["containerStatuses"][0]["restartCount"] == 1
    lonely.until(lambda s: last_phase(s, "once") == "Failed" and back(s) and last_phase(s, "always") == "Running")
    ended = lonely.statuses()["once"][-1]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


def test_a_few_kills_at_random_moments_lose_nothing(best):
    kill_at_random(best, 5)


@pytest.mark.slow
@pytest.mark.parametrize("lonely", [way for way in WAYS if way != "D"], indirect=True)
def test_fifty_kills_at_random_moments_lose_nothing(lonely):
    kill_at_random(lonely, 50)


def kill_at_random(lonely, kills):
    """An agent that never lives long, and pods that end whenever they like: before, after, or while nobody looks."""
    chance = random.Random(7)
    wanted = {f"p{index}": index % 5 for index in range(3 * kills)}
    names = iter(wanted)
    for kill in range(kills):
        lonely.start()
        for _ in range(3):
            name = next(names)
            lonely.put(pod(name, f"sleep 0.{chance.randrange(9)}; exit {wanted[name]}"))
        if kill % 10 == 0:
            lonely.put(pod(f"stay{kill}", f"sleep {MARK}"))
        time.sleep(chance.uniform(0.02, 1.2))  # from before it has opened its state
        lonely.kill()
    lonely.start()
    over = lambda s, name: last_phase(s, name) in ("Succeeded", "Failed")
    stays = [f"stay{kill}" for kill in range(0, kills, 10)]
    lonely.until(lambda s: all(over(s, n) for n in wanted) and all(last_phase(s, n) == "Running" for n in stays))
    found = lonely.statuses()
    for name, code in wanted.items():
        phases = [status["phase"] for status in found[name]]
        assert code_of(found[name][-1]) == code, name
        assert phases[-1] == ("Failed" if code else "Succeeded")
        assert sorted(phases, key=["Pending", "Running", "Succeeded", "Failed"].index) == phases, name
    assert all(last_phase(found, name) == "Running" for name in stays)
    lonely.clean_up()
    assert not processes_with(MARK)
    assert leftovers(lonely.state) == NOTHING
