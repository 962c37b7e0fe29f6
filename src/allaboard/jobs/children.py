"""The documents a JobSet makes: its Jobs, its headless service, its volume claims."""

from __future__ import annotations

from collections.abc import Sequence

from allaboard.api import labels
from allaboard.api.documents import Document, dig
from allaboard.api.meta import annotations_of, name_of, namespace_of, owner_reference, uid_of
from allaboard.jobs import names


def replicas_of(replicated: Document) -> int:
    return int(replicated.get("replicas", 1))


def group_of(replicated: Document) -> str:
    return str(replicated.get("groupName", "default"))


def replicated_jobs(jobset: Document) -> Sequence[Document]:
    """What a JobSet replicates; one without a word about it is legal, and has nothing to do."""
    entries: Sequence[Document] = jobset["spec"].get("replicatedJobs") or ()
    return entries


def job_of(jobset: Document, replicated: Document, index: int, *, restarts: int | None = None) -> Document:
    """One Job of a replicated Job; `restarts` is its own count of restarts, where those are kept."""
    name = names.job_name(name_of(jobset), replicated["name"], index)
    facts = _facts(jobset, replicated, index, name)
    if restarts is not None:
        facts[names.JOB_RESTART] = str(restarts)
    template = replicated["template"]
    own = _marked(template.get("metadata") or {}, facts, _placement(jobset, replicated))
    metadata: Document = {
        "name": name,
        "namespace": namespace_of(jobset),
        "labels": own["labels"],
        "annotations": own["annotations"],
        "ownerReferences": [owner_reference(jobset)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": _spec(jobset, replicated, metadata)}


def _spec(jobset: Document, replicated: Document, metadata: Document) -> Document:
    spec = replicated["template"]["spec"]
    pod = spec["template"]
    facts = {key: value for key, value in metadata["labels"].items() if key.startswith(names.PREFIX)}
    placement = {key: value for key, value in metadata["annotations"].items() if key.startswith(names.ALPHA)}
    body = _volumes(jobset, pod["spec"])
    if names.has_hostnames(jobset):
        body = {**body, "subdomain": names.subdomain(jobset)}
    if names.EXCLUSIVE in placement and names.NODE_SELECTOR in placement:
        body = _pinned(body, f"{metadata['namespace']}_{metadata['name']}")
    marked = _marked(pod.get("metadata") or {}, facts, placement)
    suspended = bool(jobset["spec"].get("suspend"))
    return {**spec, "suspend": suspended, "template": {**pod, "metadata": marked, "spec": body}}


def _facts(jobset: Document, replicated: Document, index: int, name: str) -> dict[str, str]:
    """What a Job and its pods are told about their place in the set, as labels and as annotations."""
    sets = replicated_jobs(jobset)
    before = sets[: [entry["name"] for entry in sets].index(replicated["name"])]
    group = group_of(replicated)
    facts = {
        labels.JOBSET_NAME: name_of(jobset),
        labels.JOBSET_UID: uid_of(jobset),
        labels.REPLICATED_JOB: replicated["name"],
        labels.RESTART_ATTEMPT: str(dig(jobset, "status", "restarts", default=0)),
        f"{names.PREFIX}replicatedjob-replicas": str(replicas_of(replicated)),
        f"{names.PREFIX}global-replicas": str(sum(map(replicas_of, sets))),
        labels.JOB_INDEX: str(index),
        names.JOB_KEY: names.job_key(namespace_of(jobset), name),
        f"{names.PREFIX}job-global-index": str(sum(map(replicas_of, before)) + index),
        f"{names.PREFIX}group-name": group,
        f"{names.PREFIX}group-replicas": str(_in_group(sets, group)),
        f"{names.PREFIX}job-group-index": str(_in_group(before, group) + index),
    }
    return facts | ({f"{names.PREFIX}coordinator": names.coordinator(jobset)} if names.coordinator(jobset) else {})


def _in_group(sets: Sequence[Document], group: str) -> int:
    return sum(replicas_of(entry) for entry in sets if group_of(entry) == group)


def _placement(jobset: Document, replicated: Document) -> dict[str, str]:
    """Exclusive placement as the JobSet asks for it, or as the replicated Job does, which knows better."""
    found: dict[str, str] = {}
    for source in (annotations_of(jobset), annotations_of(replicated["template"])):
        if names.EXCLUSIVE in source:
            found |= {key: source[key] for key in (names.EXCLUSIVE, names.NODE_SELECTOR) if key in source}
    return found


def _marked(metadata: Document, facts: dict[str, str], placement: dict[str, str]) -> Document:
    return {
        **metadata,
        "labels": {**(metadata.get("labels") or {}), **facts},
        "annotations": {**(metadata.get("annotations") or {}), **facts, **placement},
    }


def _pinned(spec: Document, job: str) -> Document:
    """The node selector way of exclusive placement: somebody labels and taints the nodes for each Job."""
    toleration = {"key": names.NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
    return {
        **spec,
        "nodeSelector": {**(spec.get("nodeSelector") or {}), names.NAMESPACED_JOB: job},
        "tolerations": [*(spec.get("tolerations") or ()), toleration],
    }


def _volumes(jobset: Document, spec: Document) -> Document:
    """A volume for each claim template that some container of the pod mounts."""
    templates = [template["metadata"]["name"] for _, template in claim_templates(jobset)]
    if not templates:
        return spec
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts") or ()}
    added = [
        {"name": name, "persistentVolumeClaim": {"claimName": names.claim_name(name, name_of(jobset))}}
        for name in templates
        if name in mounted
    ]
    return {**spec, "volumes": [*(spec.get("volumes") or ()), *added]} if added else spec


def claim_templates(jobset: Document) -> list[tuple[Document, Document]]:
    """Every claim template with the policy it stands in."""
    policies = jobset["spec"].get("volumeClaimPolicies") or ()
    return [(policy, template) for policy in policies for template in policy.get("templates") or ()]


def claim_of(jobset: Document, policy: Document, template: Document) -> Document:
    """The claim of one template; it belongs to the JobSet unless it is to be retained."""
    given = template.get("metadata") or {}
    metadata: Document = {
        "name": names.claim_name(given["name"], name_of(jobset)),
        "namespace": namespace_of(jobset),
        "labels": {**(given.get("labels") or {}), labels.JOBSET_NAME: name_of(jobset)},
    }
    if given.get("annotations"):
        metadata["annotations"] = given["annotations"]
    if dig(policy, "retentionPolicy", "whenDeleted", default="Delete") == "Delete":
        metadata["ownerReferences"] = [owner_reference(jobset)]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}


def service_of(jobset: Document) -> Document:
    """The headless service that makes the pods' host names resolve."""
    metadata = {
        "name": names.subdomain(jobset),
        "namespace": namespace_of(jobset),
        "ownerReferences": [owner_reference(jobset)],
    }
    spec: Document = {"clusterIP": "None", "selector": {labels.JOBSET_NAME: name_of(jobset)}}
    if dig(jobset, "spec", "network", "publishNotReadyAddresses", default=True):
        spec["publishNotReadyAddresses"] = True
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
