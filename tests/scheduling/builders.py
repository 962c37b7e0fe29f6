"""Documents for this room's tests: pods with their owners, nodes, queues, groups; and a reader over what is there."""

from allaboard.api import kinds, labels
from allaboard.api.documents import Key
from allaboard.api.meta import key_of
from allaboard.kube.controller import nobody
from allaboard.scheduling import defaults

BORN = "2026-01-01T00:00:00Z"
OURS = frozenset({"default-scheduler", "kai-scheduler", "aboard"})


def finished(coroutine):
    """The result of a coroutine that never has to wait, as readers of this world never do."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a controller waited for something")


def thing(api_version, kind, name, spec=None, **metadata):
    """Any namespaced object."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": BORN, **metadata}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def owned_by(owner):
    names = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return [{**names, "uid": owner["metadata"]["uid"], "controller": True}]


def pod(name, owner=None, worn=None, said=None, *, scheduler="default-scheduler", node="", phase="Pending", **requests):
    metadata = {"ownerReferences": owned_by(owner)} if owner else {}
    metadata |= {"labels": worn} if worn else {}
    metadata |= {"annotations": said} if said else {}
    resources = {"requests": requests} if requests else {}
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "resources": resources}]}
    spec |= {"nodeName": node} if node else {}
    return thing("v1", "Pod", name, spec, **metadata) | {"status": {"phase": phase}}


def node(name, *, ready=True, worn=None, taints=(), **capacity):
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", **capacity}
    conditions = [{"type": "Ready", "status": str(ready)}]
    metadata = {"name": name, "labels": worn or {}, "creationTimestamp": BORN}
    status = {"allocatable": capacity, "conditions": conditions}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": list(taints)},
        "status": status,
    }


def queue(name, parent="default-parent-queue", **resources):
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    spec = {
        "parentQueue": parent,
        "resources": {r: {**share, **resources.get(r, {})} for r in ("gpu", "cpu", "memory")},
    }
    return {"metadata": {"name": name, "creationTimestamp": BORN}, "spec": spec}


def jobset(name, *roles, order="", **metadata):
    """Roles as `name:pods` or `name:pods<other` where it depends on another."""
    jobs = []
    for role in roles:
        text, _, after = role.partition("<")
        title, _, count = text.partition(":")
        job = {"name": title, "template": {"spec": {"parallelism": int(count), "completions": int(count)}}}
        job |= {"dependsOn": [{"name": after, "status": "Complete"}]} if after else {}
        jobs.append(job)
    spec = {"replicatedJobs": jobs} | ({"startupPolicy": {"startupPolicyOrder": order}} if order else {})
    return thing("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec, **metadata)


def jobset_pods(owner, role, count, **requests):
    """The pods of one replicated job, with the Job between."""
    name = owner["metadata"]["name"]
    worn = {labels.JOBSET_NAME: name, labels.REPLICATED_JOB: role}
    job = thing("batch/v1", "Job", f"{name}-{role}-0", labels=worn, ownerReferences=owned_by(owner))
    return job, [pod(f"{name}-{role}-0-{index}", job, worn, **requests) for index in range(count)]


def pod_group(name, least, *, queue="default-queue", roles=(), **spec):
    body = {"minMember": least, "queue": queue, **spec} | ({"subGroups": list(roles)} if roles else {})
    return thing("scheduling.run.ai/v2alpha2", "PodGroup", name, body)


class World:
    """What is there, as a Reader, and controllers that hear every change; `put` and `drop` say which keys it wakes."""

    def __init__(self, *controllers):
        self.documents, self.controllers = {}, controllers

    def put(self, kind, document):
        place = (kind, key_of(document))
        old, self.documents[place] = self.documents.get(place), document
        return self._tell(kind, old, document)

    def drop(self, kind, document):
        return self._tell(kind, self.documents.pop((kind, key_of(document))), None)

    def _tell(self, kind, old, new):
        told = [(controller, watch) for controller in self.controllers for watch in controller.watches]
        keys = [
            watch.keys
            for controller, watch in told
            if watch.kind == kind and watch.keys is not nobody and controller.observe(kind, old, new)
        ]
        return sorted({key for each in keys for document in (old, new) if document for key in each(document)})

    def defaults(self):
        for kind, document in defaults.OBJECTS:
            metadata = {**document["metadata"], "creationTimestamp": BORN}
            self.put(kind, {**document, "metadata": metadata})

    async def get(self, kind, key):
        return self.documents.get((kind, key))

    async def list(self, kind, select=None):
        inside = select.namespace if select else ""
        found = (item for item in sorted(self.documents.items(), key=lambda item: item[0][1]) if item[0][0] == kind)
        return [document for (_, key), document in found if not inside or key.namespace == inside]

    async def owned(self, kind, owner):
        return []


def at(name, namespace="default"):
    return Key(namespace, name)


TRAIN_JOB, JOB_SET, JOB = kinds.TRAIN_JOB, kinds.JOB_SET, kinds.JOB
