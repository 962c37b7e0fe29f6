"""Rules about the volume claim templates of a new JobSet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api import kinds, names
from allaboard.api.documents import Document, Key, dig
from allaboard.api.errors import Cause
from allaboard.api.meta import key_of, name_of, namespace_of
from allaboard.jobs.complaints import invalid, shown
from allaboard.jobs.names import claim_name
from allaboard.kube.admission import View

LONGEST = 63
_POLICIES = "spec.volumeClaimPolicies"


def causes(jobset: Document, view: View) -> Iterable[Cause]:
    """Each name once, short enough, mounted by somebody, and in nobody's way."""
    seen: set[str] = set()
    for number, policy in enumerate(jobset["spec"].get("volumeClaimPolicies") or ()):
        for place, template in enumerate(policy.get("templates") or ()):
            name = dig(template, "metadata", "name", default="")
            field = f"{_POLICIES}[{number}].template[{place}]"
            if name in seen:
                yield invalid(f"{field}.name", name, "names must be unique for VolumeClaimPolicies template")
            seen.add(name)
            yield from _name(jobset, f"{field}.name", name)
            yield from _mounts(jobset["spec"].get("replicatedJobs") or [], name)
            live = _live(jobset, name, view)
            if live is not None:
                yield from _existing(live, template, f"{field}.spec")
                yield from _retained(policy, f"{_POLICIES}[{number}].retentionPolicy.whenDeleted")


def _name(jobset: Document, field: str, name: str) -> Iterable[Cause]:
    for words in names.dns_subdomain(name):
        yield invalid(field, name, words)
    if len(claim_name(name, name_of(jobset))) > LONGEST:
        yield invalid(field, name, "VolumeClaimPolicies template name is too long")


def _mounts(entries: Sequence[Document], name: str) -> Iterable[Cause]:
    """No volume of that name yet, and some container that waits for it."""
    pods = [entry["template"]["spec"]["template"]["spec"] for entry in entries]
    for number, pod in enumerate(pods):
        for place, volume in enumerate(pod.get("volumes") or ()):
            if volume["name"] == name:
                field = f"spec.replicatedJobs[{number}].template.spec.template.spec.volumes[{place}].name"
                yield invalid(field, name, f"volume name conflicts with VolumeClaimPolicy template name: {name}")
    if not any(name in _mounted(pod) for pod in pods):
        words = f"replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
        yield invalid("spec.replicatedJobs", [shown(entry) for entry in entries], words)


def _mounted(pod: Document) -> set[str]:
    containers = [*(pod.get("initContainers") or ()), *(pod.get("containers") or ())]
    return {mount["name"] for container in containers for mount in container.get("volumeMounts") or ()}


def _live(jobset: Document, name: str, view: View) -> Document | None:
    namespace = namespace_of(jobset) or key_of(jobset).namespace
    return view.get(kinds.CLAIM, Key(namespace, claim_name(name, name_of(jobset))))


def _existing(live: Document, template: Document, field: str) -> Iterable[Cause]:
    """A claim that is already there is used again only if it says the same."""
    wanted = template.get("spec") or {}
    ours = {key for key in ("volumeName", "storageClassName") if key not in wanted}  # written by the cluster, not asked
    if {key: value for key, value in (live.get("spec") or {}).items() if key not in ours} != wanted:
        words = f"spec does not match existing PVC {name_of(live)} in namespace {namespace_of(live)}"
        yield invalid(field, wanted, words)


def _retained(policy: Document, field: str) -> Iterable[Cause]:
    kept = dig(policy, "retentionPolicy", "whenDeleted", default="Delete")
    if kept != "Retain":
        yield invalid(field, kept, "retentionPolicy must be retain when PVC exists")
