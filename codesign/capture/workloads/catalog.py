"""Which workloads there are and how large their presets are. Data; imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from codesign._common.errors import UsageError, one_of


@dataclass(frozen=True)
class Sizes:
    """What a workload is scaled by; a workload reads those that it has a use for."""

    layers: int = 2
    hidden: int = 128
    heads: int = 8
    kv_heads: int = 2
    ffn: int = 384
    vocab: int = 512
    sequence: int = 128
    """Tokens of a training sequence, or of a prompt."""
    batch: int = 2
    new_tokens: int = 8
    """Tokens that a rollout's step decodes after its prompt."""
    group: int = 4
    """Answers to one prompt in a GRPO step."""
    experts: int = 8
    topk: int = 2
    largest: int = 512
    """Largest dim of a GEMM sweep."""
    largest_bytes: int = 1 << 24
    """Largest message or array of a sweep."""
    dtype: str = "auto"
    """``fp32`` or ``bf16``; auto is bf16 on a GPU, fp32 on a CPU."""

    @property
    def head_dim(self) -> int:
        """Size of a head."""
        return self.hidden // self.heads


@dataclass(frozen=True)
class Workload:
    """One built-in workload."""

    name: str
    title: str
    module: str
    """Module beside this one; its ``build(sizes, device)`` gives a `program.Program`."""
    phase: str | None = None
    ranks: int = 1
    """Ranks it needs at least."""
    sizes: Mapping[str, object] = field(default_factory=dict)
    """Sizes in which it differs from the preset's."""


PRESETS: dict[str, Sizes] = {
    "tiny": Sizes(),
    "small": Sizes(layers=4, hidden=2048, heads=16, kv_heads=8, ffn=5632, vocab=32000,
                   sequence=2048, batch=4, new_tokens=32, group=4, experts=16, largest=4096,
                   largest_bytes=1 << 28),
    # Layers as wide as the models' own, as few as fit on one GPU of 80 GB with AdamW; experts as
    # those of Mixtral 8x7B, and half as many of the size of Llama 70B's MLP.
    "llama-8b": Sizes(layers=4, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256,
                      sequence=8192, batch=1, new_tokens=64, group=8, experts=8, topk=2,
                      largest=16384, largest_bytes=1 << 30),
    "llama-70b": Sizes(layers=2, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256,
                       sequence=8192, batch=1, new_tokens=64, group=8, experts=4, topk=2,
                       largest=28672, largest_bytes=1 << 30),
}  # fmt: skip

WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload("llama-train", "dense transformer, training step with AdamW", "train"),
        Workload("llama-sft", "fine-tuning step: loss on the answers only", "train"),
        Workload("moe-train", "transformer of MoE layers: routing, grouped GEMMs", "train",
                 sizes={"dtype": "bf16"}),
        Workload("fp8-linear", "MLP of FP8 linear layers, forward and backward", "fp8"),
        Workload("rl-prefill", "rollout: prompts into the KV cache", "rollout", "prefill"),
        Workload("rl-decode", "rollout: tokens one by one from the KV cache", "rollout", "decode"),
        Workload("rl-rollout", "rollout: prefill, then decode", "rollout", "rollout"),
        Workload("grpo-train", "GRPO step: policy against reference on sampled answers", "grpo"),
        Workload("gemm-sweep", "GEMMs over shapes", "sweeps"),
        Workload("copy-sweep", "copies and sums of arrays over sizes", "sweeps"),
        Workload("collective-sweep", "collectives of each kind over message sizes",
                 "sweeps", ranks=2),
    )
}  # fmt: skip


def workload_of(name: str) -> Workload:
    """A built-in workload. Raises UsageError that lists them."""
    if name not in WORKLOADS:
        raise UsageError(one_of("workload", name, list(WORKLOADS)))
    return WORKLOADS[name]


def sizes_of(name: str, preset: str = "tiny", changes: Sequence[str] = ()) -> Sizes:
    """Sizes of a workload's preset with ``KEY=VALUE`` changes applied.

    Raises UsageError for an unknown preset or key, or a value that does not fit.
    """
    if preset not in PRESETS:
        raise UsageError(one_of("preset", preset, list(PRESETS)))
    known = {f.name: f for f in fields(Sizes)}
    changed: dict[str, object] = dict(workload_of(name).sizes)
    for change in changes:
        key, _, text = change.partition("=")
        if key not in known:
            raise UsageError(f"--size {change!r}: {one_of('size', key, list(known))}")
        changed[key] = text if key == "dtype" else _positive(change, text)
    sizes = replace(PRESETS[preset], **changed)  # type: ignore[arg-type]
    if sizes.dtype not in ("auto", "fp32", "bf16"):
        raise UsageError(f"--size dtype={sizes.dtype}: expected auto, fp32 or bf16")
    if sizes.hidden % sizes.heads or sizes.heads % sizes.kv_heads:
        raise UsageError(
            f"heads={sizes.heads} must divide hidden={sizes.hidden} and be a multiple of "
            f"kv_heads={sizes.kv_heads}"
        )
    if sizes.topk > sizes.experts:
        raise UsageError(f"topk={sizes.topk} is more than experts={sizes.experts}")
    return sizes


def _positive(change: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"--size {change!r}: expected a whole number of 1 or more")
    return int(text)


def command_of(
    name: str,
    preset: str,
    changes: Sequence[str],
    iterations: int,
    ranks: int | None = None,
    sms: int | None = None,
) -> list[str]:
    """Program and arguments that run a built-in workload in this Python environment.

    Raises UsageError for a workload, preset or size that there is not, or too few ranks.
    """
    needed = workload_of(name).ranks
    sizes_of(name, preset, changes)
    ranks = needed if ranks is None else ranks
    if ranks < needed:
        raise UsageError(f"{name} needs --nproc {needed} or more")
    module = ["-m", "codesign.capture.workloads", name, "--preset", preset,
              "--iterations", str(iterations)]  # fmt: skip
    module += [part for change in changes for part in ("--size", change)]
    if sms is not None:
        module += ["--sms", str(sms)]
    if ranks == 1:
        return [sys.executable, *module]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node", str(ranks), *module]  # fmt: skip
