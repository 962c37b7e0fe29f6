"""Stories about quotas: what a namespace may use, and what happens in it, step by step."""

import re

BYTES = {"memory", "storage", "hugepages"}
CPU, BOTH = (
    {"requests": {"cpu": "100m"}},
    {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
)
GPU = {"limits": {"nvidia.com/gpu": "2"}}
PATHS = {
    "Pod": "api/v1:pods", "Service": "api/v1:services", "ConfigMap": "api/v1:configmaps", "Secret": "api/v1:secrets",
    "PersistentVolumeClaim": "api/v1:persistentvolumeclaims", "Job": "apis/batch/v1:jobs",
    "ResourceQuota": "api/v1:resourcequotas", "Lease": "apis/coordination.k8s.io/v1:leases",
}  # fmt: skip
VERSIONS = {"Job": "batch/v1", "Lease": "coordination.k8s.io/v1"}


def where(namespace, kind, name=""):
    group, plural = PATHS[kind].split(":")
    return f"/{group}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def make(kind, name, **body):
    """A step: create an object."""
    metadata = body.pop("metadata", {})
    document = {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": {"name": name, **metadata}, **body}
    return lambda side, namespace: side.ask("POST", where(namespace, kind), document)


def pod(name, resources=None, *, init=(), node="", **spec):
    """A step: create a pod; `init` are the resources of init containers, a pair says also the restart policy."""
    containers = [{"name": "c", "image": "i", **({"resources": resources} if resources else {})}]
    early = []
    for index, given in enumerate(init):
        given, policy = given if isinstance(given, tuple) else (given, "")
        early.append(
            {"name": f"i{index}", "image": "i", "resources": given} | ({"restartPolicy": policy} if policy else {})
        )
    body = (
        {"containers": containers} | ({"initContainers": early} if early else {}) | ({"nodeName": node} if node else {})
    )
    return make("Pod", name, spec={**body, **spec})


def phase(name, word):
    """A step: somebody says in which phase a pod is."""
    media = "application/merge-patch+json"
    body = {"status": {"phase": word}}
    return lambda side, namespace: side.ask("PATCH", where(namespace, "Pod", name) + "/status", body, media)


def patch(kind, name, body, part=""):
    media = "application/merge-patch+json"
    return lambda side, namespace: side.ask("PATCH", where(namespace, kind, name) + part, body, media)


def delete(kind, name, query=""):
    return lambda side, namespace: side.ask("DELETE", where(namespace, kind, name) + query)


def quota(hard, name="q", **spec):
    hard = (
        hard
        if isinstance(hard, dict)
        else {each: "100Gi" if BYTES & set(re.split(r"[.\-]", each)) else "20" for each in hard.split()}
    )
    return make("ResourceQuota", name, spec={"hard": hard, **spec})


def claim(name, size, kind="", **metadata):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    spec |= {"storageClassName": kind} if kind else {}
    return make("PersistentVolumeClaim", name, spec=spec, metadata=metadata)


def service(name, kind="ClusterIP", ports=1, **more):
    listed = [{"name": f"p{port}", "port": 80 + port} for port in range(ports)]
    return make("Service", name, spec={"type": kind, "ports": listed, "selector": {"a": "b"}, **more})


COMPUTE = "pods count/pods cpu memory requests.cpu requests.memory limits.cpu limits.memory"
AFFINE = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["other"]}]}}  # fmt: skip
STORIES = {
    "pods that come, end and go": [
        quota("pods count/pods requests.cpu"),
        pod("a", CPU),
        pod("b", CPU),
        pod("c", CPU, node="n"),
        phase("a", "Running"),
        phase("a", "Succeeded"),
        phase("b", "Failed"),
        delete("Pod", "a"),
        delete("Pod", "b", "?gracePeriodSeconds=0"),
        pod("d", CPU),
        phase("d", "Unknown"),
        delete("Pod", "d"),
    ],
    "pods on their way out": [
        quota("pods count/pods requests.cpu"),
        pod("a", CPU, node="n"),
        pod("b", CPU, node="n", terminationGracePeriodSeconds=600),
        pod("c", CPU),
        delete("Pod", "a"),
        delete("Pod", "b"),
        delete("Pod", "c"),
        phase("b", "Failed"),
        delete("Pod", "a", "?gracePeriodSeconds=0"),
        delete("Pod", "b", "?gracePeriodSeconds=0"),
    ],
    "pods that should be gone": [
        quota("pods count/pods"),
        pod("a", node="n", terminationGracePeriodSeconds=1),
        pod("b", node="n"),
        delete("Pod", "a"),
        patch("Pod", "b", {"metadata": {"labels": {"x": "y"}}}),
        pod("c"),
    ],
    "held by a finalizer": [
        quota("pods count/pods"),
        make(
            "Pod", "a", metadata={"finalizers": ["example.com/x"]}, spec={"containers": [{"name": "c", "image": "i"}]}
        ),
        delete("Pod", "a"),
        pod("b"),
        phase("a", "Succeeded"),
        patch("Pod", "a", {"metadata": {"finalizers": None}}),
    ],
    "all of compute": [
        quota(COMPUTE),
        pod("a", BOTH),
        pod("b", BOTH, init=[{"requests": {"cpu": "3", "memory": "1Mi"}, "limits": {"cpu": "3", "memory": "1Mi"}}]),
        pod("c", BOTH, init=[(BOTH, "Always"), BOTH]),
        pod("d", CPU),
        pod("e"),
        pod("f", BOTH, init=[CPU]),
    ],
    "amounts in odd units": [
        quota("requests.cpu requests.memory limits.memory"),
        pod("a", {"requests": {"cpu": "0.1", "memory": "128974848"}, "limits": {"memory": "129M"}}),
        pod("b", {"requests": {"cpu": "250m", "memory": "123Mi"}, "limits": {"memory": "1e9"}}),
        pod("c", {"requests": {"cpu": "1500m", "memory": "1.5Gi"}, "limits": {"memory": "2Gi"}}),
    ],
    "devices, pages and disks": [
        quota(
            "requests.nvidia.com/gpu limits.nvidia.com/gpu requests.ephemeral-storage "
            "limits.ephemeral-storage ephemeral-storage hugepages-2Mi requests.hugepages-2Mi"
        ),
        quota(
            "requests.nvidia.com/gpu requests.ephemeral-storage limits.ephemeral-storage "
            "ephemeral-storage hugepages-2Mi"
        ),
        pod("a", GPU),
        pod("b", {"requests": {"ephemeral-storage": "1Gi"}, "limits": {"ephemeral-storage": "2Gi"}}),
        pod("c", {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi", "cpu": "1"}}),
        pod("d", {"limits": {"nvidia.com/gpu": "2"}}, init=[{"limits": {"nvidia.com/gpu": "4"}}]),
    ],
    "resources of a whole pod": [
        quota("pods requests.cpu requests.memory limits.cpu"),
        make(
            "Pod",
            "a",
            spec={
                "containers": [{"name": "c", "image": "i"}],
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "1Gi"}},
            },
        ),
        make(
            "Pod",
            "b",
            spec={
                "containers": [{"name": "c", "image": "i", "resources": BOTH}],
                "resources": {"requests": {"cpu": "3", "memory": "2Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}},
            },
        ),
    ],
    "by effort": [
        quota("pods", "effortless", scopes=["BestEffort"]),
        quota("pods requests.cpu", "striving", scopes=["NotBestEffort"]),
        pod("a"),
        pod("b", CPU),
        pod("c", GPU),
        pod("d", init=[CPU]),
        phase("b", "Succeeded"),
        delete("Pod", "a"),
    ],
    "by deadline": [
        quota("pods", "ending", scopes=["Terminating"]),
        quota("pods", "lasting", scopes=["NotTerminating"]),
        pod("a", activeDeadlineSeconds=60),
        pod("b"),
        pod("c", CPU),
        delete("Pod", "b"),
        patch("Pod", "c", {"spec": {"activeDeadlineSeconds": 30}}),
    ],
    "by priority": [
        quota(
            "pods",
            "high",
            scopeSelector={
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical", "x"]}
                ]
            },
        ),
        quota(
            "pods",
            "other",
            scopeSelector={
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["system-node-critical"]}
                ]
            },
        ),
        quota(
            "pods", "any", scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}
        ),
        quota(
            "pods",
            "none",
            scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]},
        ),
        quota("pods", "plain", scopes=["PriorityClass"]),
        pod("a"),
        pod("b", priorityClassName="system-node-critical"),
        pod("c", priorityClassName="system-cluster-critical"),
        delete("Pod", "b"),
    ],
    "by affinity": [
        quota("pods", "far", scopes=["CrossNamespacePodAffinity"]),
        pod("a"),
        pod("b", affinity=AFFINE),
        pod(
            "c",
            affinity={
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": {"topologyKey": "z", "namespaceSelector": {}}}
                    ]
                }
            },
        ),
        pod("d", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}),
    ],
    "more than there may be": [
        quota({"pods": "2", "requests.cpu": "250m"}),
        pod("a", CPU),
        pod("b", CPU),
        pod("c", CPU),
        phase("a", "Succeeded"),
        pod("d", CPU),
        pod("e", {"requests": {"cpu": "200m"}}),
        patch("ResourceQuota", "q", {"spec": {"hard": {"pods": "1", "requests.cpu": "1"}}}),
        pod("f", CPU),
        patch("ResourceQuota", "q", {"spec": {"hard": {"count/pods": "9"}}}),
        delete("Pod", "b"),
    ],
    "a quota that comes late": [
        pod("a", CPU),
        pod("b", CPU, node="n"),
        phase("a", "Failed"),
        delete("Pod", "b"),
        quota("pods count/pods requests.cpu"),
        pod("c", CPU),
    ],
    "objects": [
        quota(
            "configmaps secrets services count/services count/configmaps count/secrets "
            "count/jobs.batch count/leases.coordination.k8s.io persistentvolumeclaims "
            "count/resourcequotas resourcequotas"
        ),
        make("ConfigMap", "a"),
        make("ConfigMap", "b"),
        make("Secret", "a"),
        service("a"),
        make("Lease", "l", spec={}),
        make(
            "Job",
            "j",
            spec={
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
                "suspend": True,
            },
        ),
        delete("ConfigMap", "a"),
        quota("secrets", "second"),
        delete("Service", "a"),
        delete("Lease", "l"),
    ],
    "services": [
        quota("services services.nodeports services.loadbalancers count/services"),
        service("a", ports=2),
        service("b", "NodePort", 2),
        service("c", "LoadBalancer", 3),
        service("d", "LoadBalancer", 1, allocateLoadBalancerNodePorts=False),
        service("e", clusterIP="None"),
        patch("Service", "b", {"spec": {"type": "ClusterIP"}}),
        delete("Service", "c"),
        service("f", "ExternalName", 0, externalName="x.example"),
    ],
    "storage": [
        quota(
            "persistentvolumeclaims count/persistentvolumeclaims requests.storage "
            "fast.storageclass.storage.k8s.io/requests.storage "
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims"
        ),
        claim("a", "1Gi"),
        claim("b", "2Gi", "fast"),
        claim("c", "500M", "slow"),
        delete("PersistentVolumeClaim", "b"),
        claim("d", "1Gi", annotations={"volume.beta.kubernetes.io/storage-class": "fast"}),
    ],
}
