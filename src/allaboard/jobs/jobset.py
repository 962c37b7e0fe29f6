"""A JobSet becomes Jobs: the policies in the order they are asked, on one page.

Upstream: the JobSet controller. One status write at the end; words only after it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.api.meta import is_leaving, moment_of, name_of
from allaboard.jobs import elastic, failure, inplace, job, names, restart, startup, success, suspension, ttl, witness
from allaboard.jobs.children import claim_of, claim_templates, service_of
from allaboard.jobs.draft import ACTION
from allaboard.jobs.story import Facts, Story
from allaboard.kube.plan import NOTHING, Create, Event, Plan, Status

CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
RETRY = timedelta(seconds=30)  # the holder of a taken name is watched; this is for what was missed
# A Job this young that nobody has looked at yet is about to change; its set waits rather than write zeros.
YOUNG = timedelta(seconds=2)


def is_ours(jobset: Document) -> bool:
    """Somebody else may have been asked to run this JobSet."""
    return bool(jobset["spec"].get("managedBy", CONTROLLER) == CONTROLLER)


def decide(jobset: Document, facts: Facts, now: datetime) -> Plan:
    """One pass over a JobSet."""
    if is_leaving(jobset) or not is_ours(jobset):
        return NOTHING
    story = Story(jobset, facts, now)
    is_over = success.is_finished(jobset)
    plan = restart.remove(story.roster.active if is_over else story.roster.previous)
    # What failed Jobs know is written down in the pass after the verdict, before they and their pods go; alone,
    # because it changes the revision that a status needs.
    if testimony := witness.retell(jobset, story.roster.failed if is_over else story.roster.previous):
        return testimony + plan
    if is_over:
        finished = ttl.finish_time(jobset, "Completed", "Failed")
        return plan + ttl.expire(kinds.JOB_SET, jobset, finished, now) + _saved(story)
    restart.note_ready(story)
    if story.roster.failed:
        failure.failed(story)
        return plan + _saved(story)
    if success.succeeded(story):
        success.complete(story)
        return plan + _saved(story)
    return plan + _progress(story)


def _progress(story: Story) -> Plan:
    """Neither failed nor done: make what is missing, then let Jobs sleep or wake."""
    absent = startup.missing(story)
    refused = [made for made in absent if name_of(made) in story.facts.taken]
    made = [made for made in absent if name_of(made) not in story.facts.taken]
    plan = _service(story) + _claims(story) + elastic.resized(story)
    if made:
        plan += Plan(create=tuple(Create(kinds.JOB, document) for document in made))
    if refused:  # no status is written in a pass whose creations fail
        return plan + Plan(events=tuple(_taken(story, document) for document in refused), again=story.now + RETRY)
    if made and startup.has_later(story, made[0]):
        return plan + Plan(again=story.now)
    plan += suspension.suspended(story) if story.is_suspended else suspension.resumed(story)
    inplace.restarted(story)
    if _is_early(story, made):
        return plan + Plan(again=story.now + YOUNG)
    return plan + _saved(story)


def _service(story: Story) -> Plan:
    if story.facts.has_service or not names.has_hostnames(story.jobset):
        return NOTHING
    return Plan(create=(Create(kinds.SERVICE, service_of(story.jobset)),))


def _claims(story: Story) -> Plan:
    claims = [claim_of(story.jobset, policy, template) for policy, template in claim_templates(story.jobset)]
    absent = [claim for claim in claims if name_of(claim) not in story.facts.claims]
    return Plan(create=tuple(Create(kinds.CLAIM, claim) for claim in absent)) if absent else NOTHING


def _taken(story: Story, document: Document) -> Event:
    name = name_of(document)
    message = f'job "{name}" creation failed with error: jobs.batch "{name}" already exists'
    return Event(story.jobset, "JobCreationFailed", message, "Warning", ACTION)


def _is_early(story: Story, made: list[Document]) -> bool:
    """Only counts changed, and Jobs that were just made will change them again in a moment."""
    if story.draft.events or not story.draft.is_changed:
        return False
    return bool(made) or any(_is_untouched(one, story.now) for one in story.roster.active)


def _is_untouched(one: Document, now: datetime) -> bool:
    if one.get("status") or not job.is_ours(one):
        return False
    return now - moment_of(one["metadata"]["creationTimestamp"]) < YOUNG


def _saved(story: Story) -> Plan:
    if not story.draft.is_changed:
        return Plan(events=tuple(story.draft.events)) if story.draft.events else NOTHING
    document = {**story.jobset, "status": story.draft.status}
    return Plan(status=(Status(kinds.JOB_SET, document),), events=tuple(story.draft.events))
