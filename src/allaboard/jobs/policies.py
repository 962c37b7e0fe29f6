"""Rules about the success and failure policies of a JobSet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.jobs.children import replicas_of
from allaboard.jobs.complaints import invalid, plain
from allaboard.jobs.story import IN_PLACE, RESTART_JOB

REASONS = (
    "BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy",
)  # fmt: skip
SINGLE = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
LARGEST = 2**31 - 1
MOST_SINGLE = 1024  # restarts of single Jobs are kept one by one in the status
_SHORTEST, _LONGEST = 1, 128
_NAME = re.compile(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
_PERL = re.compile(r"\(\?(?:=|!|<=|<!|>)|(?<!\\)(?:\\\\)*\\[1-9]")
_NAME_WORDS = (
    "a failure policy rule name must start with an alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
)


def gated(jobset: Document, gates: frozenset[str]) -> Iterable[Cause]:
    """A strategy that is only there with its gate."""
    if _is_in_place(jobset) and IN_PLACE not in gates:
        yield plain("InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled")


def _is_in_place(jobset: Document) -> bool:
    return bool(dig(jobset, "spec", "failurePolicy", "restartStrategy") == IN_PLACE)


def in_place(jobset: Document, number: int, gates: frozenset[str]) -> Iterable[Cause]:
    """Pods that restart where they are: no failure counts, and each pod is there exactly once."""
    if not _is_in_place(jobset) or IN_PLACE not in gates:
        return
    entry = jobset["spec"]["replicatedJobs"][number]
    job, field = entry["template"]["spec"], f"spec.replicatedJobs[{number}].template.spec"
    who, when = f"replicatedJob {entry['name']}:", "when in-place restart is enabled"
    if job.get("backoffLimit") != LARGEST:
        words = f"{who} must be set to {LARGEST} (MaxInt32) {when}"
        yield invalid(f"{field}.backoffLimit", job.get("backoffLimit"), words)
    if job.get("podReplacementPolicy") != "Failed":
        words = f"{who} must be set to Failed {when}"
        yield invalid(f"{field}.podReplacementPolicy", job.get("podReplacementPolicy"), words)
    if job.get("completions") is None or job.get("completions") != job.get("parallelism"):
        words = f"{who} completions and parallelism must be set and equal to each other {when}"
        yield invalid(f"{field}.completions", job.get("completions"), words)


def causes(jobset: Document, gates: frozenset[str]) -> list[Cause]:
    """Everything wrong with what should happen when Jobs succeed or fail."""
    spec = jobset["spec"]
    entries = [entry["name"] for entry in spec.get("replicatedJobs") or ()]
    found = [
        plain(f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs")
        for name in dig(spec, "successPolicy", "targetReplicatedJobs", default=())
        if name not in entries
    ]
    policy = spec.get("failurePolicy")
    if policy and (single := _has_single(policy)) and RESTART_JOB not in gates:
        both = "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions"
        return [*found, plain(f"{both} are not allowed when RestartJob feature gate is disabled")]
    if policy:
        found += _many(jobset) if single else ()
        found += _failure(policy.get("rules") or (), entries)
    return found


def _has_single(policy: Document) -> bool:
    return any(rule.get("action") in SINGLE for rule in policy.get("rules") or ())


def _many(jobset: Document) -> Iterable[Cause]:
    if any(replicas_of(entry) > MOST_SINGLE for entry in jobset["spec"].get("replicatedJobs") or ()):
        rule = "a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action"
        yield plain(f"JobSet cannot have {rule} and a replicated job with replicas > {MOST_SINGLE}")


def _failure(rules: Sequence[Document], entries: Sequence[str]) -> Iterable[Cause]:
    places: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        places.setdefault(rule.get("name", ""), []).append(number)
        yield from _rule(rule, entries)
    for name, numbers in places.items():
        if len(numbers) > 1:
            shown = " ".join(map(str, numbers))
            yield plain(f"rule names are not unique, rules with indices [{shown}] all have the same name '{name}'")


def _rule(rule: Document, entries: Sequence[str]) -> Iterable[Cause]:
    name = rule.get("name", "")
    if not _SHORTEST <= len(name) <= _LONGEST:
        limits = f"at least {_SHORTEST} characters long and at most {_LONGEST} characters long"
        yield plain(f"invalid failure policy rule name of length {len(name)}, the rule name must be {limits}")
    if not _NAME.match(name):
        yield plain(f"invalid failure policy rule name '{name}', {_NAME_WORDS}")
    for target in rule.get("targetReplicatedJobs") or ():
        if target not in entries:
            words = "in failure policy does not appear in .spec.ReplicatedJobs"
            yield plain(f"invalid replicatedJob name '{target}' {words}")
    for reason in rule.get("onJobFailureReasons") or ():
        if reason not in REASONS:
            words = "in failure policy is not a recognized job failure reason"
            yield plain(f"invalid job failure reason '{reason}' {words}")
    for pattern in rule.get("onJobFailureMessagePatterns") or ():
        if words := _unreadable(pattern):
            yield plain(f"invalid job failure message pattern '{pattern}' in failure policy: {words}")


def _unreadable(pattern: str) -> str:
    """Why a pattern is no RE2 expression: RE2 looks neither ahead nor back, so that it never takes long."""
    if found := _PERL.search(pattern):
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{found[0]}`"
    try:
        re.compile(pattern)
    except re.error as error:
        return f"error parsing regexp: {error}"
    return ""
