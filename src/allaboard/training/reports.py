"""What a running job reports about itself: how such a report is read, and in which words it is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.errors import ApiError, Forbidden, Invalid, NotFound, TooLarge
from allaboard.api.labels import JOBSET_NAME
from allaboard.api.meta import labels_of, uid_of

LARGEST_BODY = 65_536
MANAGER = "trainer-status"
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"

_PATH = re.compile(r"/apis/trainer\.kubeflow\.org/v1alpha1/namespaces/([^/]+)/trainjobs/([^/]+)/status")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a token speaks for: a namespace's service account, inside one pod."""

    namespace: str
    pod: str = ""
    pod_uid: str = ""


def place_of(method: str, path: str) -> Key:
    """The TrainJob a report is about."""
    found = _PATH.fullmatch(path)
    if method != "POST" or not found:
        raise NotFound("Not found")
    return Key(found[1], found[2])


def token_of(header: str) -> str:
    """The bearer token of an Authorization header; "" where there is none, or more than one."""
    words = header.split()
    return words[1] if len(words) == 2 and words[0].lower() == "bearer" else ""


def caller_of(review: Document) -> Caller | None:
    """Who a TokenReview says it is; None where the token was not good for the audience."""
    status = review.get("status") or {}
    user = status.get("user") or {}
    parts = str(user.get("username", "")).split(":")
    if not status.get("authenticated") or parts[:2] != ["system", "serviceaccount"] or len(parts) != 4:
        return None
    extra = user.get("extra") or {}
    return Caller(parts[2], *(next(iter(extra.get(name) or []), "") for name in (POD_NAME, POD_UID)))


def must_be_own_pod(caller: Caller | None, job: Key, pod: Document | None) -> None:
    """A report is taken from the job's own pods only: the audience alone would let the whole namespace write."""
    own = pod is not None and labels_of(pod).get(JOBSET_NAME) == job.name
    if caller is None or caller.namespace != job.namespace or not own or uid_of(pod or {}) != caller.pod_uid:
        raise Forbidden("Forbidden")


def must_fit(stated: int | None) -> None:
    """The size the sender states is enough to refuse it."""
    if stated is not None and stated > LARGEST_BODY:
        raise TooLarge("Payload too large")


def payload_of(body: bytes) -> Document:
    """The report itself; what is not known in it is left out."""
    if len(body) > LARGEST_BODY:
        raise Invalid("Invalid payload")
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Invalid("Invalid payload") from error
    if not isinstance(found, dict):
        raise Invalid("Invalid payload")
    known: Document = {"trainerStatus": found["trainerStatus"]} if found.get("trainerStatus") is not None else {}
    return known


def status_document(job: Key, payload: Document) -> Document:
    """What is applied to the TrainJob's status: a report replaces the one before it as a whole."""
    return {
        "apiVersion": kinds.TRAIN_JOB.api_version,
        "kind": kinds.TRAIN_JOB.kind,
        "metadata": {"name": job.name, "namespace": job.namespace},
        "status": payload,
    }


def refusal(error: ApiError) -> Document:
    """The body of an answer that is no."""
    return {"metadata": {}, "status": "Failure", "message": error.message, "reason": error.reason, "code": error.code}
