"""ServiceAccount: who a pod is. It has few rules; what it gives to pods is admission's."""

from __future__ import annotations

from dataclasses import replace

from allaboard.api import kinds
from allaboard.api.documents import Document
from allaboard.cluster.kinds import shown
from allaboard.cluster.rules import Rules, built_in

MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"


def warnings(new: Document, old: Document | None) -> list[str]:
    if MOUNTABLE not in (new["metadata"].get("annotations") or {}):
        return []
    why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    return [f"metadata.annotations[{MOUNTABLE}]: {why}"]


RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.SERVICE_ACCOUNT),
        answers_object=True,
        warnings=warnings,
        columns=(shown.NAME, shown.AGE),
        row=shown.plain_row,
    ),
)
