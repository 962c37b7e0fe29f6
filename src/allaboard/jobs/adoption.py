"""Whose pod is whose: a Job adopts pods its selector picks and lets go of those it no longer does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allaboard.api import kinds, selectors
from allaboard.api.documents import Document
from allaboard.api.meta import is_leaving, key_of, labels_of, owner_reference, uid_of
from allaboard.jobs.members import TRACKING
from allaboard.kube.client import PatchType
from allaboard.kube.plan import NOTHING, Patch, Plan

Picks = Callable[[dict[str, str]], bool]


def picks(job: Document) -> Picks:
    """Whether a Job's selector picks pods with these labels."""
    selector = job["spec"].get("selector") or {}
    exact = selector.get("matchLabels") or {}
    if selector.get("matchExpressions") or not exact:
        return selectors.from_document(selector).matches
    wanted = exact.items()
    return lambda labels: wanted <= labels.items()


def claim(job: Document, owned: Iterable[Document], orphans: Iterable[Document]) -> Plan:
    """Adopt and release, if there is anything to; the pass after this one counts what came of it."""
    fits = picks(job)
    strangers = [pod for pod in owned if not fits(labels_of(pod))]
    found = [] if is_leaving(job) else [pod for pod in orphans if fits(labels_of(pod)) and not is_leaving(pod)]
    if not strangers and not found:
        return NOTHING
    return Plan(patch=(*(_adopt(job, pod) for pod in found), *(_release(job, pod) for pod in strangers)))


def _adopt(job: Document, pod: Document) -> Patch:
    metadata = {"uid": uid_of(pod), "ownerReferences": [owner_reference(job)], "finalizers": [TRACKING]}
    return Patch(kinds.POD, key_of(pod), {"metadata": metadata}, PatchType.STRATEGIC)


def _release(job: Document, pod: Document) -> Patch:
    metadata = {
        "uid": uid_of(pod),
        "ownerReferences": [{"$patch": "delete", "uid": uid_of(job)}],
        "$deleteFromPrimitiveList/finalizers": [TRACKING],
    }
    return Patch(kinds.POD, key_of(pod), {"metadata": metadata}, PatchType.STRATEGIC)
