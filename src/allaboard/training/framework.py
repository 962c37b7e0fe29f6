"""The phases and their order: plugins shape `Info` one point after another, then objects are built from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allaboard.api.documents import Document, Documents
from allaboard.api.errors import Cause
from allaboard.points import Bound, Plugin, bind
from allaboard.training import runtime as runtimes
from allaboard.training.facts import Case, Facts
from allaboard.training.info import Info
from allaboard.training.job import TrainJob
from allaboard.training.plugins.coscheduling import Coscheduling
from allaboard.training.plugins.flux import Flux
from allaboard.training.plugins.jax import Jax
from allaboard.training.plugins.jobset import JobSet
from allaboard.training.plugins.mpi import Mpi
from allaboard.training.plugins.plain import Plain
from allaboard.training.plugins.progress import Progress
from allaboard.training.plugins.torch import Torch
from allaboard.training.plugins.volcano import Volcano
from allaboard.training.plugins.xgboost import Xgboost

# What a plugin may answer, in the order it is asked.
PHASES = (
    "validate",  # (case) -> causes: why a TrainJob may not come in
    "enforce_ml_policy",  # (info, job): counts, variables, volumes of the framework
    "enforce_pod_group_policy",  # (info, job): marks of the gang, once counts are final
    "enforce_pod_spec",  # (info, job, settings): what every pod gets, whatever its framework
    "prepare",  # (info, job): the template takes over what was decided
    "build",  # (info, job, facts) -> documents
)

# Order is meaning: frameworks, gangs, what every pod gets, and last the JobSet that holds it all.
PLUGINS: tuple[Plugin, ...] = (
    Plain(), Torch(), Mpi(), Jax(), Xgboost(), Flux(), Coscheduling(), Volcano(), Progress(), JobSet()
)  # fmt: skip


class Framework:
    """Plugins bound to phases."""

    def __init__(self, further: Sequence[Plugin] = ()) -> None:
        """Further plugins come from outside; they run after ours in the order they are listed."""
        self.plugins = (*PLUGINS, *further)
        self.points: Bound = bind(self.plugins, PHASES)

    def shape(self, info: Info, job: TrainJob, facts: Facts) -> Info:
        """The template and the TrainJob, after every phase but the last."""
        for enforce in self.points["enforce_ml_policy"]:
            enforce(info, job)
        for enforce in self.points["enforce_pod_group_policy"]:
            enforce(info, job)
        for enforce in self.points["enforce_pod_spec"]:
            enforce(info, job, facts.settings)
        for prepare in self.points["prepare"]:
            prepare(info, job)
        return info

    def build(self, runtime: Document, job: TrainJob, facts: Facts) -> Documents:
        """Every object this job needs and does not have, ready to be applied."""
        return self.objects(runtimes.info(runtime, job), job, facts)

    def objects(self, info: Info, job: TrainJob, facts: Facts) -> Documents:
        """The same, from a runtime that was read already."""
        shaped = self.shape(info, job, facts)
        return [document for build in self.points["build"] for document in build(shaped, job, facts)]

    def problems(self, case: Case) -> Iterable[Cause]:
        """Why this TrainJob may not come in: what every plugin says, in their order."""
        for validate in self.points["validate"]:
            yield from validate(case)


OURS = Framework()
