"""What both legacy operators put on their pods: labels, environment, restart policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allaboard.api.documents import Document

PREFIX = "training.kubeflow.org/"
JOB_NAME, OPERATOR = f"{PREFIX}job-name", f"{PREFIX}operator-name"
REPLICA_TYPE, REPLICA_INDEX, JOB_ROLE = f"{PREFIX}replica-type", f"{PREFIX}replica-index", f"{PREFIX}job-role"


def marked(template: Document, labels: Mapping[str, str]) -> Document:
    """A template's metadata with labels on it."""
    metadata = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("annotations", "finalizers") if metadata.get(key)}
    return {**kept, "labels": {**(metadata.get("labels") or {}), **labels}}


def with_env(containers: Iterable[Document], env: Mapping[str, str]) -> list[Document]:
    """Containers that know these variables; what a container sets itself stays."""
    return [_told(container, env) for container in containers]


def _told(container: Document, env: Mapping[str, str]) -> Document:
    own = container.get("env") or []
    known = {entry["name"] for entry in own}
    added = [{"name": name, "value": value} for name, value in env.items() if name not in known]
    return {**container, "env": [*own, *added]} if added else container


def pod_policy(replica: Document) -> str:
    """Exit codes are judged by the operator, so the kubelet must not restart on its own."""
    policy = replica.get("restartPolicy") or "OnFailure"
    return "Never" if policy == "ExitCode" else str(policy)


def is_retryable(pod: Document, replica: Document, container: str) -> bool:
    """Whether a failed pod is made again. By exit code: what a signal ended (128 and above) may be tried again."""
    policy = replica.get("restartPolicy") or "OnFailure"
    if policy != "ExitCode":
        return policy in ("OnFailure", "Always")
    rows = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [(row.get("state") or {}).get("terminated") or {} for row in rows if row["name"] == container]
    return any(end.get("exitCode", 0) >= 128 for end in ends)
