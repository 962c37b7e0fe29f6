"""Torchtune: `tune run` is completed with the meeting point, the recipe, its configuration and the runtime's paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allaboard.api.documents import Document
from allaboard.api.errors import Cause
from allaboard.training.info import NODE, PORT, TRAINER, Info
from allaboard.training.job import TrainJob
from allaboard.training.problems import invalid
from allaboard.training.runtime import ancestor_of, pod_spec_of

ENTRYPOINT = ["tune", "run"]
SMALL_LLAMAS = ("llama3_2/1B", "llama3_2/3B")
LARGE_LLAMA, QWEN = "llama3_3/70B", "qwen2_5/1.5B"
MODELS = (*SMALL_LLAMAS, LARGE_LLAMA, QWEN)
# Paths that the runtime's volumes decide, so a TrainJob must leave them alone.
FIXED = ("output_dir", "tokenizer.path", "tokenizer.merges_file", "checkpointer.checkpoint_dir")


@dataclass(frozen=True, slots=True)
class Asked:
    """How large the run is, and what its arguments say."""

    nodes: int
    processes: int | str
    gpus: int
    args: list[str]

    @property
    def on_one_device(self) -> bool:
        return self.nodes == 1 and (self.processes == 1 or self.gpus == 1)

    @property
    def is_lora(self) -> bool:
        return any("model.lora_attn_modules" in arg for arg in self.args)

    @property
    def is_qlora(self) -> bool:
        return self._is_on("model.quantize_base") and not self._is_on("model.use_dora")

    def _is_on(self, option: str) -> bool:
        settings = (arg.partition("=") for arg in self.args)
        return any(option in name and value.strip().lower() == "true" for name, _, value in settings)

    @property
    def has_company(self) -> bool:
        """More than one process in all, so they must meet."""
        several = self.processes > 1 if isinstance(self.processes, int) else self.gpus > 1
        return self.nodes > 1 or several


def is_asked_for(job: TrainJob) -> bool:
    return job.trainer.get("command") == ENTRYPOINT


def model_of(runtime_name: str) -> str:
    """`torchtune-llama3.2-1b` trains `llama3_2/1B`; any other form names no model."""
    parts = runtime_name.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def recipe_for(asked: Asked) -> tuple[str, str]:
    """The recipe and the ending of its configuration's name."""
    if asked.on_one_device:
        if asked.is_qlora:
            return "lora_finetune_single_device", "_qlora_single_device"
        if asked.is_lora:
            return "lora_finetune_single_device", "_lora_single_device"
        return "full_finetune_single_device", "_full_single_device"
    if asked.nodes == 1 and asked.is_qlora:
        return "lora_finetune_distributed", "_qlora"
    if asked.nodes == 1 and asked.is_lora:
        return "lora_finetune_distributed", "_lora"
    return "full_finetune_distributed", "_full_multinode" if asked.nodes > 1 else "_full"


def command(asked: Asked, info: Info, job: TrainJob) -> list[str]:
    """The whole command; the TrainJob's own arguments stay the container's arguments."""
    meeting = [f"--rdzv_endpoint={info.endpoint(job.name)}:{PORT}"] if asked.has_company else []
    recipe, ending = recipe_for(asked)
    config = model_of(job.runtime.name) + ending
    return [*ENTRYPOINT, *meeting, recipe, "--config", config, *overrides(info)]


def overrides(info: Info) -> Iterator[str]:
    """The paths the runtime's own command fixes, in its order."""
    for replicated in info.jobs:
        if ancestor_of(replicated) != TRAINER:
            continue
        for container in pod_spec_of(replicated).get("containers") or []:
            if container["name"] == NODE:
                yield from (word for word in container.get("command") or [] if word.partition("=")[0] in FIXED)


def problems(job: TrainJob, info: Info, gpus: int) -> Iterable[Cause]:
    """Why torchtune could not run this; the process count is judged as written, before CPUs are counted."""
    nodes = 1 if job.num_nodes is None else job.num_nodes
    asked = Asked(nodes, job.trainer.get("numProcPerNode") or "auto", gpus, job.trainer.get("args") or [])
    model = model_of(job.runtime.name)
    if model not in MODELS:
        words = f"must have a supported pretrained model, invalid model configured: {model}"
        yield invalid("spec.runtimeRef.name", job.runtime.name, f"{words}; one of: {', '.join(MODELS)}")
    yield from _nodes_problems(asked, model)
    yield from _qlora_problems(asked, model, job)
    for index, arg in enumerate(asked.args):
        if (name := arg.partition("=")[0]) in FIXED:
            words = f'must not set immutable config "{name}" in trainer args; it is managed by the runtime'
            yield invalid(f"spec.trainer.args[{index}]", arg, words)


def _nodes_problems(asked: Asked, model: str) -> Iterable[Cause]:
    if asked.nodes > 1 and model != LARGE_LLAMA:
        yield invalid("spec.trainer.numNodes", asked.nodes, f"must be 1 for {model} model")
    if asked.nodes > 1 and (asked.is_lora or asked.is_qlora):
        words = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
        yield invalid("spec.trainer.numNodes", asked.nodes, words)


def _qlora_problems(asked: Asked, model: str, job: TrainJob) -> Iterable[Cause]:
    ending = recipe_for(asked)[1]
    if "_qlora" not in ending:
        return
    if model == QWEN:
        yield invalid("spec.runtimeRef.name", job.runtime.name, f"QLoRA is not supported for {model} model")
    if model in SMALL_LLAMAS and ending != "_qlora_single_device":
        wanted: Document = job.trainer.get("resourcesPerNode") or {}
        words = f"must be auto or 1 for {model} model when using QLoRA"
        yield invalid("spec.trainer.numProcPerNode", asked.processes, words)
        words = f"must have gpu resource with value 1 for {model} model when using QLoRA"
        yield invalid("spec.trainer.resourcesPerNode", wanted, words)
