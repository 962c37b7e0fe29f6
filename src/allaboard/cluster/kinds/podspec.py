"""What a pod spec may say, in a Pod or in the template of a Job: defaults and rules."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

from allaboard.api import names
from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import containers, placement, resources, security, volumes, windows
from allaboard.cluster.metadata import NameRule, annotation_causes, label_causes, label_key
from allaboard.cluster.store import encode

DEFAULTS = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_LOOSE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
LOOSE = rf"{_LOOSE_LABEL}(\.{_LOOSE_LABEL})*"
LOOSE_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character"
)
TOKEN_VOLUME = re.compile("kube-api-access-[a-z0-9]{5}")  # given by admission, a new one to every pod
PREEMPTION = ("PreemptLowerPriority", "Never")


def default(spec: Document) -> Document:
    """The spec as every reader may rely on it."""
    filled = {**DEFAULTS, **spec}
    if filled.get("securityContext") is None:
        filled["securityContext"] = {}
    filled["containers"] = containers.default_all(spec.get("containers") or [])
    for more in ("initContainers", "ephemeralContainers"):
        if spec.get(more):
            filled[more] = containers.default_all(spec[more])
    if spec.get("volumes"):
        filled["volumes"] = volumes.default_all(spec["volumes"])
    if spec.get("overhead"):
        filled["overhead"] = resources.in_milli({"limits": spec["overhead"]})["limits"]
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # The old name of the field always mirrors the new one.
        filled["serviceAccountName"] = filled["serviceAccount"] = account
    return filled


def default_template(template: Document) -> Document:
    return {**template, "metadata": template.get("metadata") or {}, "spec": default(template.get("spec") or {})}


def quality(spec: Document) -> str:
    """Guaranteed where every container's limits equal its requests, BestEffort where nothing is asked for."""
    if spec.get("resources"):
        spec = {"containers": [{"resources": spec["resources"]}]}
    asked, guaranteed = False, True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        wanted = container.get("resources") or {}
        limits, requests = _compute(wanted.get("limits")), _compute(wanted.get("requests"))
        asked = asked or bool(limits or requests)
        guaranteed = guaranteed and limits.keys() == {"cpu", "memory"} and (not requests or requests == limits)
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(listed: Document | None) -> Document:
    return {name: amount for name, amount in (listed or {}).items() if name in ("cpu", "memory") and amount != "0"}


_SOUND: dict[bytes, None] = {}  # specs without a breach, what no rule reads left out
_MOST_SOUND = 256


def causes(spec: Document, field: str) -> list[Cause]:
    """Every breach in a pod spec; pods of one runtime say the same but for names and values, and are judged once."""
    text = _anonymous(spec)
    if text in _SOUND:
        return _names(spec, field)
    found = _breaches(spec, field)
    if not found:
        if len(_SOUND) >= _MOST_SOUND:
            _SOUND.clear()
        _SOUND[text] = None
    return found


def _anonymous(spec: Document) -> bytes:
    """A spec as text, without what tells pods of one runtime apart and breaks no rule: what is judged by `_names`, the
    values of variables, for whom a token is, and the name of the token's volume, for which another of the same form
    in the same places would do."""
    spec = {**spec, "hostname": "", "subdomain": ""}
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_without_values(container) for container in spec[part]]
    if listed := spec.get("volumes"):
        spec["volumes"] = [_without_audience(volume) for volume in listed]
    text = encode(spec)
    for volume in listed or ():
        if TOKEN_VOLUME.fullmatch(volume.get("name") or ""):
            return text.replace(volume["name"].encode(), b"\0")
    return text


def _without_values(container: Document) -> Document:
    """A variable that has a value and nothing else is known by its name: a value may be any text."""
    if not (env := container.get("env")):
        return container
    return {**container, "env": [one["name"] if one.keys() == _PLAIN else one for one in env]}


_PLAIN = {"name", "value"}


def _without_audience(volume: Document) -> Document:
    """A projected volume, of whose tokens anybody may be the audience, and whose sources may have any name."""
    projected = volume.get("projected")
    if not projected or not projected.get("sources"):
        return volume
    return {**volume, "projected": {**projected, "sources": [_unaddressed(part) for part in projected["sources"]]}}


def _unaddressed(part: Document) -> Document:
    if len(part) == 1 and (token := part.get("serviceAccountToken")):
        return {"serviceAccountToken": {**token, "audience": ""}}
    if len(part) == 1 and (source := part.get("configMap")):
        return {"configMap": {**source, "name": bool(source.get("name"))}}
    return part


def _breaches(spec: Document, field: str) -> list[Cause]:
    mountable, found = volumes.causes(spec.get("volumes") or [], f"{field}.volumes")
    found += containers.regular(spec, mountable, f"{field}.containers")
    found += containers.initial(spec, mountable, f"{field}.initContainers")
    found += _files(spec, field)
    if spec.get("ephemeralContainers"):
        found += containers.ephemeral(spec, mountable, f"{field}.ephemeralContainers")
    found += _claims(spec, f"{field}.resourceClaims")
    found += _host_network(spec, field)
    found += containers.one_of(spec, "restartPolicy", RESTART_POLICIES, field)
    found += containers.one_of(spec, "dnsPolicy", DNS_POLICIES, field)
    if labels := spec.get("nodeSelector"):
        found += label_causes(labels, f"{field}.nodeSelector")
    found += security.pod(spec.get("securityContext") or {}, spec, f"{field}.securityContext")
    found += placement.affinity(spec.get("affinity"), f"{field}.affinity")
    found += _dns_config(spec, f"{field}.dnsConfig")
    found += _gates(spec, field)
    found += placement.spread(spec.get("topologySpreadConstraints") or [], f"{field}.topologySpreadConstraints")
    found += _names(spec, field)
    found += _numbers(spec, field)
    found += placement.tolerations(spec.get("tolerations") or [], f"{field}.tolerations")
    return found + _host_aliases(spec, f"{field}.hostAliases")


def _files(spec: Document, field: str) -> list[Cause]:
    """Variables that stand in a file of a volume: the volume must be a directory of the pod's own."""
    sources, found = {volume.get("name"): volume for volume in spec.get("volumes") or ()}, list[Cause]()
    for container, here in windows.containers_of(spec, field):
        for index, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            name, where = reference.get("volumeName") or "", f"{here}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in sources:
                found.append(complaints.not_found(where, name))
            elif sources[name].get("emptyDir") is None:
                found.append(complaints.invalid(where, name, "referenced volume must be of type emptyDir"))
    return found


def _host_network(spec: Document, field: str) -> list[Cause]:
    if not spec.get("hostNetwork"):
        return []
    found: list[Cause] = []
    for index, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if host and host != port.get("containerPort"):
                why = "must match `containerPort` when `hostNetwork` is true"
                found.append(complaints.invalid(f"{field}.containers[{index}].ports[{place}].hostPort", host, why))
    return found


def _dns_config(spec: Document, field: str) -> list[Cause]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [complaints.required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [complaints.required(f"{field}.nameservers", why)]
    if config is None:
        return []
    found: list[Cause] = []
    servers = config.get("nameservers") or []
    if len(servers) > 3:
        found.append(complaints.invalid(f"{field}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        found += address(server, f"{field}.nameservers[{index}]")
    for index, search in enumerate(config.get("searches") or ()):
        if search != ".":
            text = search.removesuffix(".")
            found += complaints.all_invalid(f"{field}.searches[{index}]", text, loose_subdomain(text))
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            found.append(complaints.required(f"{field}.options[{index}]", "must not be empty"))
    return found


def address(text: str, field: str) -> list[Cause]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return [complaints.invalid(field, text, NOT_AN_ADDRESS)]
    return []


def loose_subdomain(text: str) -> list[str]:
    """A domain to search, whose labels may begin with an underscore."""
    found = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not re.fullmatch(LOOSE, text):
        found.append(f"{LOOSE_WORDS} (e.g. 'example.com', regex used for validation is '{LOOSE}')")
    return found


def _claims(spec: Document, field: str) -> list[Cause]:
    seen, found = set[str](), list[Cause]()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        here, name = f"{field}[{index}]", claim.get("name") or ""
        if not name:
            found.append(complaints.required(f"{here}.name"))
        elif name in seen:
            found.append(complaints.duplicate(f"{here}.name", name))
        else:
            found += complaints.all_invalid(f"{here}.name", name, containers.label(name))
        seen.add(name)
        for key in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(key) is not None:
                found += complaints.all_invalid(f"{here}.{key}", claim[key], names.dns_subdomain(claim[key]))
        found += _one_claim(claim, here)
    return found


def _one_claim(claim: Document, here: str) -> list[Cause]:
    keys = ("resourceClaimName", "resourceClaimTemplateName")
    given = [key for key in keys if claim.get(key) is not None]
    if len(given) == 1:
        return []
    why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    if given:
        why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
    # Upstream prints the Go struct.
    go = {"Name": claim.get("name", ""), **{key[0].upper() + key[1:]: claim.get(key) for key in keys}}
    return [complaints.invalid(here, complaints.Ordered(go), why)]


def _gates(spec: Document, field: str) -> list[Cause]:
    found, seen = list[Cause](), set[str]()
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        where, name = f"{field}.readinessGates[{index}].conditionType", gate.get("conditionType") or ""
        found += complaints.all_invalid(where, name, label_key(name))
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        where, name = f"{field}.schedulingGates[{index}]", gate.get("name") or ""
        found += complaints.all_invalid(where, name, label_key(name))
        if name in seen:
            found.append(complaints.duplicate(where, name))
        seen.add(name)
    return found


@lru_cache(maxsize=4096)
def _complaints(rule: NameRule, name: str) -> tuple[str, ...]:
    return tuple(rule(name))


NAMED: dict[str, NameRule] = {
    "serviceAccountName": names.dns_subdomain,
    "nodeName": names.dns_subdomain,
    "hostname": names.dns_label,
    "subdomain": names.dns_label,
    "priorityClassName": names.dns_subdomain,
    "runtimeClassName": names.dns_subdomain,
}


def _names(spec: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for key, rule in NAMED.items():
        name = spec.get(key)
        if (name or (name == "" and key == "runtimeClassName")) and (words := _complaints(rule, name)):
            found += complaints.all_invalid(f"{field}.{key}", name, words)
    return found


def _numbers(spec: Document, field: str) -> list[Cause]:
    deadline, preemption = spec.get("activeDeadlineSeconds"), spec.get("preemptionPolicy")
    found: list[Cause] = []
    if deadline is not None and not 1 <= deadline <= 2147483647:
        why = "must be between 1 and 2147483647, inclusive"
        found.append(complaints.invalid(f"{field}.activeDeadlineSeconds", deadline, why))
    if preemption is not None and preemption not in PREEMPTION:
        found.append(complaints.not_supported(f"{field}.preemptionPolicy", preemption, PREEMPTION))
    if spec.get("resources"):
        found += resources.whole_pod(spec, f"{field}.resources")
    if spec.get("overhead"):
        found += resources.requirements({"limits": spec["overhead"]}, f"{field}.overhead")
    return found + _system(spec, f"{field}.os") + _host_name(spec, f"{field}.hostnameOverride")


def _system(spec: Document, field: str) -> list[Cause]:
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name") or ""
    if not name:
        return [complaints.required(f"{field}.name")]
    return [] if name in ("linux", "windows") else [complaints.not_supported(field, name, ("linux", "windows"))]


def _host_name(spec: Document, field: str) -> list[Cause]:
    name, found = spec.get("hostnameOverride"), list[Cause]()
    if name is None:
        return []
    for key in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(key):
            found.append(complaints.forbidden(field, f"may not be specified when {key} is true"))
    if len(name) > 64:
        found.append(complaints.too_long(field, 64))
    return found + complaints.all_invalid(field, name, names.dns_subdomain(name))


def _host_aliases(spec: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        found += address(alias.get("ip") or "", f"{field}[{index}].ip")
        for place, name in enumerate(alias.get("hostnames") or ()):
            found += complaints.all_invalid(f"{field}[{index}].hostnames[{place}]", name, names.dns_subdomain(name))
    return found


def template_causes(template: Document, field: str) -> list[Cause]:
    """Every breach in a pod template."""
    metadata = template.get("metadata") or {}
    found = label_causes(metadata.get("labels") or {}, f"{field}.labels")
    found += annotation_causes(metadata.get("annotations") or {}, f"{field}.annotations")
    found += causes(template.get("spec") or {}, f"{field}.spec")
    if (template.get("spec") or {}).get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        found.append(complaints.forbidden(f"{field}.spec.ephemeralContainers", why))
    return found
