"""What is legal in a pod and surely not meant: the server says so, and does it."""

from __future__ import annotations

import ipaddress

from allaboard.api import names, quantity
from allaboard.api.documents import Document, Documents, dig
from allaboard.cluster.kinds import claim, windows

HOST_NAME = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
    "recommended: "
)
ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
SECCOMP, ARMOR = "seccomp.security.alpha.kubernetes.io/pod", "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_OF, USE_SECCOMP = (
    "container.seccomp.security.alpha.kubernetes.io/",
    'non-functional in v1.27+; use the "seccompProfile" field instead',
)
USE_ARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
NODE_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
SINCE = {"beta.kubernetes.io/arch": "1.14", "beta.kubernetes.io/os": "1.14"}
NO_SELECTOR = "a null labelSelector results in matching no pod"
TERMS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


def warnings(new: Document, old: Document | None) -> list[str]:
    if old is not None:
        return []
    name = new["metadata"].get("name") or ""
    found = [f"{HOST_NAME}[{' '.join(words)}]"] if name and (words := names.dns_label(name)) else []
    return found + of_template(new, "")


def of_template(template: Document, field: str) -> list[str]:
    """The remarks about a pod, or about a template of pods that stands at a field."""
    before = f"{field}." if field else ""
    spec, meta, here = template.get("spec") or {}, template.get("metadata") or {}, f"{before}spec"
    notes = meta.get("annotations") or {}
    found = _node_labels(spec, here) + _spread(spec, here)
    found += [f"{before}metadata.annotations[{key}]: {said}" for key, said in ANNOTATIONS.items() if key in notes]
    found += _volumes(spec.get("volumes") or [], f"{here}.volumes") + _lists(spec, here)
    if SECCOMP in notes and not dig(spec, "securityContext", "seccompProfile"):
        found.append(f"{before}metadata.annotations[{SECCOMP}]: {USE_SECCOMP}")
    found += _containers(spec, notes, here, before)
    found += _ports(spec, here)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        words = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{here}.terminationGracePeriodSeconds: {words}")
    return found + _affinity(spec.get("affinity") or {}, f"{here}.affinity") + _addresses(spec, here)


def _deprecated(label: str) -> str:
    return f'deprecated since v{SINCE.get(label, "1.17")}; use "{NODE_LABELS[label]}" instead'


def _node_labels(spec: Document, here: str) -> list[str]:
    found = [
        f"{here}.nodeSelector[{key}]: {_deprecated(key)}"
        for key in spec.get("nodeSelector") or ()
        if key in NODE_LABELS
    ]
    affinity = dig(spec, "affinity", "nodeAffinity", default={})
    terms = [
        (term, f"{here}.affinity.nodeAffinity.{TERMS[0]}.nodeSelectorTerms[{index}]")
        for index, term in enumerate(dig(affinity, TERMS[0], "nodeSelectorTerms", default=[]))
    ]
    terms += [
        (term.get("preference") or {}, f"{here}.affinity.nodeAffinity.{TERMS[1]}[{index}].preference")
        for index, term in enumerate(affinity.get(TERMS[1]) or ())
    ]
    for term, where in terms:
        for index, wanted in enumerate(term.get("matchExpressions") or ()):
            if wanted.get("key") in NODE_LABELS:
                key = wanted["key"]
                found.append(f"{where}.matchExpressions[{index}].key: {key} is {_deprecated(key)}")
    return found


def _spread(spec: Document, here: str) -> list[str]:
    found: list[str] = []
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{here}.topologySpreadConstraints[{index}]", constraint.get("topologyKey")
        if key in NODE_LABELS:
            found.append(f"{where}.topologyKey: {key} is {_deprecated(key)}")
        if constraint.get("labelSelector") is None:
            found.append(f"{where}.labelSelector: {NO_SELECTOR}")
    return found


def _volumes(volumes: Documents, field: str) -> list[str]:
    found: list[str] = []
    for index, volume in enumerate(volumes):
        for name, said in VOLUMES.items():
            if volume.get(name) is not None:
                spelt = "storageOS" if name == "storageos" else name
                found.append(f"{field}[{index}].{spelt}: {said}")
        template = dig(volume, "ephemeral", "volumeClaimTemplate")
        if template:
            where = f"{field}[{index}].ephemeral.volumeClaimTemplate.spec"
            found += claim.spec_warnings(template.get("spec") or {}, where)
    for volume in volumes:
        sources = dig(volume, "projected", "sources", default=[])
        if sources and not any(any(part.values()) for part in sources):
            found.append(f'volume "{volume.get("name", "")}" (Projected) has no sources provided')
    return found


def _lists(spec: Document, here: str) -> list[str]:
    found: list[str] = []
    for part, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        given = [one.get(key) for one in spec.get(part) or ()]
        for index, value in enumerate(given):
            if value in given[:index]:
                found.append(f'{here}.{part}[{index}].{key}: duplicate {key} "{value or ""}"')
        if part == "imagePullSecrets":
            empty = (index for index, value in enumerate(given) if not value)
            found += [f'{here}.{part}[{index}].name: invalid empty name ""' for index in empty]
    return found + _fractions(spec.get("overhead") or {}, f"{here}.overhead")


def _fractions(listed: Document, field: str) -> list[str]:
    return [
        f'{field}[{name}]: fractional byte value "{listed[name]}" is invalid, must be an integer'
        for name in ("memory", "ephemeral-storage")
        if name in listed and quantity.parse(listed[name]).milli_value() % 1000
    ]


def _containers(spec: Document, notes: Document, here: str, before: str) -> list[str]:
    found: list[str] = []
    for container, where in windows.containers_of(spec, here):
        name = container.get("name") or ""
        if SECCOMP_OF + name in notes and not dig(container, "securityContext", "seccompProfile"):
            found.append(f"{before}metadata.annotations[{SECCOMP_OF}{name}]: {USE_SECCOMP}")
        if before and ARMOR + name in notes and not dig(container, "securityContext", "appArmorProfile"):
            found.append(f"{before}metadata.annotations[{ARMOR}{name}]: {USE_ARMOR}")
        for side in ("limits", "requests"):
            found += _fractions(dig(container, "resources", side, default={}), f"{where}.resources.{side}")
        found += _hidden(container.get("env") or [], where)
    return found


def _hidden(env: Documents, here: str) -> list[str]:
    seen, found = set[str](), list[str]()
    for index, variable in enumerate(env):
        name, value = variable.get("name", ""), variable.get("value") or ""
        reference = f"$({name})"
        if name in seen and (variable.get("valueFrom") or value == reference or reference not in value):
            hides = f'hides previous definition of "{name}", which may be dropped when using apply'
            found.append(f"{here}.env[{index}]: {hides}")
        seen.add(name)
    return found


def _ports(spec: Document, here: str) -> list[str]:
    """Ports that another of the pod hides, then names that another has."""
    found, named = list[str](), list[str]()
    seen: dict[tuple[object, object], list[tuple[str, Document]]] = {}
    names_seen: dict[str, str] = {}
    for container, place in windows.containers_of(spec, here):
        for index, port in enumerate(container.get("ports") or ()):
            where, others = (
                f"{place}.ports[{index}]",
                seen.setdefault((port.get("containerPort"), port.get("protocol")), []),
            )
            if port.get("hostIP") and not port.get("hostPort"):
                found.append(f"{where}: hostIP set without hostPort: {_go_port(port)}")
            found += [words for other in others if (words := _clash(port, where, *other))]
            others.append((where, port))
            if name := port.get("name"):
                first = names_seen.setdefault(name, where)
                if first != where:
                    uses = f"services and probes that select ports by name will use {first}"
                    named.append(f'{where}: duplicate port name "{name}" with {first}, {uses}')
    return found + named


def _clash(port: Document, where: str, other_place: str, other: Document) -> str:
    hosts, addresses = (
        (port.get("hostPort") or 0, other.get("hostPort") or 0),
        (port.get("hostIP"), other.get("hostIP")),
    )
    if hosts[0] == hosts[1] and (addresses[0] or "") == (addresses[1] or ""):
        return f"{where}: duplicate port definition with {other_place}"
    if not all(hosts):
        return f"{where}: overlapping port definition with {other_place}"
    if hosts[0] == hosts[1] and bool(addresses[0]) != bool(addresses[1]):
        return f"{where}: dangerously ambiguous port definition with {other_place}"
    return ""


def _go_port(port: Document) -> str:
    said: tuple[tuple[str, str, object], ...] = (
        ("Name", "name", ""),
        ("HostPort", "hostPort", 0),
        ("ContainerPort", "containerPort", 0),
    )
    said += (("Protocol", "protocol", ""), ("HostIP", "hostIP", ""))
    return "{" + " ".join(f"{go}:{port.get(key, empty)}" for go, key, empty in said) + "}"


def _affinity(affinity: Document, field: str) -> list[str]:
    found: list[str] = []
    for name in ("podAffinity", "podAntiAffinity"):
        given = affinity.get(name) or {}
        for index, term in enumerate(given.get(TERMS[0]) or ()):
            if term.get("labelSelector") is None:
                found.append(f"{field}.{name}.{TERMS[0]}[{index}].labelSelector: {NO_SELECTOR}")
        for index, term in enumerate(given.get(TERMS[1]) or ()):
            if dig(term, "podAffinityTerm", "labelSelector") is None:
                found.append(f"{field}.{name}.{TERMS[1]}[{index}].podAffinityTerm.labelSelector: {NO_SELECTOR}")
    return found


def _addresses(spec: Document, here: str) -> list[str]:
    listed = enumerate(dig(spec, "dnsConfig", "nameservers", default=[]))
    found = [words for index, text in listed if (words := address(text, f"{here}.dnsConfig.nameservers[{index}]"))]
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        if words := address(alias.get("ip") or "", f"{here}.hostAliases[{index}].ip"):
            found.append(words)
    return found


def address(text: str, field: str) -> str:
    """An address that is written in another way than everybody writes it."""
    try:
        plain = str(ipaddress.ip_address(text))
    except ValueError:
        return ""
    if ":" in text and plain != text:
        return f'{field}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{plain}")'
    return ""
