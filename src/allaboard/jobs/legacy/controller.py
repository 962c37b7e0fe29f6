"""The loops' side of the legacy kinds: load what a decision needs, and hand it over."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from allaboard.api import kinds
from allaboard.api.documents import Document, Key
from allaboard.api.meta import labels_of, name_of, namespace_of
from allaboard.api.mpi import CURVE_ORDER
from allaboard.jobs.legacy import mpi, pytorch, replicas
from allaboard.kube.client import Reader
from allaboard.kube.clock import Clock
from allaboard.kube.controller import Watch, controller_key
from allaboard.kube.plan import NOTHING, Plan


class PyTorchJobController:
    """PyTorchJob → pods and services; pods → its status."""

    name = "pytorchjob-controller"
    watches = (
        Watch(kinds.PYTORCH_JOB),
        Watch(kinds.POD, controller_key(kinds.PYTORCH_JOB)),
        Watch(kinds.SERVICE, controller_key(kinds.PYTORCH_JOB)),
    )

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self.reader, self.clock = reader, clock

    async def reconcile(self, key: Key) -> Plan:
        job = await self.reader.get(kinds.PYTORCH_JOB, key)
        if job is None:
            return NOTHING
        pods = await self.reader.owned(kinds.POD, job)
        return pytorch.decide(job, pods, await self.reader.owned(kinds.SERVICE, job), self.clock.now())


def random_key() -> int:
    """A number to make a key pair from."""
    return secrets.randbelow(CURVE_ORDER)


def job_of_pod(pod: Document) -> Iterable[Key]:
    """The MPIJob of a worker or of a launcher's pod, which its Job owns: both carry the job's name."""
    marks = labels_of(pod)
    if marks.get(replicas.OPERATOR) != mpi.OPERATOR or replicas.JOB_NAME not in marks:
        return ()
    return (Key(namespace_of(pod), marks[replicas.JOB_NAME]),)


class MpiJobController:
    """MPIJob → workers, host file, keys, launcher Job; launcher → its status."""

    name = "mpijob-controller"
    watches = (
        Watch(kinds.MPI_JOB),
        Watch(kinds.POD, job_of_pod),
        *(Watch(kind, controller_key(kinds.MPI_JOB)) for kind in (kinds.JOB, kinds.SERVICE)),
        *(Watch(kind, controller_key(kinds.MPI_JOB)) for kind in (kinds.CONFIG_MAP, kinds.SECRET)),
    )

    def __init__(self, reader: Reader, clock: Clock, secret: Callable[[], int] = random_key) -> None:
        self.reader, self.clock, self.secret = reader, clock, secret

    async def reconcile(self, key: Key) -> Plan:
        job = await self.reader.get(kinds.MPI_JOB, key)
        if job is None:
            return NOTHING
        namespace, name = key.namespace, name_of(job)
        launcher = await self.reader.get(kinds.JOB, Key(namespace, f"{name}-launcher"))
        around = mpi.Around(
            pods=await self.reader.owned(kinds.POD, job),
            launcher=launcher,
            launcher_pods=await self.reader.owned(kinds.POD, launcher) if launcher else (),
            config=await self.reader.get(kinds.CONFIG_MAP, Key(namespace, f"{name}-config")),
            has_service=await self.reader.get(kinds.SERVICE, Key(namespace, name)) is not None,
            has_keys=await self.reader.get(kinds.SECRET, Key(namespace, f"{name}-ssh")) is not None,
        )
        return mpi.decide(job, around, self.clock.now(), self.secret())
