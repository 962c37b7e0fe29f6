"""A TrainJob document, read once into a value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from allaboard.api.documents import Document, Documents, Key, dig
from allaboard.api.meta import condition_of, is_true, name_of, namespace_of, owner_reference, uid_of

GROUP = "trainer.kubeflow.org"
MANAGED_BY_US = f"{GROUP}/trainjob-controller"
SNAPSHOT_SUFFIX = "-runtime-snapshot"
RUNTIME_KINDS = ("TrainingRuntime", "ClusterTrainingRuntime")


@dataclass(frozen=True)
class RuntimeRef:
    """Which runtime a TrainJob names, with what the schema fills in."""

    group: str
    kind: str
    name: str

    @property
    def is_supported(self) -> bool:
        return self.group == GROUP and self.kind in RUNTIME_KINDS

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}"


@dataclass(frozen=True)
class TrainJob:
    """What the room asks a TrainJob; parts that were left out read as empty."""

    document: Document

    @cached_property
    def name(self) -> str:
        return name_of(self.document)

    @cached_property
    def namespace(self) -> str:
        return namespace_of(self.document)

    @property
    def uid(self) -> str:
        return uid_of(self.document)

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @cached_property
    def spec(self) -> Document:
        return self.document.get("spec") or {}

    @cached_property
    def trainer(self) -> Document:
        return self.spec.get("trainer") or {}

    @cached_property
    def patches(self) -> Documents:
        return self.spec.get("runtimePatches") or []

    @cached_property
    def env(self) -> Documents:
        return self.converted(self.trainer.get("env") or [])

    @property
    def num_nodes(self) -> int | None:
        return self.trainer.get("numNodes")

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def finished(self) -> bool:
        return is_true(self.document, "Complete") or is_true(self.document, "Failed")

    @property
    def deadline_exceeded(self) -> bool:
        return is_true(self.document, "Failed") and dig(self._failed, "reason") == "DeadlineExceeded"

    @property
    def runtime_missing(self) -> bool:
        return is_true(self.document, "Failed") and dig(self._failed, "reason") == "RuntimeNotFound"

    @property
    def is_ours(self) -> bool:
        return (self.spec.get("managedBy") or MANAGED_BY_US) == MANAGED_BY_US

    @cached_property
    def runtime(self) -> RuntimeRef:
        ref = self.spec.get("runtimeRef") or {}
        if not ref:
            return RuntimeRef("", "", "")
        return RuntimeRef(
            ref.get("apiGroup", GROUP) or "", ref.get("kind", RUNTIME_KINDS[1]) or "", ref.get("name") or ""
        )

    @property
    def runtime_ref(self) -> Document:
        """The reference as messages quote it: in the order upstream declares its members."""
        ref = self.spec.get("runtimeRef") or {}
        return {name: ref[name] for name in ("name", "apiGroup", "kind") if name in ref}

    @property
    def snapshot_name(self) -> str:
        return self.name + SNAPSHOT_SUFFIX

    @property
    def owner(self) -> Document:
        """The reference that everything made for this job carries."""
        document = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainJob", "metadata": self.document["metadata"]}
        return owner_reference(document)

    @property
    def _failed(self) -> Document | None:
        return condition_of(self.document, "Failed")

    @staticmethod
    def converted(env: Documents) -> Documents:
        """Variables as they are applied: every field that the API server would fill in is stated."""
        return [_converted(entry) for entry in env]

    def without_patches(self) -> TrainJob:
        """The same job, as if nobody had patched its runtime."""
        spec = {name: value for name, value in self.spec.items() if name != "runtimePatches"}
        return TrainJob({**self.document, "spec": spec})

    def child(self, api_version: str, kind: str, name: str, **content: object) -> Document:
        """A new object of this job: named, placed and owned."""
        metadata = {"name": name, "namespace": self.namespace, "ownerReferences": [self.owner]}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _converted(entry: Document) -> Document:
    source = entry.get("valueFrom")
    if not source:
        return {"name": entry["name"], "value": entry.get("value") or ""}
    if (ref := source.get("fieldRef")) is not None:
        source = {**source, "fieldRef": {"fieldPath": ref.get("fieldPath")}}
    if (ref := source.get("resourceFieldRef")) is not None:
        source = {**source, "resourceFieldRef": {"containerName": "", "divisor": "0", **ref}}
    return {"name": entry["name"], "valueFrom": source}
