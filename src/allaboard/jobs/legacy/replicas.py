"""What both legacy operators put on their pods: labels, environment, restart policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allaboard.api.documents import Document

PREFIX = "training.kubeflow.org/"
JOB_NAME, OPERATOR = f"{PREFIX}job-name", f"{PREFIX}operator-name"
REPLICA_TYPE, REPLICA_INDEX, JOB_ROLE = f"{PREFIX}replica-type", f"{PREFIX}replica-index", f"{PREFIX}job-role"
NEVER, ON_FAILURE, ALWAYS, BY_EXIT_CODE = "Never", "OnFailure", "Always", "ExitCode"
_SIGNALS = 128  # exit codes from here on tell of a signal: the machine's fault, not the program's


def marked(template: Document, labels: Mapping[str, str]) -> Document:
    """A template's metadata with labels on it."""
    metadata = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
    return {**kept, "labels": {**(metadata.get("labels") or {}), **labels}}


def with_env(container: Document, env: Mapping[str, str]) -> Document:
    """A container that knows these variables; they come last, so they win over its own."""
    added = [{"name": name, "value": value} if value else {"name": name} for name, value in env.items()]
    return {**container, "env": [*(container.get("env") or ()), *added]}


def policy_of(replica: Document, default: str) -> str:
    return str(replica.get("restartPolicy") or default)


def pod_policy(policy: str) -> str:
    """Exit codes are judged by the operator, so the kubelet must not restart on its own."""
    return NEVER if policy == BY_EXIT_CODE else policy


def is_retryable(pod: Document, policy: str, container: str) -> bool:
    """Whether a failed pod is made again. By exit code: what a signal ended may be tried again."""
    if policy != BY_EXIT_CODE:
        return policy in (ON_FAILURE, ALWAYS)
    return any(code >= _SIGNALS for code in exit_codes([pod], container).values())


def exit_codes(pods: Iterable[Document], container: str) -> dict[str, int]:
    """How the main container of each pod ended, where it did."""
    found: dict[str, int] = {}
    for pod in pods:
        for row in (pod.get("status") or {}).get("containerStatuses") or ():
            end = (row.get("state") or {}).get("terminated")
            if row["name"] == container and end:
                found[pod["metadata"]["name"]] = int(end.get("exitCode", 0))
    return found
