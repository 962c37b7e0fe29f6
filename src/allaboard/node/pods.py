"""The life of a pod, as a table: what is known about it and what time it is give what to do next and what to say.

Every rule looks at the whole pod and adds what it wants done; none remembers anything. The edge that carries the
acts out may crash at any point: the next pass sees what is there and goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from allaboard.api.documents import Document, dig
from allaboard.api.meta import is_leaving, moment_of
from allaboard.kube.plan import Event
from allaboard.node.facts import WELL, Doom, Facts, Patience, Role, Run, may_restart, members
from allaboard.node.status import Life, status_of

# Upstream: kubelet never gives a container less than this between the polite and the final signal.
LEAST_GRACE = timedelta(seconds=2)
DEADLINE = Doom("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make the pod's sandbox: its address, its names, its directories."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start an attempt of a container."""

    name: str
    attempt: int = 0
    streak: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask a container to end (hook, signal), and make it end when its time is over."""

    name: str
    grace: timedelta
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing runs and nothing will: give the sandbox back."""


@dataclass(frozen=True, slots=True)
class Remove:
    """The pod was asked to leave and everything has stopped: take its object away."""


Act = Prepare | Start | Stop | Release | Remove


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do, what to say about it, and when to look again even if nothing happens."""

    acts: tuple[Act, ...]
    status: Document
    events: tuple[Event, ...] = ()
    again: datetime | None = None


def decide(pod: Document, facts: Facts, now: datetime, patience: Patience) -> Verdict:
    """One look at a pod."""
    life = _life(pod, facts, now, patience)
    return Verdict(tuple(_acts(life)), status_of(life), tuple(_words(life)), _again(life))


def acts_of(pod: Document, facts: Facts, now: datetime, patience: Patience) -> tuple[Act, ...]:
    """The same look, by one who has nothing to say yet."""
    return tuple(_acts(_life(pod, facts, now, patience)))


def _life(pod: Document, facts: Facts, now: datetime, patience: Patience) -> Life:
    return Life(pod, facts, members(pod), facts.doom or _overdue(pod, now), now, patience)


def _overdue(pod: Document, now: datetime) -> Doom | None:
    moment = _deadline(pod)
    return DEADLINE if moment is not None and now >= moment else None


def _deadline(pod: Document) -> datetime | None:
    seconds, since = dig(pod, "spec", "activeDeadlineSeconds"), dig(pod, "status", "startTime")
    return moment_of(since) + timedelta(seconds=seconds) if seconds is not None and since else None


def _acts(life: Life) -> Iterator[Act]:
    if life.is_over:
        yield from _endings(life)
    elif life.must_end:
        yield from _stops(life)
    elif not life.facts.address:
        yield Prepare()
    else:
        yield from _starts(life)
        yield from _cures(life)


def _endings(life: Life) -> Iterator[Act]:
    if life.facts.address:
        yield Release()
    if is_leaving(life.pod):
        yield Remove()


def _stops(life: Life) -> Iterator[Act]:
    """Main containers at once; when they are gone the sidecars, last one first."""
    living = [member for member in life.members if life.facts.alive(member.name)]
    mains = [member for member in living if member.role is not Role.SIDECAR]
    grace, why = _grace(life), _why(life)
    for member in mains or living[-1:]:
        deadline = life.facts.stopping.get(member.name)
        if deadline is None or life.now + grace < deadline:
            yield Stop(member.name, grace, why)


def _grace(life: Life) -> timedelta:
    asked = dig(life.pod, "metadata", "deletionGracePeriodSeconds") if is_leaving(life.pod) else None
    seconds = asked if asked is not None else dig(life.pod, "spec", "terminationGracePeriodSeconds", default=30)
    return max(timedelta(seconds=seconds), LEAST_GRACE)


def _why(life: Life) -> str:
    return life.doom.message if life.doom else ""


def _starts(life: Life) -> Iterator[Act]:
    """Init containers one by one, each sidecar when those before it are done, then all the others together."""
    for member in life.members:
        run = life.facts.last(member.name)
        if run is None:
            yield Start(member.name)
        elif not run.alive and may_restart(member, run) and life.now >= _due(life, run):
            yield Start(member.name, run.attempt + 1, life.patience.streak(run))
        if member.role is not Role.MAIN and not life.lets_others_start(member):
            return


def _due(life: Life, run: Run) -> datetime:
    return (run.ended or run.created) + life.patience.delay(run)


def _cures(life: Life) -> Iterator[Act]:
    """A container whose liveness or startup probe gave up is stopped; its policy says whether it comes back."""
    for member in life.members:
        health = life.facts.health.get(member.name, WELL)
        if health.sick and life.facts.alive(member.name) and member.name not in life.facts.stopping:
            grace = member.grace_probe
            length = _grace(life) if grace is None else timedelta(seconds=grace)
            yield Stop(member.name, length, f"Container {member.name} failed {health.sick}, will be restarted")


def _words(life: Life) -> Iterator[Event]:
    for member in life.members:
        run = life.facts.last(member.name)
        if run is not None and not run.alive and life.is_backing_off(member, run):
            yield Event(life.pod, "BackOff", life.back_off_words(member, run), type="Warning")


def _again(life: Life) -> datetime | None:
    moments = [_deadline(life.pod)] if not life.is_over else []
    for member in life.members:
        run = life.facts.last(member.name)
        if run is not None and life.is_backing_off(member, run):
            moments.append(_due(life, run))
    return min((moment for moment in moments if moment is not None and moment > life.now), default=None)
