"""podFailurePolicy: what a failed pod means for its Job, by the first rule that fits it."""

from __future__ import annotations

from dataclasses import dataclass

from allaboard.api.documents import Document


@dataclass(frozen=True, slots=True)
class Finding:
    """What the policy says of one failed pod: the action of the rule that fits (if any), whether it counts, why."""

    action: str = ""
    counts: bool = True
    message: str = ""


_NO_RULE = Finding()


def judge(policy: Document | None, pod: Document) -> Finding:
    """The first rule that fits decides; a pod no rule fits counts as any failure does."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        words = _exit_words(rule, pod) or _condition_words(rule, pod)
        if words:
            action = rule["action"]
            return Finding(action, action != "Ignore", f"{words} matching {action} rule at index {number}")
    return _NO_RULE


def _exit_words(rule: Document, pod: Document) -> str:
    wanted = rule.get("onExitCodes")
    if not wanted:
        return ""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    rows = (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or [])
    for row in rows:
        code = ((row.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        named = wanted.get("containerName")
        if code and named in (None, row["name"]) and (code in wanted["values"]) == (wanted["operator"] == "In"):
            where = f"{metadata.get('namespace', '')}/{metadata['name']}"
            return f"Container {row['name']} for pod {where} failed with exit code {code}"
    return ""


def _condition_words(rule: Document, pod: Document) -> str:
    metadata = pod["metadata"]
    for condition in (pod.get("status") or {}).get("conditions") or ():
        for wanted in rule.get("onPodConditions") or ():
            if condition["type"] == wanted["type"] and condition["status"] == wanted.get("status", "True"):
                where = f"{metadata.get('namespace', '')}/{metadata['name']}"
                return f"Pod {where} has condition {condition['type']}"
    return ""
