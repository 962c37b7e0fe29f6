"""`aboard top`: what nodes and jobs asked for, and what they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.kinds import NODE, POD
from allaboard.api.meta import is_true, key_of, name_of
from allaboard.cli import screen, session
from allaboard.cli.session import Session
from allaboard.sdk.jobs import Job, pod_phase
from allaboard.sdk.queues import RESOURCES, held
from allaboard.sdk.reading import read_jobs
from allaboard.sdk.usage import Usage, read_usage

PAUSE = 0.5  # seconds between two looks at the processor time spent
NODE_HEADERS = ("NODE", "READY", "PODS", "GPU", "CPU ASKED", "CPU USED", "MEMORY ASKED", "MEMORY USED")
JOB_HEADERS = ("JOB", "STATE", "PODS", "GPU", "CPU ASKED", "CPU USED", "MEMORY ASKED", "MEMORY USED")
Used = Mapping[Key, Usage]


@click.command("top", help="What nodes (or jobs) were asked for and what they use; `–` where nodes cannot be asked.")
@click.argument("what", type=click.Choice(("nodes", "jobs")), default="nodes")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of every namespace.")
@click.pass_context
def command(ctx: click.Context, what: str, all_namespaces: bool) -> None:
    async def work(open_session: Session) -> list[list[str]]:
        client = open_session.client
        nodes = await client.list(NODE)
        used = await read_usage(client, [name_of(node) for node in nodes], PAUSE)
        if what == "nodes":
            pods = [pod for pod in await client.list(POD) if pod_phase(pod) in ("Pending", "Running")]
            return [node_row(node, pods, used) for node in nodes]
        jobs = await read_jobs(client, "" if all_namespaces else open_session.namespace)
        return [job_row(job, used) for job in jobs if not job.is_finished]

    rows = session.run(ctx, work)
    if not rows:
        screen.say(f"no {what}")
        return
    screen.table(NODE_HEADERS if what == "nodes" else JOB_HEADERS, rows)


def node_row(node: Document, pods: Documents, used: Used) -> list[str]:
    here = [pod for pod in pods if dig(pod, "spec", "nodeName") == name_of(node)]
    offers = dig(node, "status", "allocatable", default={})

    def of(resource: str) -> str:
        return f"{asked(here, resource):.3g}/{held(offers, resource):.3g}"

    gpus = of("gpu") if held(offers, "gpu") else "–"
    ready = "yes" if is_true(node, "Ready") else "no"
    cpu, memory = _uses(here, used)
    return [name_of(node), ready, str(len(here)), gpus, of("cpu"), cpu, f"{of('memory')} Gi", memory]


def job_row(job: Job, used: Used) -> list[str]:
    here = [pod for pod in job.pods if dig(pod, "spec", "nodeName")]
    cpu, memory = _uses(here, used)
    gpus, cpus, size = (f"{asked(job.pods, resource):.3g}" for resource in RESOURCES)
    return [job.name, job.phase, f"{len(here)}/{len(job.pods)}", gpus, cpus, cpu, f"{size} Gi", memory]


def asked(pods: Sequence[Document], resource: str) -> float:
    """What the containers of pods request together."""
    containers = [container for pod in pods for container in dig(pod, "spec", "containers", default=[])]
    return sum(held(dig(container, "resources", "requests", default={}), resource) for container in containers)


def _uses(pods: Sequence[Document], used: Used) -> tuple[str, str]:
    known = [used[key_of(pod)] for pod in pods if key_of(pod) in used]
    if not known and pods:
        return "–", "–"
    total = sum(known, Usage())
    return f"{total.cpu:.2f}", f"{total.memory / 2**30:.2f} Gi"
