"""Every kind we know: its group, version, plural, scope and short names."""

from __future__ import annotations

from dataclasses import dataclass, field

from allaboard.api.documents import Key


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of object, as the API names it; group, version and plural tell kinds apart."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    api_version: str = field(default="", init=False, repr=False)
    resource: str = field(default="", init=False, repr=False)  # the plural with its group: `jobsets.jobset.x-k8s.io`
    _identity: tuple[str, str, str] = field(default=("", "", ""), init=False, repr=False)
    _hash: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        # Kinds are keys of the hottest dicts: hashed once, and nearly always compared with themselves. What every
        # document and error says of its kind is put together once.
        set_ = object.__setattr__
        set_(self, "_identity", (self.group, self.version, self.plural))
        set_(self, "_hash", hash(self._identity))
        set_(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        set_(self, "resource", f"{self.plural}.{self.group}" if self.group else self.plural)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self._identity == other._identity if isinstance(other, Kind) else NotImplemented

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of this kind, one namespace of it, or one object of it."""
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def path_to(self, key: Key, subresource: str = "") -> str:
        """The URL path of one object."""
        return self.path(key.namespace, key.name, subresource)

    def __str__(self) -> str:
        return self.kind


NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False, short=("ns",))
NODE = Kind("", "v1", "Node", "nodes", namespaced=False, short=("no",))
POD = Kind("", "v1", "Pod", "pods", short=("po",), categories=("all",))
SERVICE = Kind("", "v1", "Service", "services", short=("svc",), categories=("all",))
ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", short=("ep",))
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", short=("cm",))
SECRET = Kind("", "v1", "Secret", "secrets")
EVENT = Kind("", "v1", "Event", "events", short=("ev",))
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", short=("sa",))
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges", short=("limits",))
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", short=("quota",))
VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False, short=("pv",))
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",))
EVENT_V1 = Kind("events.k8s.io", "v1", "Event", "events", short=("ev",))
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
JOB = Kind("batch", "v1", "Job", "jobs", categories=("all",))
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", short=("cj",), categories=("all",))
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short=("pc",))
RUNTIME_CLASS = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False)
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short=("sc",))
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
MUTATING_WEBHOOK = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
    categories=("api-extensions",),
)
VALIDATING_WEBHOOK = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
    categories=("api-extensions",),
)
CRD = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
    short=("crd", "crds"),
    categories=("api-extensions",),
)

TRAIN_JOB = Kind("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")
TRAINING_RUNTIME = Kind("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes")
CLUSTER_TRAINING_RUNTIME = Kind(
    "trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime", "clustertrainingruntimes", namespaced=False
)
OPTIMIZATION_JOB = Kind("trainer.kubeflow.org", "v1alpha1", "OptimizationJob", "optimizationjobs")
JOB_SET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
POD_GROUP = Kind("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups")
QUEUE = Kind("scheduling.run.ai", "v2", "Queue", "queues", namespaced=False)
BIND_REQUEST = Kind("scheduling.run.ai", "v1alpha2", "BindRequest", "bindrequests")
TOPOLOGY = Kind("kai.scheduler", "v1alpha1", "Topology", "topologies", namespaced=False)
SCHEDULING_SHARD = Kind("kai.scheduler", "v1", "SchedulingShard", "schedulingshards", namespaced=False)
POD_GROUP_COSCHEDULING = Kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", short=("pgs",))
POD_GROUP_VOLCANO = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", short=("podgroup-v1beta1",))
PYTORCH_JOB = Kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
MPI_JOB = Kind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
TF_JOB = Kind("kubeflow.org", "v1", "TFJob", "tfjobs")
XGBOOST_JOB = Kind("kubeflow.org", "v1", "XGBoostJob", "xgboostjobs")
JAX_JOB = Kind("kubeflow.org", "v1", "JAXJob", "jaxjobs")

KNOWN = tuple(value for value in list(globals().values()) if isinstance(value, Kind))
_BY_TYPE = {(kind.api_version, kind.kind): kind for kind in KNOWN}


def kind_of(document: dict[str, object]) -> Kind:
    """The kind a document says it is; KeyError where we do not know it."""
    return _BY_TYPE[str(document.get("apiVersion", "")), str(document.get("kind", ""))]
