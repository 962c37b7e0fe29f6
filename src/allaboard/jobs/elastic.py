"""Elastic JobSets: Indexed Jobs at work follow a changed size of their template."""

from __future__ import annotations

from allaboard.api import kinds
from allaboard.jobs.roster import replicated_of
from allaboard.jobs.story import ELASTIC, Story
from allaboard.kube.plan import NOTHING, Plan, Update


def resized(story: Story) -> Plan:
    """Jobs whose parallelism and completions differ from the template get both at once."""
    if ELASTIC not in story.facts.gates:
        return NOTHING
    templates = {entry["name"]: entry["template"]["spec"] for entry in story.replicated}
    updates = []
    for job in story.roster.active:
        template = templates.get(replicated_of(job))
        if template is None or job["spec"].get("completionMode") != "Indexed":
            continue
        size = {key: template[key] for key in ("parallelism", "completions") if key in template}
        if any(job["spec"].get(key) != value for key, value in size.items()):
            updates.append(Update(kinds.JOB, {**job, "spec": {**job["spec"], **size}}))
    return Plan(update=tuple(updates)) if updates else NOTHING
