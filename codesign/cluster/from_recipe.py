"""Jobs and plans from workload recipes and characterizations."""

from __future__ import annotations

from typing import Any

from codesign._common.errors import UsageError
from codesign.cluster.job import NARROW, Framework, Job, TrainingPrecision
from codesign.cluster.plan import Plan
from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload.config_json import read_config
from codesign.workload.model_config import ModelConfig
from codesign.workload.recipe import Recipe

LARGE_SCALE = Framework(graphs="partial", ep_overlap=True)
"""What current frameworks do at scale; recipes say their own overlap instead."""


def job_of(recipe: Recipe, gpus: int | None = None, batch: int | None = None) -> Job:
    """The training job of a recipe, its batch in proportion to ``gpus`` unless given.

    Raises UsageError for a recipe that does not train.
    """
    if not recipe.training:
        raise UsageError(f"{recipe.name}: phase {recipe.phase} has no training step to spread")
    p = recipe.parallelism
    size = recipe.tokens_per_step // recipe.sequence_length
    total = gpus or p.gpus
    kinds = {kind for kind in recipe.overlap if recipe.overlap_of(kind) is not None}
    framework = Framework(
        tp_overlap="tp" in kinds, tp_async="tp_backward" in kinds,
        dp_overlap="dp_gradients" in kinds, pp_overlap="pp" in kinds,
        ep_overlap="ep" in kinds, graphs="partial",
        cp_exchange="ring" if "cp" in kinds else "all_gather",
        swiglu_bytes=BYTES_PER_ELEMENT[recipe.precision.swiglu_input or "bf16"],
    )  # fmt: skip
    return Job(
        model=recipe.model, gpus=total,
        global_batch=batch or max(round(size * total / p.gpus), 1),
        sequence_length=recipe.sequence_length, name=recipe.name,
        precision=precision_of(recipe.precision.gemm),
        gradient_bytes=BYTES_PER_ELEMENT[recipe.precision.gradients],
        moment_bytes=BYTES_PER_ELEMENT[recipe.precision.optimizer],
        distribution=recipe.moe.distribution, framework=framework,
    )  # fmt: skip


def precision_of(name: str) -> TrainingPrecision:
    """The training precision that a GEMM precision means; wide ones are bf16."""
    return next((p for p in NARROW if p == name), "bf16")


def plan_of(recipe: Recipe, gpus: int | None = None) -> Plan:
    """The plan of a recipe; over more GPUs with more replicas."""
    p = recipe.parallelism
    total = gpus or p.gpus
    return Plan(
        tp=p.tp, cp=p.cp, pp=p.pp, vpp=p.virtual_pipeline, ep=p.ep,
        dp=max(total // (p.tp * p.cp * p.pp), 1), zero=p.zero, micro_batch=recipe.micro_batch,
        recompute=recipe.recompute, schedule=p.schedule,
    )  # fmt: skip


def model_of_header(model: dict[str, Any] | None, where: str) -> ModelConfig:
    """The model that a characterization's header describes. Raises UsageError without one."""
    if not model:
        raise UsageError(
            f"{where}: the characterization does not say which model it ran; give a recipe or "
            "the name of a model instead"
        )
    return read_config(model, where)
