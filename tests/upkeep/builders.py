"""Documents for this room's tests, and a reader over what is there."""

from allaboard.api.meta import key_of

BORN = "2026-01-02T03:04:05Z"


def finished(coroutine):
    """The result of a coroutine that never has to wait, as readers of this world never do."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a controller waited for something")


def thing(kind, name, namespace="team", *, leaving=False, **body):
    """An object; further words are its fields, those of the metadata under `metadata`."""
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": BORN, **body.pop("metadata", {})}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"deletionTimestamp": BORN} if leaving else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **body}


def namespace(name="team", *, leaving=False, finalizers=("kubernetes",)):
    phase = "Terminating" if leaving else "Active"
    spec, status = {"finalizers": list(finalizers)}, {"phase": phase}
    return thing("Namespace", name, "", leaving=leaving, spec=spec, status=status)


class World:
    """What is there, as a Reader, and controllers that hear every change."""

    def __init__(self, *controllers):
        self.documents, self.controllers = {}, [c for c in controllers if hasattr(c, "observe")]

    def put(self, kind, document):
        place = (kind, key_of(document))
        old, self.documents[place] = self.documents.get(place), document
        for controller in self.controllers:
            controller.observe(kind, old, document)

    async def get(self, kind, key):
        return self.documents.get((kind, key))

    async def list(self, kind, select=None):
        inside = select.namespace if select else ""
        found = sorted(((key, d) for (k, key), d in self.documents.items() if k == kind), key=lambda item: item[0])
        return [document for key, document in found if not inside or key.namespace == inside]

    async def owned(self, kind, owner):
        return []
