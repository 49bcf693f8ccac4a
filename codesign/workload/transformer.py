"""The ops of one step of a transformer on one representative GPU, from a recipe.

What is fused and what is left out is said in ``assumptions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codesign._common.text import counted
from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.workload.accounting import adamw_bytes, add_work
from codesign.workload.moe import moe_rows
from codesign.workload.sharding import Shards
from codesign.workload.transformer_comm import (
    context_rows,
    data_rows,
    expert_rows,
    pipeline_rows,
    tensor_rows,
)
from codesign.workload.transformer_layers import Share, attention_rows, edge_rows, mlp_rows
from codesign.workload.transformer_rows import SELECTIVE, Row, backward, recomputed

if TYPE_CHECKING:
    import pandas as pd

    from codesign.workload.recipe import Recipe


def build_ops(recipe: Recipe) -> pd.DataFrame:
    """The recipe's ops table: shapes, counts and work per step; times and exposure null.

    A step is an optimizer step (training), one token for each sequence of the batch
    (decode), or one batch of prompts (prefill). ``evidence`` is ``assumed`` until a
    source fills in the times.
    """
    from codesign.workload.schema import ops_frame

    share, shards = Share.of(recipe), Shards.of(recipe)
    layers = attention_rows(share) + mlp_rows(share) + moe_rows(share)
    edges = edge_rows(share)
    rows = layers + edges
    if recipe.training:
        rows += [b for row in layers + edges for b in backward(row)]
        rows += [recomputed(row) for row in layers if _recompute(recipe, row)]
        rows += optimizer_rows(recipe, shards)
    rows += tensor_rows(share) + context_rows(share) + expert_rows(share)
    rows += pipeline_rows(share) + data_rows(share, shards)
    return add_work(ops_frame([row.values() for row in rows]))


def _recompute(recipe: Recipe, row: Row) -> bool:
    if recipe.recompute == "full":
        return True
    return recipe.recompute == "selective" and row.name in SELECTIVE


def optimizer_rows(recipe: Recipe, shards: Shards) -> list[Row]:
    """AdamW over this GPU's shard, after the norm of its gradients."""
    precision = recipe.precision
    held = round(shards.optimized)
    gradient = BYTES_PER_ELEMENT[precision.gradients]
    update = adamw_bytes(
        float(held), BYTES_PER_ELEMENT[precision.optimizer], gradient,
        BYTES_PER_ELEMENT[precision.parameters],
    )  # fmt: skip
    norm: dict[str, object] = {"m": held, "n": 1, "bytes": held * gradient}
    return [
        Row("reduction", "gradient_norm", 1, precision.gradients, "optimizer", norm),
        Row("optimizer", "adamw", 1, precision.optimizer, "optimizer",
            {"m": held, "bytes": update}),
    ]  # fmt: skip


def assumptions(recipe: Recipe) -> dict[str, str]:
    """What the op list takes for granted, by name, for a characterization's header."""
    p = recipe.parallelism
    said = {
        "fusion": "residual additions run inside the norms, gate and up are one GEMM"
        + (
            "; the loss writes its gradient in place, gradients accumulate inside the "
            "weight-gradient GEMMs"
            if recipe.training
            else ""
        ),
        "left out": _left_out(recipe),
        "representative GPU": "mean over pipeline stages, which are taken to be balanced",
    }
    narrow = {recipe.precision.gemm, recipe.precision.experts} - {"bf16", "fp16", "fp32", "tf32"}
    if narrow:
        said["quantization"] = (
            f"{', '.join(sorted(narrow))} GEMM times are taken to include quantizing the "
            "activations, as their measured floor suggests; no quantize op is added"
        )
    if recipe.training:
        said["recompute"] = recipe.recompute
    if recipe.training and recipe.model.moe_layers:
        said["expert gradients"] = "dgrad and wgrad of the experts take the forward's time each"
    if recipe.model.moe_layers:
        said["expert load"] = f"{recipe.moe.distribution} over experts"
    if p.cp > 1:
        said["context parallelism"] = "causal work is dealt out evenly over its ranks"
    if p.pp > 1:
        said["pipeline"] = (
            f"{p.schedule}: bubble / busy time = {recipe.bubble_ratio:.4f} with {p.pp} stages, "
            f"{recipe.micro_batches} micro-batches, {counted(p.virtual_pipeline, 'chunk')} a stage"
        )
    for kind, rule in recipe.overlap.items():
        behind = "never hidden" if rule.behind == "none" else (
            f"hidden behind at most {100 * rule.share:g} % of {rule.behind} compute")  # fmt: skip
        said[f"overlap {kind}"] = f"{behind}: {rule.reason}"
    return said


def _left_out(recipe: Recipe) -> str:
    """Work of a real step that has no row."""
    parts = ["the host", "norm weights"]
    if recipe.training:
        parts += ["dropout", "the scalar sums of loss and gradient norm",
                  "fp32 accumulation traffic of weight gradients"]  # fmt: skip
        if recipe.parallelism.zero == 3:
            parts.append("FSDP's copies between sharded and gathered parameters and gradients")
        if recipe.model.num_nextn_predict_layers:
            parts.append("multi-token prediction")
    return ", ".join(parts)
