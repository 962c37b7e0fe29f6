"""ServiceAccount: who a pod is. It has few rules; what it gives to pods is admission's."""

from __future__ import annotations

from dataclasses import replace

from allaboard.api import kinds
from allaboard.cluster.kinds import shown
from allaboard.cluster.rules import Rules, built_in

RULES: tuple[Rules, ...] = (
    replace(
        built_in(kinds.SERVICE_ACCOUNT),
        answers_object=True,
        columns=(shown.NAME, shown.AGE),
        row=shown.plain_row,
    ),
)
