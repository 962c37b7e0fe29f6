"""What volumes say about places: which nodes a pod's claims can be reached from, and which claims are missing."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document, Key, dig
from allaboard.api.meta import is_leaving, key_of, name_of
from allaboard.scheduling.demands import ANYWHERE, Storage

HOSTNAME = "kubernetes.io/hostname"
WAITS = "WaitForFirstConsumer"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"  # kube-scheduler's words


def is_bound(claim: Document) -> bool:
    return dig(claim, "status", "phase") == "Bound" and bool(dig(claim, "spec", "volumeName"))


def claim_names(pod: Document) -> list[str]:
    """The claims a pod mounts, generic ephemeral ones included."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            found.append(claim.get("claimName", ""))
        elif "ephemeral" in volume:
            found.append(f"{name_of(pod)}-{volume['name']}")
    return found


class Shelves:
    """Claims and volumes as they are told, and which pods wait for which claim."""

    def __init__(self) -> None:
        self._claims: dict[Key, Document] = {}
        self._volumes: dict[str, Document] = {}
        self._patient: set[str] = set()  # storage classes that make a volume once the pod has its node
        self._users: dict[Key, set[Key]] = {}  # claim → pods
        self._uses: dict[Key, list[Key]] = {}  # pod → claims

    def hear_claim(self, old: Document | None, new: Document | None) -> Iterable[Key]:
        """Note a claim; the pods that may care."""
        key = key_of(new or old or {})
        if new is not None:
            self._claims[key] = new
        else:
            self._claims.pop(key, None)
        return tuple(self._users.get(key, ()))

    def hear_volume(self, old: Document | None, new: Document | None) -> Iterable[Key]:
        document = new or old or {}
        if new is None:
            self._volumes.pop(name_of(document), None)
        else:
            self._volumes[name_of(document)] = new
        claim = dig(document, "spec", "claimRef", default={})
        return tuple(self._users.get(Key(claim.get("namespace", ""), claim.get("name", "")), ()))

    def hear_class(self, old: Document | None, new: Document | None) -> Iterable[Key]:
        """A class that changes its manners may concern every pod with a claim; it hardly ever does."""
        name = name_of(new or old or {})
        patient = new is not None and new.get("volumeBindingMode") == WAITS
        if patient == (name in self._patient):
            return ()
        self._patient ^= {name}
        return tuple(self._uses)

    def use(self, pod: Key, document: Document) -> None:
        """Remember which claims a pod mounts."""
        if pod in self._uses:
            return
        claims = [Key(pod.namespace, name) for name in claim_names(document)]
        if claims:
            self._uses[pod] = claims
        for claim in claims:
            self._users.setdefault(claim, set()).add(pod)

    def forget(self, pod: Key) -> None:
        for claim in self._uses.pop(pod, ()):
            users = self._users.get(claim, set())
            users.discard(pod)
            if not users:
                self._users.pop(claim, None)

    def of(self, pod: Key, document: Document) -> Storage:
        """Where the pod's volumes let it go."""
        claims = self._uses.get(pod)
        if not claims:
            return ANYWHERE
        nodes: set[str] | None = None
        for claim in claims:
            found = self._claims.get(claim)
            if found is None or is_leaving(found):
                return Storage(obstacle=_missing(claim.name, found))
            if not is_bound(found) and dig(found, "spec", "storageClassName") not in self._patient:
                return Storage(obstacle=UNBOUND)
            reach = self._reach(found)
            nodes = reach if nodes is None else nodes if reach is None else nodes & reach
        return Storage(tuple(sorted(nodes))) if nodes is not None else ANYWHERE

    def _reach(self, claim: Document) -> set[str] | None:
        """The nodes a bound claim's volume is on; None where it does not matter."""
        volume = self._volumes.get(dig(claim, "spec", "volumeName", default=""))
        terms = dig(volume or {}, "spec", "nodeAffinity", "required", "nodeSelectorTerms", default=())
        named = [
            set(expression.get("values") or ())
            for term in terms
            for expression in term.get("matchExpressions") or ()
            if expression.get("key") == HOSTNAME and expression.get("operator") == "In"
        ]
        return set().union(*named) if named else None


def _missing(name: str, claim: Document | None) -> str:
    """Kube-scheduler's words."""
    what = "is being deleted" if claim is not None else "not found"
    return f'persistentvolumeclaim "{name}" {what}'
