"""A training job: a model, how many GPUs and tokens a step, and how the framework runs it."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec

from codesign._common.errors import UsageError, one_of
from codesign._common.files import data_dir
from codesign._common.records import convert
from codesign._common.yamlfiles import load_yaml
from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload.config_json import read_config
from codesign.workload.model_config import ModelConfig

TrainingPrecision = Literal["bf16", "fp8", "fp8_block", "mxfp8", "nvfp4"]
LARGEST = 10**8
"""GPUs, sequences of a batch, and tokens of a sequence at most."""
NARROW: tuple[TrainingPrecision, ...] = ("fp8", "fp8_block", "mxfp8", "nvfp4")


class Framework(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the framework runs a step: what hides what, and what the host has to launch."""

    tp_overlap: bool = True
    """Tensor-parallel collectives run in chunks beside the GEMMs that they feed."""
    tp_async: bool = True
    """In the backward pass they run beside the gradient GEMMs that do not need them."""
    dp_overlap: bool = True
    """Gradients are reduced and parameters gathered layer by layer beside compute."""
    pp_overlap: bool = True
    """A stage sends one micro-batch while it computes the next (needs interleaving)."""
    ep_overlap: bool = False
    """Dispatch and combine of one micro-batch run beside compute of another."""
    cp_exchange: Literal["ring", "all_gather", "all_to_all"] = "ring"
    """``ring``: keys and values travel beside attention. ``all_to_all``: heads are spread."""
    graphs: Literal["none", "partial", "full"] = "none"
    """CUDA graphs: which part of a layer's kernels the host does not launch one by one."""
    fused_moe: bool = False
    """Permutation, activation and casts run inside the grouped GEMMs."""
    attention_precision: Literal["bf16", "fp8"] = "bf16"
    attention_rate: float = 1.0
    """Rate of the attention kernels over those that the op models are of; FlashAttention 2 on
    Hopper reaches about 0.55 of FlashAttention 3's (arXiv:2407.08608)."""
    fused_loss: bool = True
    """The loss keeps one copy of the logits, in fp32."""
    dispatcher: Literal["hybrid", "fused", "all_to_all"] = "fused"
    """``all_to_all``: NCCL's, a copy of a token for each expert; ``fused``: one for each rank
    that holds any of its experts (DeepEP); ``hybrid``: the same with the copies made by few SMs
    close to the wire's rate, and rows permuted on the way (HybridEP)."""
    swiglu_bytes: float = 2.0
    """Bytes an element in which gate and up are kept for the backward pass."""
    offload: float = 0.0
    """Share of the layers whose activations wait in host memory."""

    def __post_init__(self) -> None:
        if not 0 <= self.offload <= 1:
            raise ValueError(f"offload = {self.offload}, expected 0 to 1")
        if not 0.01 <= self.attention_rate <= 100:
            raise ValueError(f"attention_rate = {self.attention_rate}, expected 0.01 to 100")


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One training step to be placed on ``gpus`` GPUs."""

    model: ModelConfig
    gpus: int
    global_batch: int
    """Sequences a step."""
    sequence_length: int
    name: str = ""
    precision: TrainingPrecision = "bf16"
    """Of the linear layers; attention, head and loss stay in bf16 unless the framework says so."""
    gradient_bytes: float = 4.0
    moment_bytes: float = 4.0
    """Of each of the two AdamW moments; the master weights are fp32."""
    mtp: bool = False
    """Train the multi-token prediction layers that the model has."""
    distribution: str = "balanced"
    """Tokens over experts; skewed ones time the busiest rank."""
    lora: bool = False
    """Train low-rank adapters only: no weight gradients, next to no optimizer."""
    framework: Framework = Framework()

    def __post_init__(self) -> None:
        for name in ("gpus", "global_batch", "sequence_length"):
            if not 1 <= getattr(self, name) <= LARGEST:
                raise ValueError(f"{name} = {getattr(self, name)}, expected 1 to {LARGEST}")

    @property
    def tokens(self) -> int:
        """Tokens a step over all GPUs."""
        return self.global_batch * self.sequence_length

    @property
    def mtp_layers(self) -> int:
        """Multi-token prediction layers that are trained."""
        return self.model.num_nextn_predict_layers if self.mtp else 0

    @property
    def weight_bytes(self) -> float:
        """Bytes kept of a linear layer's weight for the forward and backward passes.

        bf16 has one copy. Narrow recipes with narrow primary weights keep it row-wise and
        column-wise, since narrow tensor cores take operands in one layout only.
        """
        if self.precision == "bf16":
            return 2.0
        return 2.0 * BYTES_PER_ELEMENT[self.precision]

    @property
    def saved_bytes(self) -> float:
        """Bytes of a GEMM input kept for its weight gradient."""
        return BYTES_PER_ELEMENT[self.precision]


class _ModelFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    model: ModelConfig


@lru_cache(maxsize=64)
def load_model_config(name: str) -> ModelConfig:
    """A shipped model shape by name (`list_models`), or a config.json / YAML file by path.

    Raises UsageError for an unknown name, DataError for a bad file.
    """
    folder = data_dir("reports") / "models"
    if not name.endswith((".yaml", ".yml", ".json")):
        path = folder / f"{name}.yaml"
        if name not in list_models():
            raise UsageError(
                f"{one_of('model', name, list(list_models()))}; or give the path of a "
                "config.json or .yaml file"
            )
        return convert(load_yaml(path), _ModelFile, str(path)).model
    from pathlib import Path

    content = load_yaml(Path(name))  # JSON is YAML.
    if isinstance(content, dict) and isinstance(content.get("model"), dict):
        content = content["model"]
    return read_config(content, name)


@lru_cache(maxsize=1)
def list_models() -> tuple[str, ...]:
    """Names of the shipped model shapes."""
    return tuple(sorted(p.stem for p in (data_dir("reports") / "models").glob("*.yaml")))
