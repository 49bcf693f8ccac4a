"""Published training runs as jobs, plans and what was measured: to calibrate and to score.

The tables say how a run was spread over GPUs, but not all that the framework did. What it
switches on (`framework_rules`) goes by release, model, system and plan alone, never by the
measured value.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from codesign._common.errors import CodesignError, DataError
from codesign.cluster.framework_rules import Facts, FrameworkRules
from codesign.cluster.framework_table import shipped_rules
from codesign.cluster.job import Framework, Job, TrainingPrecision, list_models, load_model_config
from codesign.cluster.plan import Plan
from codesign.cluster.summary import model_flops


@dataclass(frozen=True)
class Run:
    """One published step."""

    table: str
    row: int
    """Line of the file, the header being line 1."""
    job: Job
    plan: Plan
    system: str
    """Name in the hardware library."""
    step_s: float
    allocated_bytes: float | None = None
    """Peak of the framework's allocator, where it was published."""
    release: str = ""
    """Of the software; the source where runs come from many."""
    levers: tuple[tuple[str, float], ...] = ()
    """What the part differed in from the library's, as factors."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for runs of one configuration, whatever the release."""
        return (self.job.name, self.job.gpus, self.system, self.job.precision, self.plan,
                self.job.global_batch, self.job.sequence_length)  # fmt: skip

    @property
    def tokens_per_s_gpu(self) -> float:
        """Published throughput of one GPU."""
        return self.job.tokens / self.step_s / self.job.gpus


_SYSTEMS = {
    "h100": "hgx-h100", "h200": "hgx-h200", "b200": "hgx-b200", "b300": "hgx-b300",
    "gb200": "gb200-nvl72", "gb300": "gb300-nvl72",
}  # fmt: skip
_ALIASES = {
    "llama370b": "llama-3-70b", "llama38b": "llama-3-8b", "llama31405b": "llama-3.1-405b",
    "llama3405b": "llama-3.1-405b", "llama3170b": "llama-3-70b", "llama318b": "llama-3-8b",
}  # fmt: skip
_PRECISIONS: tuple[tuple[str, TrainingPrecision], ...] = (
    ("nvfp4", "nvfp4"), ("mx", "mxfp8"), ("sc", "fp8_block"), ("fp8", "fp8"), ("bf16", "bf16"),
)  # fmt: skip


def model_of(name: str) -> str:
    """Shipped model shape that a table's name means. Raises DataError if there is none."""
    plain = re.sub(r"\(.*\)", "", name).lower()
    plain = re.sub(r"[^a-z0-9]", "", plain)
    if plain in _ALIASES:
        return _ALIASES[plain]
    for known in list_models():
        if re.sub(r"[^a-z0-9]", "", known) == plain:
            return known
    raise DataError(f"model {name!r}: no shape of that name; shipped: {', '.join(list_models())}")


def _split(text: str, second: bool) -> str:
    """``a`` or ``b`` of ``a (b)``; ``a`` where there is no ``b``."""
    match = re.fullmatch(r"\s*(.*?)\s*(?:\(([^)]*)\))?\s*", text or "")
    if match is None:
        return text
    return match[2] if second and match[2] else match[1]


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


def read_bridge(path: Path, rules: FrameworkRules | None = None) -> Iterator[Run]:
    """Runs of the throughput table (tokens/s/GPU by release, system, model and configuration).

    ``a (b)`` is two runs: the second in MXFP8. Rows of models without a shipped shape, or
    that are marked malformed, are skipped. ``rules``: what the recipes switch on, by default
    as shipped.
    """
    rules = rules or shipped_rules()
    for line, row in _rows(path):
        if row.get("malformed", "0") not in ("0", ""):
            continue
        for second in (False, True):
            if second and "(" not in row["tok_s_gpu"]:
                continue
            try:
                yield _bridge_run(path.name, line, row, second, rules)
            except (CodesignError, ValueError):
                continue


def _bridge_run(
    table: str, line: int, row: dict[str, str], second: bool, rules: FrameworkRules
) -> Run:
    def whole(column: str, default: int = 1) -> int:
        return int(_number(_split(row.get(column, ""), second), default))

    name = model_of(row["model"])
    model = load_model_config(name)
    rate = _number(_split(row["tok_s_gpu"], second), 0.0)
    if rate <= 0:
        raise DataError(f"{table}: line {line}: tok_s_gpu is not a positive number")
    gpus, tp, pp, cp = whole("gpus"), whole("tp"), whole("pp"), whole("cp")
    system = _SYSTEMS.get(row["system"].lower().removeprefix("dgx-"))
    if system is None:
        raise DataError(f"{table}: line {line}: system {row['system']!r} is not in the library")
    precision = "mxfp8" if second else _precision(_split(row["precision"], False))
    # The published rate of model FLOPs tells what was trained: all weights, or LoRA.
    tflops = _number(_split(row.get("tflops", ""), second), 0.0)
    per_token = tflops * 1e12 / rate
    plan = Plan(
        tp=tp, cp=cp, pp=pp, vpp=whole("vp"), ep=whole("ep"), dp=gpus // (tp * cp * pp),
        zero=3 if whole("fsdp", 0) > 1 else 1, micro_batch=whole("mbs"),
    )  # fmt: skip
    release = row["release"].split()[0]
    switches = rules.switches(Facts(release, system, name, row["model"], precision, model, plan))
    plan = msgspec.structs.replace(plan, **switches.given(Plan))
    job = Job(
        model=model, gpus=gpus, global_batch=whole("gbs"), sequence_length=whole("seq"),
        name=name, precision=precision,
        mtp=bool(model.num_nextn_predict_layers) and "w/o MTP" not in row["model"],
        framework=switches.framework(model.num_hidden_layers), **switches.given(Job),
    )  # fmt: skip
    if 0 < per_token < _LORA_BELOW * model_flops(job) / job.tokens:
        job = msgspec.structs.replace(job, lora=True)
    step = job.tokens / (rate * gpus)
    return Run(table, line, job, plan, system, step, release=release)


def _precision(text: str) -> TrainingPrecision:
    lower = text.lower()
    return next((p for stem, p in _PRECISIONS if stem in lower), "bf16")


_LORA_BELOW = 0.75
"""Of the model's FLOPs: LoRA takes two passes of three, and the leanest full count that was
published is 0.83 of ours (gpt-oss-120b)."""


def read_steps(path: Path, system: str = "hgx-b200") -> Iterator[Run]:
    """Runs of the step table: 8 GPUs, BF16, micro-batch 1, nothing overlapped, heads exchanged
    over context parallelism; ``measured_ms`` and ``measured_alloc_gib``.

    Models are cut to their ``layers``; of one with experts the first alone is plain, and NCCL's
    all-to-all moves the tokens (SimuMax's launch scripts for Megatron-LM).
    """
    for line, row in _rows(path):
        values = {k: int(row[k]) for k in ("layers", "tp", "pp", "dp", "cp", "ep", "sequence",
                                           "micro_batches")}  # fmt: skip
        try:
            shape = load_model_config(model_of(row["model"]))
        except CodesignError:
            continue
        model = msgspec.structs.replace(
            shape,
            num_hidden_layers=values["layers"],
            first_k_dense_replace=min(shape.first_k_dense_replace, 1),
        )
        plan = Plan(tp=values["tp"], cp=values["cp"], pp=values["pp"], ep=values["ep"],
                    dp=values["dp"])  # fmt: skip
        job = Job(
            model=model, gpus=plan.gpus, global_batch=values["micro_batches"] * plan.dp,
            sequence_length=values["sequence"], name=row["model"],
            framework=Framework(tp_overlap=False, tp_async=False, dp_overlap=False,
                                pp_overlap=False, cp_exchange="all_to_all",
                                dispatcher="all_to_all"),
        )  # fmt: skip
        yield Run(path.name, line, job, plan, system, float(row["measured_ms"]) / 1e3,
                  float(row["measured_alloc_gib"]) * 2**30)  # fmt: skip


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for line, row in enumerate(csv.DictReader(stream), start=2):
                yield line, {k: v or "" for k, v in row.items() if k is not None}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot read: {error}") from error
