"""Progress: trainer pods are told where to report, with a token that is good for their own job only."""

from __future__ import annotations

from collections.abc import Iterable

from allaboard.api.documents import Document
from allaboard.api.errors import AboardError
from allaboard.training import upsert
from allaboard.training.facts import Facts, Settings
from allaboard.training.info import Info, variable
from allaboard.training.job import GROUP, TrainJob

GATE = "TrainJobStatus"
FOLDER = "/var/run/secrets/kubeflow/trainer"
VOLUME = "kubeflow-trainer-token"
CONFIG_SUFFIX = "-tls-config"
TOKEN_SECONDS = 3600


class NoAuthority(AboardError):
    """The plane's certificate is not there (yet), so pods could not trust where they report."""


def audience(namespace: str, name: str) -> str:
    """Whom a token must be meant for, to report about this job."""
    return f"{GROUP}/v1alpha1/namespaces/{namespace}/trainjobs/{name}/status"


def path(namespace: str, name: str) -> str:
    return f"/apis/{audience(namespace, name)}"


class Progress:
    name = "progress"

    def enforce_pod_spec(self, info: Info, job: TrainJob, settings: Settings) -> None:
        if GATE not in settings.gates or (trainer := info.trainer) is None:
            return
        variables = [
            variable("KUBEFLOW_TRAINER_SERVER_URL", _server(settings) + path(job.namespace, job.name)),
            variable("KUBEFLOW_TRAINER_SERVER_CA_CERT", f"{FOLDER}/ca.crt"),
            variable("KUBEFLOW_TRAINER_SERVER_TOKEN", f"{FOLDER}/token"),
        ]
        upsert.volumes(trainer.volumes, [_volume(job)])
        for container in trainer.containers:
            container.inject(self.name, variables)
            upsert.mounts(container.mounts, [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}])

    def build(self, info: Info, job: TrainJob, facts: Facts) -> Iterable[Document]:
        if GATE not in facts.settings.gates:
            return
        if not facts.authority:
            secret = f"{facts.settings.namespace}/{facts.settings.secret}"
            raise NoAuthority(f'secret "{secret}": has no "ca.crt"; it is written when the plane starts')
        yield job.child("v1", "ConfigMap", job.name + CONFIG_SUFFIX, data={"ca.crt": facts.authority})


def _server(settings: Settings) -> str:
    return settings.status_url or f"https://{settings.service}.{settings.namespace}.svc:{settings.status_port}"


def _volume(job: TrainJob) -> Document:
    token = {"audience": audience(job.namespace, job.name), "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    authority = {"name": job.name + CONFIG_SUFFIX, "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": authority}]}}
