"""`make fuzz`: random clusters by the hundred thousand, and the promises that must hold on every one of them.

    python -m tests.scheduling.fuzz 100000 [first seed]

One seed is one cluster, so a broken promise is found again by its seed. Each cluster is scheduled until nothing
happens any more; every promise is asked of it. `tests/scheduling/test_properties.py` asks the same with hypothesis,
which shrinks what it finds.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from allaboard.scheduling.cycle import cycle
from allaboard.scheduling.decisions import Decisions
from allaboard.scheduling.facts import Status, World
from allaboard.scheduling.fairshare import Siblings, divide
from allaboard.scheduling.policy import DEFAULT, Policy
from allaboard.scheduling.replay import told
from allaboard.scheduling.selfcheck import differences
from allaboard.scheduling.state import State
from allaboard.scheduling.telling import task_of, world_of
from tests.scheduling.chance import cluster, singles
from tests.scheduling.worlds import NOW, carried_out

ROUNDS = 8
Broken = Iterator[str]


# --- promises ---


def broken(seed: int) -> Broken:
    """Every promise that the cluster of a seed breaks."""
    rng = random.Random(seed)
    facts = cluster(rng)
    policy = replace(DEFAULT, fewest_victims=rng.random() < 0.3, stale_grace=-1.0)
    state = State.build(facts)
    before = {name: gang.active() for name, gang in state.gangs.items()}
    decisions = cycle(state, policy, NOW)
    yield from whole(state, before, decisions)
    yield from worth_it(decisions)
    yield from orderless(facts, policy, decisions, rng)
    yield from settles(state, policy, decisions)
    yield from generous(rng)
    yield from just(singles(rng))
    yield from steady(facts, policy, rng)


def oversold(state: State) -> Broken:
    if (state.nodes.idle < -1e-6).any():
        yield "oversold: a node gave more than it has"
    for row, gpus in state.nodes.sharing.items():
        memory = int(state.nodes.gpu_memory[row])
        if any(taken > memory for taken in gpus.allocated.values()):
            yield "oversold: a device gave more than it has"


def whole(state: State, before: dict[str, int], decisions: Decisions) -> Broken:
    for name in {bind.gang for bind in decisions.binds}:
        if not before[name] and not all(leaf.active() >= leaf.minimum for leaf in state.gangs[name].leaves):
            yield f"whole or not at all: {name} is bound in part"


def worth_it(decisions: Decisions) -> Broken:
    placed = {promise.gang for promise in decisions.pipelined} | {bind.gang for bind in decisions.binds}
    for eviction in decisions.evictions:
        if eviction.by not in placed:
            yield f"no eviction without a placement: {eviction.task} left for {eviction.by}, which got nothing"


def orderless(facts: World, policy: Policy, decisions: Decisions, rng: random.Random) -> Broken:
    mixed = lambda values: tuple(rng.sample(values, len(values)))
    shuffled = replace(facts, nodes=mixed(facts.nodes), queues=mixed(facts.queues), gangs=mixed(facts.gangs))
    if told(cycle(State.build(shuffled), policy, NOW)) != told(decisions):
        yield "input order never matters: another order, another decision"


def settles(state: State, policy: Policy, decisions: Decisions, rounds: int = ROUNDS) -> Broken:
    for _ in range(rounds):
        yield from oversold(state)
        if not decisions.binds and not decisions.evictions:
            break
        carried_out(state, decisions)
        decisions = cycle(state, policy, NOW)
    else:
        if decisions.binds or decisions.evictions:
            yield f"fixed point: still at work after {rounds} rounds"
    yield from (f"rebuild and compare: {difference}" for difference in differences(state)[:1])


def steady(facts: World, policy: Policy, rng: random.Random, steps: int = 80) -> Broken:
    """As on a real cluster: evicted pods take their time to go, and whoever owns them makes new ones at once. Nobody
    makes room again and again for a gang that gets nothing of it, and there is an end."""
    state, leaving = State.build(facts), list[str]()
    most, in_vain = Counter[str](), Counter[tuple[str, str]]()
    for _ in range(steps):
        decisions = cycle(state, policy, NOW)
        for bind in decisions.binds:
            state.put_task(bind.gang, replace(task_of(state, state.tasks.row_of[bind.task]), status=Status.RUNNING))
        promised = Counter(promise.gang for promise in decisions.pipelined)
        have = {by: state.gangs[by].active() + promised[by] for _, by in in_vain}
        in_vain = Counter({pair: times for pair, times in in_vain.items() if have[pair[1]] <= most[pair[1]]})
        most |= Counter(have)
        in_vain.update({(eviction.gang, eviction.by) for eviction in decisions.evictions})
        if in_vain and max(in_vain.values()) > 2:
            yield f"once is enough: {max(in_vain, key=in_vain.__getitem__)} made room three times in vain"
            return
        for number, eviction in enumerate(decisions.evictions, start=len(leaving)):
            old = task_of(state, state.tasks.row_of[eviction.task])
            twin = f"{old.name}'{number}"
            state.put_task(eviction.gang, replace(old, name=twin, status=Status.PENDING, node="", gpu_groups=()))
            leaving.append(old.name)
        gone = [name for name in leaving if rng.random() < 0.3]
        for name in gone:
            state.drop_task(name)
            leaving.remove(name)
        yield from oversold(state)
        if not (decisions.binds or decisions.evictions or leaving or gone):
            yield from awake(state, policy)
            return
    yield f"an end: still at work after {steps} steps"


def awake(state: State, policy: Policy) -> Broken:
    """Who rests has nothing left to do: a state that remembers nothing of earlier cycles finds nothing either."""
    fresh = cycle(State.build(world_of(state)), policy, NOW)
    for gang in {bind.gang for bind in fresh.binds} | {eviction.by for eviction in fresh.evictions}:
        yield f"nothing overlooked: {gang} waits for what it could have"


def generous(rng: random.Random) -> Broken:
    """A share never falls when only the queue's own request grows."""
    count = rng.randint(1, 6)
    row = lambda *choices: [float(rng.choice(choices)) for _ in range(count)]
    columns = (row(100, 200), row(-1, 0, 2, 5, 9), row(-1, -1, 3, 8), row(0, 1, 2), row(0, 1, 4, 9, 20), row(0, 0.25))
    total, weight = float(rng.randint(0, 40)), rng.choice([0.0, 1.0])
    before = divide(total, Siblings(*columns), weight)[0]
    columns[4][0] += rng.randint(1, 9)
    if divide(total, Siblings(*columns), weight)[0] < before - 1e-9:
        yield "fair share: it fell as the request grew"


def just(facts: World) -> Broken:
    """No queue stays below what is its own while another has more than its own."""
    state = State.build(facts)
    for _ in range(ROUNDS):
        decisions = cycle(state, DEFAULT, NOW)
        carried_out(state, decisions)
        if not decisions.binds and not decisions.evictions:
            break
    held, quota, asked = (np.array(column)[:, 2] for column in _columns(state))
    if (held < np.minimum(quota, asked)).any() and (held > quota).any():
        yield "its own first: a queue is below its quota while another is above"


def _columns(state: State) -> tuple[list[list[float]], list[list[float]], list[list[float]]]:
    return state.queues.allocated, state.queues.quota, state.queues.requested


# --- running ---


def look(seed: int) -> list[str]:
    try:
        return [f"seed {seed}: {promise}" for promise in broken(seed)]
    except Exception as error:  # an error is a broken promise, too, and must not end the others
        return [f"seed {seed}: {type(error).__name__}: {error}"]


def main(count: int, first: int = 0, run: Callable[[int], list[str]] = look) -> int:
    began, found = time.monotonic(), Counter[str]()
    with multiprocessing.Pool() as pool:
        for done, sentences in enumerate(pool.imap_unordered(run, range(first, first + count), chunksize=50), start=1):
            for sentence in sentences:
                found[sentence.split(": ")[1]] += 1
                print(sentence, flush=True)
            if done % 10_000 == 0:
                print(f"{done} clusters, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{count} random clusters in {time.monotonic() - began:.0f} s, {sum(found.values())} broken promises")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:3] or ["100000"])))
