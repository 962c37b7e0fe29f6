"""Claims are held while in use, and find or get a volume."""

from datetime import UTC, datetime

import pytest

from allaboard.api import kinds
from allaboard.api.documents import Key
from allaboard.upkeep import claims

from .builders import thing

NOW = datetime(2026, 1, 2, tzinfo=UTC)
HELD = {"finalizers": [claims.PROTECTION]}


def claim(name="data", size="1Gi", *, leaving=False, made="", **spec):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    spec |= {"storageClassName": made} if made else {}
    return thing(
        "PersistentVolumeClaim", name, leaving=leaving, metadata=dict(HELD), spec=spec, status={"phase": "Pending"}
    )


def volume(name, size="1Gi", modes=("ReadWriteOnce",), made="", **spec):
    spec = {"accessModes": list(modes), "capacity": {"storage": size}, "storageClassName": made, **spec}
    return thing("PersistentVolume", name, "", spec=spec, status={"phase": "Available"})


def pod(phase="Running", node="n1", **volumes):
    mounted = [{"name": name, **source} for name, source in volumes.items()]
    return thing("Pod", "p", spec={"volumes": mounted, "nodeName": node}, status={"phase": phase})


DATA = {"persistentVolumeClaim": {"claimName": "data"}}
PROTECTED = {
    "a running pod uses it": (claim(leaving=True), [pod(v=DATA)], False),
    "so does one that has ended": (claim(leaving=True), [pod("Succeeded", v=DATA)], False),
    "a pod without a node does not": (claim(leaving=True), [pod("Pending", node="", v=DATA)], True),
    "nobody uses it": (claim(leaving=True), [pod()], True),
    "nobody asked it to go": (claim(), [], False),
}


@pytest.mark.parametrize(("document", "pods", "freed"), PROTECTED.values(), ids=PROTECTED)
def test_protection(document, pods, freed):
    assert bool(claims.protect(document, pods).update) is freed


def test_ephemeral_volumes_are_claims_named_after_their_pod():
    assert list(claims.claims_of(pod(scratch={"ephemeral": {}}))) == [Key("team", "p-scratch")]


FITS = {
    "the same class, mode and size": (volume("v"), claim(), True),
    "larger is fine": (volume("v", "2Gi"), claim(), True),
    "smaller is not": (volume("v", "1Mi"), claim(), False),
    "another class": (volume("v", made="fast"), claim(), False),
    "another mode": (volume("v", modes=["ReadOnlyMany"]), claim(), False),
    "held by another": (volume("v", claimRef={"name": "data", "namespace": "team", "uid": "other"}), claim(), False),
    "kept for this one": (volume("v", claimRef={"name": "data", "namespace": "team"}), claim(), True),
    "kept for that one": (volume("v", claimRef={"name": "other", "namespace": "team"}), claim(), False),
    "named, and not this one": (volume("v"), claim(volumeName="w"), False),
    "block is no filesystem": (volume("v", volumeMode="Block"), claim(), False),
    "labels that are missing": (volume("v"), claim(selector={"matchLabels": {"a": "b"}}), False),
}


@pytest.mark.parametrize(("what", "who", "want"), FITS.values(), ids=FITS)
def test_fits(what, who, want):
    assert claims.fits(what, who) is want


def bound(document, volumes=(), root="/volumes"):
    return claims.bind(document, list(volumes), [claims.storage_class()], root, NOW)


def test_the_smallest_volume_that_fits_is_taken():
    (write,) = bound(claim(), [volume("large", "9Gi"), volume("small")]).update
    assert write.document["metadata"]["name"] == "small"
    assert write.document["spec"]["claimRef"]["uid"] == "uid-data"


def test_the_local_class_makes_a_directory():
    (write,) = bound(claim(made=claims.LOCAL_CLASS)).create
    assert write.document["spec"]["hostPath"]["path"] == "/volumes/team/data-uid-data"
    assert not bound(claim(made=claims.LOCAL_CLASS), root="")
    assert not bound(claim(made="other"))


def test_a_claim_is_settled_in_two_steps():
    held = volume("v", claimRef={"name": "data", "namespace": "team", "uid": "uid-data"})
    (patch,) = bound(claim(), [held]).patch
    assert patch.body["spec"] == {"volumeName": "v"}
    writes = bound(claim(volumeName="v"), [held]).status
    assert [(write.kind, write.document["status"]["phase"]) for write in writes] == [
        (kinds.CLAIM, "Bound"), (kinds.VOLUME, "Bound"),
    ]  # fmt: skip


REFERENCE = {"name": "data", "namespace": "team", "uid": "uid-data"}
RELEASES = {
    "a free volume is available": (volume("v") | {"status": {}}, None, "Available"),
    "a bound one is left alone": (volume("v", claimRef=REFERENCE), claim(), ""),
    "its claim is gone": (volume("v", claimRef=REFERENCE, persistentVolumeReclaimPolicy="Retain"), None, "Released"),
    "and it goes too": (volume("v", claimRef=REFERENCE, persistentVolumeReclaimPolicy="Delete"), None, "deleted"),
}


@pytest.mark.parametrize(("what", "who", "want"), RELEASES.values(), ids=RELEASES)
def test_release(what, who, want):
    plan = claims.release(what, who)
    said = [write.document["status"]["phase"] for write in plan.status] + ["deleted" for _ in plan.delete]
    assert said == ([want] if want else [])


def test_a_leaving_volume_is_held_while_its_claim_lives():
    leaving = volume("v", claimRef=REFERENCE)
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [claims.VOLUME_PROTECTION]}
    assert not claims.release(leaving, claim())
    (write,) = claims.release(leaving, None).update
    assert write.document["metadata"]["finalizers"] == []
