"""What the children of a JobSet are called: Jobs, host names, services, claims."""

from __future__ import annotations

from hashlib import sha1

from allaboard.api.documents import Document, dig
from allaboard.api.meta import name_of

PREFIX = "jobset.sigs.k8s.io/"
ALPHA = "alpha.jobset.sigs.k8s.io/"
EXCLUSIVE = f"{ALPHA}exclusive-topology"
NODE_SELECTOR = f"{ALPHA}node-selector"
NAMESPACED_JOB = f"{ALPHA}namespaced-job"
NO_SCHEDULE = f"{ALPHA}no-schedule"
JOB_KEY = f"{PREFIX}job-key"
JOB_RESTART = f"{PREFIX}job-restart-attempt"
PRIORITY = f"{PREFIX}priority"
IN_PLACE_ATTEMPT = f"{PREFIX}in-place-restart-attempt"


def job_name(jobset: str, replicated: str, index: int | str) -> str:
    return f"{jobset}-{replicated}-{index}"


def job_key(namespace: str, job: str) -> str:
    """The same for every attempt of a Job, short enough for a label."""
    return sha1(f"{namespace}/{job}".encode()).hexdigest()


def subdomain(jobset: Document) -> str:
    """The domain of the pods' host names, which is also the name of the headless service."""
    return str(dig(jobset, "spec", "network", "subdomain", default="") or name_of(jobset))


def has_hostnames(jobset: Document) -> bool:
    return bool(dig(jobset, "spec", "network", "enableDNSHostnames", default=False))


def coordinator(jobset: Document) -> str:
    """Where the coordinator pod answers, if the JobSet names one."""
    chosen = dig(jobset, "spec", "coordinator")
    if not chosen:
        return ""
    job = job_name(name_of(jobset), chosen["replicatedJob"], chosen.get("jobIndex", 0))
    return f"{job}-{chosen.get('podIndex', 0)}.{subdomain(jobset)}"


def claim_name(template: str, jobset: str) -> str:
    return f"{template}-{jobset}"
