"""Published runs from a YAML file: model shapes, configurations, and the rate of each."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from codesign._common.errors import CodesignError, DataError
from codesign._common.records import convert
from codesign._common.yamlfiles import load_yaml
from codesign.cluster.job import Framework, Job, TrainingPrecision, load_model_config
from codesign.cluster.plan import Plan, Recompute, Schedule
from codesign.cluster.published import Run
from codesign.cluster.summary import model_flops
from codesign.hardware import load_system
from codesign.workload.model_config import ModelConfig


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    system: str
    model: str
    gpus: int
    batch: int
    sequence: int
    precision: TrainingPrecision = "bf16"
    levers: dict[str, float] = {}
    """What the part differed in from the library's."""
    tp: int = 1
    cp: int = 1
    pp: int = 1
    vpp: int = 1
    ep: int = 1
    zero: Literal[0, 1, 2, 3] = 1
    micro_batch: int = 1
    recompute: Recompute = "none"
    schedule: Schedule = "1f1b"
    mtp: bool = False
    lora: bool = False
    gradient_bytes: float = 4.0
    framework: Framework = Framework()
    step_s: float | None = None
    tokens_per_s_gpu: float | None = None
    mfu: float | None = None
    """Of the dense bf16 peak, by `summary.model_flops`."""
    allocated_gib: float | None = None
    """Peak of the framework's allocator on the fullest GPU, in GiB."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    runs: tuple[_Entry, ...]
    models: dict[str, ModelConfig] = {}


def read_runs(path: Path) -> list[Run]:
    """Runs of a file such as ``benchmarks/published_runs.yaml``.

    Raises DataError for a run without a positive rate, of a plan that does not divide it, or
    of a model or system that is not known.
    """
    content = convert(load_yaml(path), _File, str(path))
    found = []
    for index, entry in enumerate(content.runs):
        try:
            found.append(_run(path.name, index, entry, content.models))
        except (CodesignError, ValueError) as error:
            raise DataError(f"{path}: runs[{index}]: {error}") from error
    return found


def _run(table: str, index: int, entry: _Entry, models: dict[str, ModelConfig]) -> Run:
    model = models.get(entry.model) or load_model_config(entry.model)
    group = entry.tp * entry.cp * entry.pp
    if entry.gpus % group:
        raise DataError(f"tp x cp x pp = {group} does not divide {entry.gpus} GPUs")
    plan = Plan(
        tp=entry.tp, cp=entry.cp, pp=entry.pp, vpp=entry.vpp, ep=entry.ep,
        dp=entry.gpus // group, zero=entry.zero, micro_batch=entry.micro_batch,
        recompute=entry.recompute, schedule=entry.schedule,
    )  # fmt: skip
    job = Job(
        model=model, gpus=entry.gpus, global_batch=entry.batch, sequence_length=entry.sequence,
        name=entry.model, precision=entry.precision, mtp=entry.mtp, lora=entry.lora,
        gradient_bytes=entry.gradient_bytes, framework=entry.framework,
    )  # fmt: skip
    return Run(
        table, index, job, plan, entry.system, _step_s(entry, job),
        allocated_bytes=entry.allocated_gib * 2.0**30 if entry.allocated_gib else None,
        release=entry.source, levers=tuple(entry.levers.items()),
    )  # fmt: skip


def _step_s(entry: _Entry, job: Job) -> float:
    given = [v for v in (entry.step_s, entry.tokens_per_s_gpu, entry.mfu) if v is not None]
    if len(given) != 1 or not 0 < given[0] < float("inf"):
        raise DataError("expected exactly one of step_s, tokens_per_s_gpu and mfu, above 0")
    if entry.step_s is not None:
        return entry.step_s
    if entry.tokens_per_s_gpu is not None:
        return job.tokens / (entry.tokens_per_s_gpu * job.gpus)
    peak = load_system(entry.system).gpu.peak_flops_per_s("bf16")
    return model_flops(job) / (given[0] * job.gpus * peak)
