"""What is wrong with files: training's own findings, then whether the Jobs a TrainJob leads to could be made.

Trainer and JobSet take a pod template as it is; only the API server judges it, when the first Job is made. A person
who reads a file wants to know before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from allaboard.api import kinds
from allaboard.api.documents import Document, Documents, dig
from allaboard.api.meta import name_of
from allaboard.cluster.kinds import rules_for
from allaboard.jobs.children import job_of
from allaboard.training import lint
from allaboard.training.facts import Facts
from allaboard.training.job import TrainJob
from allaboard.training.lint import Finding
from allaboard.training.render import render
from allaboard.training.runtimes import shipped_runtimes

UID = "00000000-0000-0000-0000-000000000000"  # of what is not stored


def report(documents: Documents) -> list[Finding]:
    """Everything wrong with these documents; a job that would be refused itself is not followed further."""
    found = lint.report(documents)
    refused = {finding.document for finding in found if finding.level == "error"}
    for at, document in enumerate(documents):
        if document.get("kind") == kinds.TRAIN_JOB.kind and at not in refused:
            found += [Finding(at, "spec", words) for words in _unmakeable(document, documents)]
    return found


def _unmakeable(job: Document, documents: Documents) -> Iterator[str]:
    """What the API server would say to the Jobs of a TrainJob; nothing where its runtime is not among the files."""
    name = TrainJob(job).runtime.name
    known = [document for document in (*documents, *shipped_runtimes()) if document.get("kind", "").endswith("Runtime")]
    runtime = next((document for document in known if name_of(document) == name), None)
    if runtime is None:
        return
    named = {**job, "metadata": {"namespace": "default", "uid": UID, **job["metadata"]}}
    job_set = render(runtime, named, Facts(entropy=os.urandom))[0]
    job_set = {**job_set, "metadata": {"uid": UID, **job_set["metadata"]}}
    for replicated in dig(job_set, "spec", "replicatedJobs", default=[]):
        made = job_of(job_set, replicated, 0)
        yield from (f'its Job "{name_of(made)}" could not be made: {words}' for words in _refusals(made))


def _refusals(job: Document) -> Iterator[str]:
    """Every rule of the API server that a Job breaks."""
    rules = rules_for(kinds.JOB)
    filled = rules.default(rules.structure.default(job))
    born = rules.prepare({**filled, "metadata": {**filled["metadata"], "uid": UID}}, None, "")
    yield from (f"{cause.field}: {cause.message}" for cause in rules.validate(born, None))
