"""What a JobSet gets when it is created, and what it may say: defaults, then rules, in upstream's words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api import kinds
from allaboard.api.documents import Document, dig
from allaboard.jobs import amendments, creation
from allaboard.jobs.complaints import as_structs, refusal
from allaboard.jobs.placement import PodDefaults, PodRules
from allaboard.kube.admission import ALLOWED, Hook, Request, Verdict, View

_POLICIES = (("successPolicy", "operator", "All"), ("startupPolicy", "startupPolicyOrder", "AnyOrder"))


# What this room reads of a JobSet before its schema was asked: lists of what, maps of which.
_PODS: Document = {"metadata": {}, "spec": {"containers": [{}], "initContainers": [{}]}}
_ENTRY: Document = {"dependsOn": [{}], "template": {"metadata": {}, "spec": {"template": _PODS}}}
_SHAPE: Document = {
    "spec": {
        "successPolicy": {}, "startupPolicy": {}, "network": {}, "coordinator": {}, "failurePolicy": {"rules": [{}]},
        "volumeClaimPolicies": [{"retentionPolicy": {}, "templates": [{}]}], "replicatedJobs": [_ENTRY],
    },
}  # fmt: skip


def hooks(gates: Iterable[str] = ()) -> tuple[Hook, ...]:
    """Everything this room wants to be asked about, in order."""
    return (JobSetDefaults(), PodDefaults(), JobSetRules(frozenset(gates)), PodRules())


class JobSetDefaults:
    """What a new JobSet leaves out is filled in."""

    name = "mjobset.kb.io"
    kinds: tuple[kinds.Kind, ...] = (kinds.JOB_SET,)
    operations: tuple[str, ...] = ("CREATE",)
    subresources: tuple[str, ...] = ("",)

    def mutate(self, request: Request, _view: View) -> Document | None:
        return defaulted(request.new) if request.new and _fits(request.new, _SHAPE) else None


def defaulted(jobset: Document) -> Document:
    """The JobSet with every default written out. The subdomain is not: a generated name is not known yet.

    A policy that is there but says nothing is not filled in: upstream's hook writes its zero, which the schema refuses.
    """
    spec = dict(jobset.get("spec") or {})
    for policy, key, default in _POLICIES:
        given = spec.get(policy)
        spec[policy] = {key: default} if given is None else {key: "", **given}
    visible = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    spec["network"] = {**visible, **(spec.get("network") or {})}
    if spec.get("replicatedJobs"):
        spec["replicatedJobs"] = [_defaulted_entry(entry) for entry in spec["replicatedJobs"]]
    if spec.get("coordinator"):
        spec["coordinator"] = {"replicatedJob": "", **spec["coordinator"]}
    if dig(spec, "failurePolicy", "rules"):
        spec["failurePolicy"] = {**spec["failurePolicy"], "rules": _named(spec["failurePolicy"]["rules"])}
    if spec.get("volumeClaimPolicies"):
        spec["volumeClaimPolicies"] = [_retained(policy) for policy in spec["volumeClaimPolicies"]]
    return {**jobset, "spec": spec}


def _defaulted_entry(entry: Document) -> Document:
    """Upstream's hook reads and writes Go structs, so empty ones come out too: `metadata: {}`, `resources: {}`."""
    entry = as_structs(entry)
    job = entry["template"]["spec"]
    pod = {**job["template"]["spec"], "restartPolicy": job["template"]["spec"].get("restartPolicy") or "OnFailure"}
    job = {
        **job,
        "completionMode": job.get("completionMode") or "Indexed",
        "template": {**job["template"], "spec": pod},
    }
    entry = {"name": "", **entry, "template": {**entry["template"], "spec": job}}
    if entry.get("dependsOn"):
        entry["dependsOn"] = [{"name": "", "status": "", **wanted} for wanted in entry["dependsOn"]]
    return entry


def _fits(value: object, shape: object) -> bool:
    """Whether a document is shaped as we read it; if not, its schema will say so."""
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(entry, shape[0]) for entry in value)
    if not isinstance(value, dict) or not isinstance(shape, dict):
        return False
    return not shape or all(value.get(key) is None or _fits(value[key], inner) for key, inner in shape.items())


def _named(rules: Sequence[Document]) -> list[Document]:
    return [
        {"action": "", **rule, "name": rule.get("name") or f"failurePolicyRule{number}"}
        for number, rule in enumerate(rules)
    ]


def _retained(policy: Document) -> Document:
    kept = {"whenDeleted": "Delete", **(policy.get("retentionPolicy") or {})}
    templates = [{**template, "status": template.get("status") or {}} for template in policy.get("templates") or ()]
    return {**policy, "retentionPolicy": kept, "templates": templates}


class JobSetRules:
    """What a JobSet may say when it is created, and what may change later."""

    name = "vjobset.kb.io"
    kinds: tuple[kinds.Kind, ...] = (kinds.JOB_SET,)
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    subresources: tuple[str, ...] = ("",)

    def __init__(self, gates: frozenset[str] = frozenset()) -> None:
        self.gates = gates

    def validate(self, request: Request, view: View) -> Verdict:
        if request.new is None:
            return ALLOWED
        if request.old is not None:
            causes = amendments.causes(request.new, request.old, self.gates)
        else:
            causes = creation.causes(request.new, self.gates, view)
        return Verdict(refusal(request.new, causes)) if causes else ALLOWED
