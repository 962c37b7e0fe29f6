"""What a JobSet gets when it is created, and what it may say: defaults, then rules, in upstream's words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api import kinds, names
from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import Cause
from allaboard.api.meta import key_of, name_of, namespace_of
from allaboard.jobs import amendments, policies
from allaboard.jobs.children import claim_templates, group_of, replicas_of
from allaboard.jobs.complaints import invalid, plain, refusal
from allaboard.jobs.names import claim_name, coordinator, job_name
from allaboard.jobs.placement import PodDefaults, PodRules
from allaboard.kube.admission import ALLOWED, Hook, Request, Verdict, View

LARGEST = 2**31 - 1
_TOO_LONG = "must be no more than 63 characters"
_JOB_TOO_LONG = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
_POD_TOO_LONG = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
_SUBDOMAIN_TOO_LONG = "subdomain is too long, must be less than 63 characters"
_SAMPLE_SUFFIX = "-abcde"  # stands for the random end of a generated name


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
        return defaulted(request.new) if request.new else None


def defaulted(jobset: Document) -> Document:
    """The JobSet with every default written out. The subdomain is not: a generated name is not known yet."""
    spec = dict(jobset["spec"])
    spec["successPolicy"] = {"operator": "All", **(spec.get("successPolicy") or {})}
    spec["startupPolicy"] = {"startupPolicyOrder": "AnyOrder", **(spec.get("startupPolicy") or {})}
    visible = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    spec["network"] = {**visible, **(spec.get("network") or {})}
    spec["replicatedJobs"] = [_defaulted_entry(entry) for entry in spec.get("replicatedJobs") or ()]
    if dig(spec, "failurePolicy", "rules"):
        spec["failurePolicy"] = {**spec["failurePolicy"], "rules": _named(spec["failurePolicy"]["rules"])}
    if spec.get("volumeClaimPolicies"):
        spec["volumeClaimPolicies"] = [_retained(policy) for policy in spec["volumeClaimPolicies"]]
    return {**jobset, "spec": spec}


def _defaulted_entry(entry: Document) -> Document:
    """Upstream's hook reads and writes Go structs, so empty ones come out too: `metadata: {}`, `resources: {}`."""
    template = entry["template"]
    job = template["spec"]
    pod = {**job["template"]["spec"]}
    pod["restartPolicy"] = pod.get("restartPolicy") or "OnFailure"
    for key in ("initContainers", "containers"):
        if pod.get(key):
            pod[key] = [{**container, "resources": container.get("resources") or {}} for container in pod[key]]
    pods = {**job["template"], "metadata": job["template"].get("metadata") or {}, "spec": pod}
    job = {**job, "completionMode": job.get("completionMode") or "Indexed", "template": pods}
    return {**entry, "template": {**template, "metadata": template.get("metadata") or {}, "spec": job}}


def _named(rules: Sequence[Document]) -> list[Document]:
    return [rule if rule.get("name") else {**rule, "name": f"failurePolicyRule{n}"} for n, rule in enumerate(rules)]


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
            causes = self._creation(request.new, view)
        return Verdict(refusal(request.new, causes)) if causes else ALLOWED

    def _creation(self, jobset: Document, view: View) -> list[Cause]:
        named = _with_name(jobset)
        return [
            *_dependencies(jobset),
            *_subdomain(jobset),
            *_manager(jobset),
            *(cause for number, entry in enumerate(_entries(jobset)) for cause in _entry(named, number, entry)),
            *policies.causes(jobset, self.gates),
            *_coordinator(named),
            *_claims(named, view),
        ]


def _with_name(jobset: Document) -> Document:
    """With a generated name the rules are asked of a sample."""
    prefix = dig(jobset, "metadata", "generateName", default="")
    if name_of(jobset) or not prefix:
        return jobset
    return {**jobset, "metadata": {**jobset["metadata"], "name": f"{prefix}{_SAMPLE_SUFFIX[1:]}"}}


def _entries(jobset: Document) -> Sequence[Document]:
    entries: Sequence[Document] = jobset["spec"].get("replicatedJobs") or ()
    return entries


def _dependencies(jobset: Document) -> Iterable[Cause]:
    """An entry depends on entries before it, so the first on none."""
    seen: set[str] = set()
    for number, entry in enumerate(_entries(jobset)):
        wanted = entry.get("dependsOn") or ()
        if wanted and not number:
            yield plain("DependsOn can't be set for the first ReplicatedJob")
        for dependency in wanted:
            if dependency["name"] not in seen:
                yield plain(f"replicatedJob: {entry['name']} cannot depend on replicatedJob: {dependency['name']}")
        seen.add(entry["name"])


def _subdomain(jobset: Document) -> Iterable[Cause]:
    """It is part of host names and the name of a service: both rules hold."""
    text = dig(jobset, "spec", "network", "subdomain", default="")
    if not text:
        return
    for words in names.dns_subdomain(text):
        yield invalid("spec.network.subdomain", text, words)
    for words in names.dns_1035_label(text):
        yield invalid("spec.network.subdomain", text, _SUBDOMAIN_TOO_LONG if words == _TOO_LONG else words)


def _manager(jobset: Document) -> Iterable[Cause]:
    text = jobset["spec"].get("managedBy")
    if text is None:
        return
    for cause in names.domain_prefixed_path(text):
        if cause.reason == "FieldValueRequired":
            yield Cause(cause.reason, "spec.managedBy", "Required value")
        else:
            yield invalid("spec.managedBy", text, cause.message)
    if len(text) > 63:
        yield Cause("FieldValueTooLong", "spec.managedBy", "Too long: may not be more than 63 bytes")


def _entry(jobset: Document, number: int, entry: Document) -> Iterable[Cause]:
    """One replicated Job: its size, its group, and the longest names it will give."""
    job = entry["template"]["spec"]
    if job.get("parallelism", 1) * replicas_of(entry) > LARGEST:
        words = f"the product of replicas and parallelism must not exceed {LARGEST} for replicatedJob '{entry['name']}'"
        yield plain(words)
    field = f"spec.replicatedJobs[{number}]"
    for words in names.dns_1035_label(group_of(entry)):
        yield invalid(f"{field}.groupName", group_of(entry), words)
    longest = job_name(name_of(jobset), entry["name"], replicas_of(entry) - 1)
    for words in names.dns_1035_label(longest):
        yield invalid(f"{field}.name", longest, _JOB_TOO_LONG if words == _TOO_LONG else words)
    if job.get("completionMode") == "Indexed" and job.get("completions") is not None:
        for words in names.dns_1035_label(f"{longest}-{job['completions'] - 1}{_SAMPLE_SUFFIX}"):
            yield invalid(f"{field}.name", longest, _POD_TOO_LONG if words == _TOO_LONG else words)


def _coordinator(jobset: Document) -> Iterable[Cause]:
    """The coordinator must be a pod that will exist, at an address that fits a label."""
    chosen = jobset["spec"].get("coordinator")
    if not chosen:
        return
    name, index, pod = chosen["replicatedJob"], chosen.get("jobIndex", 0), chosen.get("podIndex", 0)
    entry = next((entry for entry in _entries(jobset) if entry["name"] == name), None)
    if entry is None:
        yield plain(f"coordinator replicatedJob {name} does not exist")
        return
    job = entry["template"]["spec"]
    if not 0 <= index < replicas_of(entry):
        yield plain(f"coordinator job index {index} is invalid for replicatedJob {name}")
    elif job.get("completionMode") != "Indexed":
        yield plain("job for coordinator pod must be indexed completion mode")
    elif job.get("completions") is None:
        yield plain(f"replicatedJob {name} must have completions set")
    elif not 0 <= pod < job["completions"]:
        yield plain(f"coordinator pod index {pod} is invalid for replicatedJob {name} job index {index}")
    else:
        yield from _endpoint(jobset)


def _endpoint(jobset: Document) -> Iterable[Cause]:
    text = coordinator(jobset)
    for words in names.label_value(text):
        yield plain(f"spec.coordinator is invalid: coordinator endpoint '{text}' must be a valid label value: {words}")


def _claims(jobset: Document, view: View) -> Iterable[Cause]:
    """Claim templates: each name once, short enough, mounted by somebody, and in nobody's way."""
    seen: set[str] = set()
    pods = [entry["template"]["spec"]["template"]["spec"] for entry in _entries(jobset)]
    for policy, template in claim_templates(jobset):
        name = dig(template, "metadata", "name", default="")
        if name in seen:
            yield Cause("FieldValueDuplicate", "spec.volumeClaimPolicies", f'Duplicate value: "{name}"')
        seen.add(name)
        for words in names.dns_subdomain(name):
            yield invalid("spec.volumeClaimPolicies", name, words)
        full = claim_name(name, name_of(jobset))
        if len(full) > 63:
            yield invalid(
                "spec.volumeClaimPolicies", full, "name of the generated PVC must be no more than 63 characters"
            )
        if not any(name in _mounted(pod) for pod in pods):
            words = f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
            yield invalid("spec.replicatedJobs", list(_entries(jobset)), words)
        if any(volume["name"] == name for pod in pods for volume in pod.get("volumes") or ()):
            words = f"replicatedJob already has a volume: {name} from VolumeClaimPolicies"
            yield invalid("spec.replicatedJobs", list(_entries(jobset)), words)
        yield from _existing(jobset, policy, template, view)


def _mounted(pod: Document) -> set[str]:
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    return {mount["name"] for container in containers for mount in container.get("volumeMounts") or ()}


def _existing(jobset: Document, policy: Document, template: Document, view: View) -> Iterable[Cause]:
    """A claim that is already there is used again only if it is to be retained and says the same."""
    full = claim_name(dig(template, "metadata", "name", default=""), name_of(jobset))
    live = view.get(kinds.CLAIM, Key(namespace_of(jobset) or key_of(jobset).namespace, full))
    if live is None:
        return
    if dig(policy, "retentionPolicy", "whenDeleted", default="Delete") != "Retain":
        yield invalid("spec.volumeClaimPolicies", full, "PVC already exists and retention policy is not Retain")
    wanted = template.get("spec") or {}
    ours = {key for key in ("volumeName", "storageClassName") if key not in wanted}  # written by the cluster, not asked
    if {key: value for key, value in (live.get("spec") or {}).items() if key not in ours} != wanted:
        yield invalid("spec.volumeClaimPolicies", full, "PVC already exists and its spec does not match the template")
