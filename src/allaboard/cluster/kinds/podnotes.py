"""Annotations of pods that the server itself reads: mirrors, AppArmor's old place, and the cost of a deletion."""

from __future__ import annotations

import re

from allaboard.api.documents import Document, dig
from allaboard.api.errors import Cause
from allaboard.cluster import complaints
from allaboard.cluster.kinds import windows

MIRROR = "kubernetes.io/config.mirror"
COST = "controller.kubernetes.io/pod-deletion-cost"
ARMOR = "container.apparmor.security.beta.kubernetes.io/"
LOCAL = "localhost/"
PROFILES = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}


def causes(pod: Document) -> list[Cause]:
    notes, found = pod["metadata"].get("annotations") or {}, list[Cause]()
    if MIRROR not in notes and COST not in notes and not _speak_of_armor(notes):
        return found
    for key, value in notes.items():
        where = f"metadata.annotations[{key}]"
        if key == MIRROR and not dig(pod, "spec", "nodeName"):
            why = "must set spec.nodeName if mirror pod annotation is set"
            found.append(complaints.invalid(where, value, why))
        if key == COST and not _is_int32(value):
            found.append(complaints.invalid(where, value, "must be a 32bit integer"))
        if key.startswith(ARMOR):
            found += _armor(pod["spec"], key, value, where)
    return found


def _is_int32(text: str) -> bool:
    return bool(re.fullmatch(r"0|-?[1-9]\d{0,9}", text)) and -(2**31) <= int(text) < 2**31


def _armor(spec: Document, key: str, value: str, where: str) -> list[Cause]:
    name, found = key.removeprefix(ARMOR), list[Cause]()
    if value and value not in PROFILES and not value.startswith(LOCAL):
        found.append(complaints.invalid(where, value, f'invalid AppArmor profile name: "{value}"'))
    if all(container.get("name") != name for container, _ in windows.containers_of(spec, "")):
        found.append(complaints.invalid(where, name, "container not found"))
    return found


def _speak_of_armor(notes: Document) -> bool:
    return ARMOR in "\n".join(notes)


def settled(pod: Document) -> Document:
    """The pod with AppArmor profiles where they stand today; those of annotations are taken over."""
    notes = pod["metadata"].get("annotations") or {}
    if not _speak_of_armor(notes):
        return pod
    spec = dict(pod["spec"])
    for part in ("containers", "initContainers"):
        if spec.get(part):
            spec[part] = [_with_profile(one, notes.get(ARMOR + (one.get("name") or ""))) for one in spec[part]]
    return {**pod, "spec": spec}


def _with_profile(container: Document, said: str | None) -> Document:
    context = container.get("securityContext") or {}
    if not said or context.get("appArmorProfile") is not None:
        return container
    if said.startswith(LOCAL):
        profile = {"type": "Localhost", "localhostProfile": said.removeprefix(LOCAL)}
    elif said in PROFILES:
        profile = {"type": PROFILES[said]}
    else:
        return container
    return {**container, "securityContext": {**context, "appArmorProfile": profile}}
