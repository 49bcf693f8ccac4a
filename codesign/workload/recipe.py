"""Workload recipes: a model, what is done with it, and how it is spread over GPUs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from codesign._common.errors import UsageError, one_of
from codesign._common.files import data_dir
from codesign._common.records import convert
from codesign._common.text import quoted
from codesign._common.yamlfiles import load_yaml
from codesign.workload.caveat import Caveat
from codesign.workload.config_json import config_fields
from codesign.workload.model_config import ModelConfig

Phase = Literal["pretrain", "sft", "prefill", "decode", "rollout"]
PrecisionName = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "fp8_block", "mxfp8", "nvfp4"]
OVERLAP_KINDS = ("tp", "tp_backward", "dp_gradients", "dp_parameters", "ep", "cp", "pp")
OverlapKind = Literal["tp", "tp_backward", "dp_gradients", "dp_parameters", "ep", "cp", "pp"]


class Precision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Precision of each kind of op. ``None`` follows ``gemm``."""

    gemm: PrecisionName = "bf16"
    moe: PrecisionName | None = None
    lm_head: PrecisionName = "bf16"
    attention: PrecisionName = "bf16"
    kv_cache: PrecisionName = "bf16"
    activations: PrecisionName = "bf16"
    parameters: PrecisionName = "bf16"
    """As they are gathered and sent over data parallelism."""
    gradients: PrecisionName = "fp32"
    """As they are accumulated and reduced."""
    optimizer: PrecisionName = "fp32"
    """Of the two AdamW moments; the master weights are always fp32."""
    swiglu_input: PrecisionName | None = None
    """As gate and up are kept for the backward pass; ``None`` follows ``activations``."""
    dispatch: PrecisionName | None = None
    """Tokens on their way to their experts; ``None`` follows ``activations``."""

    @property
    def experts(self) -> str:
        """Precision of the routed experts' GEMMs."""
        return self.moe or self.gemm

    @property
    def dispatched(self) -> str:
        """Precision of tokens sent to their experts."""
        return self.dispatch or self.activations


class Parallelism(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ranks by kind, nested tp, cp, dp, pp from the inside out (as Megatron-LM orders them)."""

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1
    """Expert parallelism inside tp x cp x dp; experts are then not split by tp."""
    sequence_parallel: bool = False
    """Norms and residuals split over tp: all-gather and reduce-scatter for all-reduce."""
    zero: Literal[1, 3] = 1
    """1: optimizer state sharded over dp. 3: parameters and gradients too (FSDP)."""
    virtual_pipeline: int = 1
    """Model chunks a pipeline stage (interleaved 1F1B)."""
    schedule: Literal["1f1b", "dualpipe"] = "1f1b"

    def __post_init__(self) -> None:
        for name in ("tp", "cp", "dp", "pp", "ep", "virtual_pipeline"):
            value = getattr(self, name)
            if not 1 <= value <= 1_000_000:
                raise ValueError(f"{name} = {value}, expected 1 to 1000000")
        if (self.tp * self.cp * self.dp) % self.ep:
            raise ValueError("ep does not divide tp x cp x dp")
        if self.schedule == "dualpipe" and (self.pp % 2 or self.virtual_pipeline > 1):
            raise ValueError("schedule dualpipe needs an even pp and virtual_pipeline 1")
        if self.sequence_parallel and self.tp == 1:
            raise ValueError("sequence_parallel needs tp above 1")

    @property
    def gpus(self) -> int:
        """GPUs of the whole job."""
        return self.tp * self.cp * self.dp * self.pp


class Overlap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What hides a kind of collective, as an assumption with its reason."""

    behind: Literal["none", "forward", "backward", "prefill", "decode", "same", "any"]
    """Phase whose compute hides it; ``same`` is the collective's own phase, ``any`` every
    phase but the optimizer, as where two micro-batches run side by side."""
    reason: str
    share: float = 1.0
    """Part of that compute that can hide it, at most."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share = {self.share}, expected 0 to 1")
        if not self.reason.strip():
            raise ValueError("reason is empty; an overlap is an assumption and needs one")


class Moe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tokens reach their experts."""

    distribution: Literal["balanced", "power_law_1.01", "power_law_1.2"] = "balanced"
    communication: Literal["all_to_all", "all_reduce"] = "all_to_all"
    """``all_reduce``: every rank of a tp group has all tokens (ep = tp), partial sums are added."""


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A workload that can be composed from measured kernels. Counts are per optimizer
    step (training), per generated token of the whole batch (decode) or per batch (prefill).
    """

    name: str
    title: str
    phase: Phase
    model: ModelConfig
    source: str = ""
    """Where the model's fields come from."""
    system: str = "hgx-h100"
    precision: Precision = Precision()
    parallelism: Parallelism = Parallelism()
    sequence_length: int = 8192
    """Tokens a sequence: of training, or of the prompt."""
    micro_batch: int = 1
    """Sequences a forward pass of one data-parallel rank: training and prefill."""
    gradient_accumulation: int = 1
    """Micro-batches an optimizer step."""
    context_length: int = 8192
    """Decode: mean tokens that a new token attends to, itself included."""
    batch: int = 1
    """Decode: sequences that one data-parallel rank decodes at a time."""
    recompute: Literal["none", "selective", "full"] = "none"
    """Activations computed again in the backward pass. ``selective``: norms, the
    activation function and MLA's up-projections; ``full``: the whole layer."""
    lm_head_chunks: int = 1
    """Parts of the vocabulary in which logits and loss are computed one after another."""
    overlap: dict[OverlapKind, Overlap] = {}
    moe: Moe = Moe()
    extrapolation: Literal["refuse", "allow"] = "refuse"
    """Whether an op outside the measured shapes is estimated (and labelled) or refused."""
    notes: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    """Doubts that a report shows where gains rest on the ops that they name."""

    def __post_init__(self) -> None:
        # It becomes a file's name and a heading.
        if not 0 < len(self.name) <= 200 or not self.name.isprintable() or "/" in self.name:
            raise ValueError(
                f"name = {quoted(self.name)}, expected 1 to 200 printable characters, no /"
            )
        for name in ("sequence_length", "micro_batch", "gradient_accumulation",
                     "context_length", "batch", "lm_head_chunks"):  # fmt: skip
            if not 1 <= getattr(self, name) <= 10**8:
                raise ValueError(f"{name} = {getattr(self, name)}, expected 1 to 100000000")
        _check_parallelism(self)

    @property
    def training(self) -> bool:
        """Whether the step has a backward pass and an optimizer."""
        return self.phase in ("pretrain", "sft")

    @property
    def decoding(self) -> bool:
        """Whether the step generates one token a sequence."""
        return self.phase in ("decode", "rollout")

    @property
    def micro_batches(self) -> int:
        """Forward passes a step."""
        return self.gradient_accumulation if self.training else 1

    @property
    def tokens_per_pass(self) -> int:
        """Tokens of one forward pass on one rank (context parallelism divides them)."""
        if self.decoding:
            return self.batch
        return self.micro_batch * self.sequence_length // self.parallelism.cp

    @property
    def tokens_per_step(self) -> int:
        """Tokens a step over all GPUs."""
        p = self.parallelism
        return self.tokens_per_pass * p.cp * p.dp * self.micro_batches

    @property
    def bubble_ratio(self) -> float:
        """Pipeline bubble / busy time of a step: a ratio to the ideal, not a share of the total.

        1F1B: (p - 1) / (m v) (Narayanan et al. 2021, arXiv:2104.04473, section 2.2).
        DualPipe: (p/2 - 1)(FB + B - 3W) against m (F + B) (DeepSeek-V3,
        arXiv:2412.19437, table 2) with B = 2 F, W = F and FB = F + B.
        """
        p = self.parallelism
        if p.pp > 1 and p.schedule == "dualpipe":
            return (p.pp / 2 - 1) * 2 / (3 * self.micro_batches)
        return (p.pp - 1) / (self.micro_batches * p.virtual_pipeline)

    def sha256(self) -> str:
        """Hash of the recipe's content, whatever its layout and comments."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    def overlap_of(self, kind: str) -> Overlap | None:
        """The overlap assumed for a kind of collective, or None if it never hides."""
        entry = next((v for k, v in self.overlap.items() if k == kind), None)
        return None if entry is None or entry.behind == "none" else entry


def _check_parallelism(recipe: Recipe) -> None:
    model, p = recipe.model, recipe.parallelism
    divisible = {
        "num_attention_heads by parallelism.tp": (model.num_attention_heads, p.tp),
        "sequence_length by parallelism.cp": (recipe.sequence_length, p.cp),
    }
    if model.dense_layers:
        divisible["intermediate_size by parallelism.tp"] = (model.intermediate_size or 0, p.tp)
    if model.experts:
        divisible["the number of experts by parallelism.ep"] = (model.experts, p.ep)
        if p.ep == 1:
            size = model.expert_intermediate
            divisible["the experts' intermediate size by parallelism.tp"] = (size, p.tp)
    kv_heads = model.kv_heads
    if kv_heads % p.tp and p.tp % kv_heads:
        raise ValueError(f"cannot spread {kv_heads} key-value heads over parallelism.tp = {p.tp}")
    for what, (value, divisor) in divisible.items():
        if value % divisor:
            raise ValueError(f"cannot divide {what}: {value} / {divisor}")
    if p.pp > model.num_hidden_layers:
        raise ValueError(f"parallelism.pp = {p.pp} is more than {model.num_hidden_layers} layers")
    if p.ep > 1 and not model.experts:
        raise ValueError("parallelism.ep is above 1 but the model has no experts")
    if p.ep > 1 and recipe.moe.communication == "all_reduce" and p.ep != p.tp:
        raise ValueError("moe.communication all_reduce needs parallelism.ep equal to tp")
    if recipe.decoding and (p.cp > 1 or p.pp > 1 or p.sequence_parallel):
        raise ValueError("decode supports tp, dp and ep; set cp, pp to 1, sequence_parallel off")


def decode_recipe(content: dict[str, Any], where: str) -> Recipe:
    """A recipe from plain values. Raises DataError naming ``where`` and the key."""
    content = dict(content)
    model = content.get("model")
    if isinstance(model, dict):
        content["model"] = config_fields(model, f"{where}: model")
    return convert(content, Recipe, where)


def recipe_path(name_or_path: str | Path) -> Path:
    """File of a shipped recipe's name, or the path itself. Raises UsageError for neither."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        return path
    shipped = data_dir("reports") / "workloads" / f"{name_or_path}.yaml"
    if Path(name_or_path).name == str(name_or_path) and shipped.is_file():
        return shipped
    raise UsageError(
        f"{one_of('recipe', str(name_or_path), list_recipes())}; or give the path of a .yaml file"
    )


def load_recipe(name_or_path: str | Path) -> Recipe:
    """Read a recipe by its shipped name or from a file.

    Raises UsageError for an unknown name and DataError (file, key) for bad content.
    """
    path = recipe_path(name_or_path)
    return decode_recipe(load_yaml(path), str(path))


def list_recipes() -> list[str]:
    """Names of the shipped recipes."""
    return sorted(p.stem for p in (data_dir("reports") / "workloads").glob("*.yaml"))
