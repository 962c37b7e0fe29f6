"""What is wrong with a JobSet, in upstream's words: about a field, or plainly about the whole."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from allaboard.api.documents import Document
from allaboard.api.errors import Cause, Invalid
from allaboard.api.kinds import JOB_SET
from allaboard.api.meta import name_of

# Go prints structs in the order of their declaration; keys not named here follow.
_DECLARED = (
    "name groupName metadata labels annotations parallelism completions activeDeadlineSeconds podFailurePolicy "
    "successPolicy backoffLimit backoffLimitPerIndex maxFailedIndexes selector manualSelector spec template "
    "ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy replicas dependsOn "
    "image command args workingDir ports envFrom env value valueFrom resources limits requests volumes "
    "initContainers containers restartPolicy terminationGracePeriodSeconds dnsPolicy nodeSelector "
    "serviceAccountName volumeMounts hostNetwork securityContext imagePullPolicy subdomain affinity schedulerName "
    "tolerations key operator effect priorityClassName schedulingGates"
)
_ORDER = {key: place for place, key in enumerate(_DECLARED.split())}


def invalid(field: str, value: object, words: str) -> Cause:
    return Cause("FieldValueInvalid", field, f"Invalid value: {_printed(value)}: {words}")


def plain(words: str) -> Cause:
    """A complaint that names no field: upstream reports it as an internal error of none."""
    return Cause("InternalError", "<nil>", f"Internal error: {words}")


def refusal(jobset: Document, causes: Sequence[Cause]) -> Invalid:
    """The 422 that names every cause."""
    sentences = [f"{cause.field}: {cause.message}" for cause in causes]
    told = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    details = {"name": name_of(jobset), "group": JOB_SET.group, "kind": JOB_SET.kind}
    title = f'{JOB_SET.kind}.{JOB_SET.group} "{name_of(jobset)}" is invalid'
    return Invalid(f"{title}: {told}", details=details, causes=causes)


def _printed(value: object) -> str:
    return msgspec.json.encode(_in_go_order(value)).decode()


def _in_go_order(value: object) -> object:
    if isinstance(value, dict):
        return {key: _in_go_order(value[key]) for key in sorted(value, key=lambda key: (_ORDER.get(key, 999), key))}
    return [_in_go_order(entry) for entry in value] if isinstance(value, list) else value
