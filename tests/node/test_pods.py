"""The life table: what a pod's containers did, and what is done and said next."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.node.facts import Doom, Facts, Health, Patience, Run, Trouble
from allaboard.node.pods import DEADLINE, Prepare, Release, Remove, Start, Stop, decide
from allaboard.node.status import waits_for

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
PATIENCE = Patience(timedelta(seconds=10), timedelta(seconds=300), timedelta(seconds=600))


def run(text, attempt=0, streak=0):
    """An attempt in words: "new" (being made), "up", "0" or "3@5" (ended with that code, so many seconds ago)."""
    begun = NOW - timedelta(seconds=60)
    if text == "new":
        return Run(attempt, "id", begun, streak=streak)
    if text == "up":
        return Run(attempt, "id", begun, begun, streak=streak)
    code, _, ago = text.partition("@")
    return Run(attempt, "id", begun, begun, NOW - timedelta(seconds=float(ago or 1)), int(code), streak=streak)


def world(containers, policy="Never", leaving=None, **facts):
    """A pod in words: names before "|" are init containers ("s+" marks a sidecar), each with its last attempt."""
    inits, mains, runs = [], [], {}
    before, _, after = containers.rpartition("|")
    for target, text in ((inits, before), (mains, after)):
        for word in text.split():
            name, _, state = word.partition("=")
            sidecar = name.endswith("+")
            entry = {"name": name.rstrip("+"), "image": "i"} | ({"restartPolicy": "Always"} if sidecar else {})
            target.append(entry)
            if state:
                number, _, rest = state.rpartition("#")
                attempt = int(number or 0)
                runs[entry["name"]] = (run(rest, attempt, attempt),)
    spec = {"restartPolicy": policy, "containers": mains, "nodeName": "n1", "terminationGracePeriodSeconds": 30}
    if inits:
        spec["initContainers"] = inits
    metadata = {"name": "p", "namespace": "default", "uid": "u", "generation": 1}
    if leaving is not None:
        metadata |= {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": leaving}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return pod, Facts(host="127.0.0.1", runs=runs, **({"address": "10.0.0.2"} | facts))


def told(verdict):
    """The acts in words."""
    words = []
    for act in verdict.acts:
        match act:
            case Start():
                words.append(f"start {act.name}" + (f"#{act.attempt}" if act.attempt else ""))
            case Stop():
                words.append(f"stop {act.name} {int(act.grace.total_seconds())}")
            case Prepare() | Release() | Remove():
                words.append(type(act).__name__.lower())
    return ", ".join(words)


LIFE = {
    #                                             containers                policy       acts                  phase
    "nothing before the sandbox": ("a", "Never", "prepare", "Pending", {"address": ""}),
    "mains start together": ("a b", "Never", "start a, start b", "Pending", {}),
    "what starts is waited for": ("a=new", "Never", "", "Pending", {}),
    "one up, one to come": ("a=up b=new", "Never", "", "Pending", {}),
    "all up": ("a=up b=up", "Never", "", "Running", {}),
    "one done, one up": ("a=0 b=up", "Never", "", "Running", {}),
    "all done well": ("a=0 b=0", "Never", "release", "Succeeded", {}),
    "one of them failed": ("a=0 b=3", "Never", "release", "Failed", {}),
    "a failure is tried again": ("a=1@0", "OnFailure", "start a#1", "Running", {}),
    "an end is tried again": ("a=0@0", "Always", "start a#1", "Running", {}),
    "a success is no failure": ("a=0", "OnFailure", "release", "Succeeded", {}),
    "the second restart waits": ("a=1#1@5", "OnFailure", "", "Running", {}),
    "and comes when its time is there": ("a=1#1@11", "OnFailure", "start a#2", "Running", {}),
    "the fourth waits longer": ("a=3#1@39", "OnFailure", "", "Running", {}),
    "the first init goes first": ("x y|a", "Never", "start x", "Pending", {}),
    "then the second": ("x=0 y|a", "Never", "start y", "Pending", {}),
    "then the mains": ("x=0 y=0|a b", "Never", "start a, start b", "Pending", {}),
    "an init that failed for good": ("x=1|a", "Never", "release", "Failed", {}),
    "an init that failed is tried again": ("x=1@0|a", "Always", "start x#1", "Pending", {}),
    "an init that ended well is done": ("x=0|a=up", "Always", "", "Running", {}),
    "a sidecar is waited for": ("s+=new|a", "Never", "", "Pending", {}),
    "a sidecar that is up lets others start": ("s+=up|a", "Never", "start a", "Pending", {}),
    "a sidecar not started by its probe": ("s+=up|a", "Never", "", "Pending", {"health": {"s": Health(started=False)}}),
    "a sidecar that ended comes back": ("s+=1@0|a=up", "Never", "start s#1", "Running", {}),
    "sidecars end with the mains": ("s+=up|a=0", "Never", "stop s 30", "Running", {}),
    "the last sidecar first": ("s+=up t+=up|a=0", "Never", "stop t 30", "Running", {}),
    "sidecars do not count": ("s+=137|a=0", "Never", "release", "Succeeded", {}),
    "doom ends all": ("a=up b=up", "Always", "stop a 30, stop b 30", "Running", {"doom": DEADLINE}),
    "doom is over when nothing runs": ("a=137 b=0", "Always", "release", "Failed", {"doom": DEADLINE}),
    "evicted before anything ran": ("a", "Always", "release", "Failed", {"doom": Doom("Evicted", "x")}),
    "sick ones are stopped": ("a=up", "Always", "stop a 30", "Running", {"health": {"a": Health(sick="liveness")}}),
    "who is being stopped is left alone": (
        "a=up", "Always", "", "Running", {"health": {"a": Health(sick="x")}, "stopping": {"a": NOW}},
    ),
    "released is released": ("a=0", "Never", "", "Succeeded", {"address": ""}),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "policy", "acts", "phase", "facts"), LIFE.values(), ids=LIFE)
def test_the_next_step_of_a_pod(containers, policy, acts, phase, facts):
    verdict = decide(*world(containers, policy, **facts), NOW, PATIENCE)
    assert (told(verdict), verdict.status["phase"]) == (acts, phase)


LEAVING = {
    "all are asked at once": ("a=up b=up", 30, "stop a 30, stop b 30"),
    "nobody gets less than two seconds": ("a=up", 0, "stop a 2"),
    "sidecars wait for the mains": ("s+=up|a=up", 30, "stop a 30"),
    "then they go": ("s+=up|a=137", 5, "stop s 5"),
    "nothing starts any more": ("a", 30, "release, remove"),
    "nothing is restarted": ("a=1", 30, "release, remove"),
}


@pytest.mark.parametrize(("containers", "grace", "acts"), LEAVING.values(), ids=LEAVING)
def test_a_pod_that_was_asked_to_leave(containers, grace, acts):
    assert told(decide(*world(containers, "Always", leaving=grace), NOW, PATIENCE)) == acts


def test_a_shorter_grace_is_heard_and_a_longer_one_is_not():
    pod, facts = world("a=up", leaving=5, stopping={"a": NOW + timedelta(seconds=20)})
    assert told(decide(pod, facts, NOW, PATIENCE)) == "stop a 5"
    pod, facts = world("a=up", leaving=30, stopping={"a": NOW + timedelta(seconds=20)})
    assert told(decide(pod, facts, NOW, PATIENCE)) == ""


STATES = {
    "never started": ("a", {}, {"waiting": {"reason": "ContainerCreating"}}),
    "behind an init": ("x=up|a", {}, {"waiting": {"reason": "PodInitializing"}}),
    "in trouble": (
        "a", {"troubles": {"a": Trouble("CreateContainerConfigError", 'secret "s" not found')}},
        {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}},
    ),
    "running": ("a=up", {}, {"running": {"startedAt": "2026-01-01T11:59:00Z"}}),
    "backing off": (
        "a=1#1@5", {},
        {"waiting": {"reason": "CrashLoopBackOff",
                     "message": "back-off 10s restarting failed container=a pod=p_default(u)"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "facts", "state"), STATES.values(), ids=STATES)
def test_the_state_a_container_is_said_to_be_in(containers, facts, state):
    verdict = decide(*world(containers, "OnFailure", **facts), NOW, PATIENCE)
    assert verdict.status["containerStatuses"][0]["state"] == state


def test_the_state_before_is_remembered_and_restarts_are_counted():
    pod, facts = world("a", "Always", address="10.0.0.2")
    facts = Facts(host="h", address="10.0.0.2", runs={"a": (run("3", 4), run("up", 5))})
    status = decide(pod, facts, NOW, PATIENCE).status["containerStatuses"][0]
    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (5, 3)
    assert (status["ready"], status["started"]) == (True, True)


def test_exit_codes_may_say_who_comes_back():
    pod, facts = world("a=42@0", "Never")
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    assert told(decide(pod, facts, NOW, PATIENCE)) == "start a#1"


def conditions(verdict):
    return {c["type"]: (c["status"], c.get("reason", "")) for c in verdict.status["conditions"]}


CONDITIONS = {
    "being made": ("a=new", "True", ("False", "ContainersNotReady")),
    "waiting for an init": ("x=up|a", "False", ("False", "ContainersNotReady")),
    "ready": ("a=up", "True", ("True", "")),
    "over": ("a=0", "True", ("False", "PodCompleted")),
    "failed": ("a=1", "True", ("False", "PodFailed")),
}


@pytest.mark.parametrize(("containers", "initialized", "ready"), CONDITIONS.values(), ids=CONDITIONS)
def test_conditions(containers, initialized, ready):
    found = conditions(decide(*world(containers), NOW, PATIENCE))
    assert (found["Initialized"][0], found["Ready"], found["ContainersReady"]) == (initialized, ready, ready)


def test_foreign_conditions_stay_and_gates_must_be_open():
    pod, facts = world("a=up")
    pod["status"]["conditions"] = [{"type": "example.com/fed", "status": "False"}]
    pod["spec"]["readinessGates"] = [{"conditionType": "example.com/fed"}]
    found = conditions(decide(pod, facts, NOW, PATIENCE))
    assert found["example.com/fed"] == ("False", "")
    assert (found["Ready"], found["ContainersReady"]) == (("False", "ReadinessGatesNotReady"), ("True", ""))


def test_a_deadline_is_kept_and_waited_for():
    pod, facts = world("a=up")
    pod["spec"]["activeDeadlineSeconds"] = 60
    pod["status"]["startTime"] = "2026-01-01T11:59:30Z"
    assert decide(pod, facts, NOW, PATIENCE).again == NOW + timedelta(seconds=30)
    late = decide(pod, facts, NOW + timedelta(seconds=30), PATIENCE)
    assert told(late) == "stop a 30"
    pod, facts = world("a=137", doom=None)
    pod["spec"]["activeDeadlineSeconds"], pod["status"]["startTime"] = 1, "2026-01-01T11:00:00Z"
    assert decide(pod, facts, NOW, PATIENCE).status["reason"] == "DeadlineExceeded"


@given(st.integers(0, 40))
def test_waiting_between_restarts_grows_and_is_bounded(streak):
    first = Run(streak, "id", NOW, NOW, NOW, 1, streak=streak)
    second = Run(streak + 1, "id", NOW, NOW, NOW, 1, streak=PATIENCE.streak(first))
    assert PATIENCE.delay(first) <= PATIENCE.delay(second) <= PATIENCE.most


STATE_WORDS = st.sampled_from(["", "=new", "=up", "=0", "=1", "=137", "=1#1@5"])


@given(
    st.lists(STATE_WORDS, max_size=2),
    st.lists(STATE_WORDS, min_size=1, max_size=3),
    st.sampled_from(["Never", "OnFailure", "Always"]),
)
def test_a_terminal_phase_never_has_a_living_container(inits, mains, policy):
    text = " ".join(f"i{n}{s}" for n, s in enumerate(inits)) + "|" + " ".join(f"m{n}{s}" for n, s in enumerate(mains))
    pod, facts = world(text, policy)
    verdict = decide(pod, facts, NOW, PATIENCE)
    living = any(facts.alive(name) for name in facts.runs)
    if verdict.status["phase"] in ("Succeeded", "Failed"):
        assert not living
        assert not any(isinstance(act, Start) for act in verdict.acts)
    if verdict.status["phase"] == "Succeeded":
        assert all(facts.last(f"m{n}").code == 0 for n in range(len(mains)))


WAITING = {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "CreateContainerError"}}}]}
FIRST = {"initContainerStatuses": [{"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}}]}


@pytest.mark.parametrize(
    ("status", "want"),
    [(WAITING, "CreateContainerError"), (FIRST, "PodInitializing"), ({}, "ContainerCreating")],
)
def test_who_asks_for_the_log_of_a_container_that_waits_hears_why_it_does(status, want):
    assert waits_for({"status": status}, "a") == want
