"""A recipe composed into a characterization from kernels measured on one GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign._common.units import format_share, format_si
from codesign.hardware import load_gpu, load_system
from codesign.hardware.compare import differences, gpu_quantities
from codesign.hardware.model import Gpu, System
from codesign.sources.perfdb import of_the_host
from codesign.workload.characterization import Characterization, Header, Quality, Reliability
from codesign.workload.footprint import footprint
from codesign.workload.notes import KERNELS_OF
from codesign.workload.overlap import overlap_windows
from codesign.workload.transformer import assumptions, build_ops

if TYPE_CHECKING:
    import pandas as pd

    from codesign.sources.perfdb import PerfDB
    from codesign.workload.recipe import Recipe

_WORTH_A_WARNING = 0.05
"""Share of the busy time, extrapolated or the host's, from which a reader should be told."""
_ALONE = (
    "each measured by itself in a short run: no gaps between kernels, no slowing under sustained "
    "power, no SMs or bandwidth lost to collectives beside them. Three published H100 steps "
    "(Megatron-Bridge Llama-3 8B and 70B in FP8, DeepSeek-V3's own) take 10 to 12 % longer"
)
_NOT_MEASURED = "composed from kernels one at a time: the gaps between them were never seen"


def compose(
    recipe: Recipe,
    db: PerfDB,
    system: System | str | None = None,
    allow_extrapolation: bool = False,
    framework: str = "trtllm",
) -> Characterization:
    """The recipe's step on ``system`` (by default the recipe's own), from measured kernels.

    ``framework`` is whose kernels: ``trtllm``, ``sglang`` or ``vllm``.
    Every row says whether its time is measured, interpolated, extrapolated, modelled
    or assumed. Raises UsageError if the system's GPU has no tables, DataError if a
    shape lies outside the measured ones and neither the recipe nor the caller allows
    to extrapolate.
    """
    target = system if isinstance(system, System) else _system(recipe, system)
    if target.gpu.name not in db.gpus():
        raise UsageError(
            f"no measured kernels of {target.gpu.name} ({target.name}) in {db.name}; "
            f"it has: {', '.join(db.gpus())}; a workload on another GPU comes from its traces "
            "(codesign characterize --from)"
        )
    allow = allow_extrapolation or recipe.extrapolation == "allow"
    try:
        measured = db.measured(
            build_ops(recipe), target, allow_extrapolation=allow, framework=framework
        )
    except DataError as error:
        raise DataError(f"recipe {recipe.name} ({framework}): {error}") from error
    ops = _with_exposure(measured.ops, recipe)
    busy_s = float(ops["exposed_s"].sum())
    bubble_s = recipe.bubble_ratio * busy_s
    p = recipe.parallelism
    header = Header(
        workload=recipe.name,
        title=recipe.title,
        system=target.name,
        phase=recipe.phase,
        model=_plain(recipe.model),
        parallelism={"tp": p.tp, "cp": p.cp, "dp": p.dp, "pp": p.pp, "ep": p.ep},
        gpus=p.gpus,
        tokens_per_step=float(recipe.tokens_per_step),
        software={"kernel tables": db.name, KERNELS_OF: framework, **measured.software},
        capture_method="composed",
        sources=measured.sources,
        quality=_quality(ops, recipe, target, framework),
        step_time_s=busy_s + bubble_s,
        idle_s=bubble_s,
        bubble_s=bubble_s,
        assumptions={"kernel times": _ALONE, **assumptions(recipe), **measured.assumptions},
        notes=(f"recipe sha256 {recipe.sha256()}", _shares(ops), *recipe.notes, *measured.notes),
        caveats=tuple(c for c in recipe.caveats if not c.gpus or target.gpu.name in c.gpus),
    )
    return Characterization(header, ops)


def _system(recipe: Recipe, name: str | None) -> System:
    if name is not None:
        return load_system(name)
    try:
        return load_system(recipe.system)
    except CodesignError as error:
        raise DataError(f"recipe {recipe.name}: system: {error}") from error


def _plain(model: object) -> dict[str, object]:
    import msgspec

    fields: dict[str, object] = msgspec.to_builtins(model)
    return {key: value for key, value in fields.items() if value is not None}


def _with_exposure(ops: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
    """``overlap_window_s`` and ``exposed_s``: what does not hide is the step's own."""
    window = overlap_windows(ops, recipe)
    time_s = ops["time_s"].to_numpy(dtype=float)
    hidden_s = np.minimum(window.to_numpy(dtype=float, na_value=0.0), time_s)
    return ops.assign(overlap_window_s=window, exposed_s=time_s - hidden_s)


def _evidence(ops: pd.DataFrame) -> dict[str, float]:
    """Share of the busy time by evidence, largest first."""
    exposed_s = ops.groupby("evidence")["exposed_s"].sum().astype(float)
    shares = exposed_s / max(float(exposed_s.sum()), 1e-30)
    ranked = sorted(shares.items(), key=lambda item: (-item[1], str(item[0])))
    return {str(kind): float(share) for kind, share in ranked}


def _shares(ops: pd.DataFrame) -> str:
    parts = (f"{format_share(share)} {kind}" for kind, share in _evidence(ops).items())
    return f"busy time by evidence: {', '.join(parts)}"


def _of_the_host(ops: pd.DataFrame, framework: str) -> str:
    """What is to be said of times that are the host's; empty where they hardly count."""
    busy_s = max(float(ops["exposed_s"].sum()), 1e-30)
    rows = ops[of_the_host(ops, framework)]
    share = float(rows["exposed_s"].sum()) / busy_s
    if share < _WORTH_A_WARNING:
        return ""
    kinds = dict.fromkeys(f"{p} {c}" for p, c in zip(rows["precision"], rows["op_class"],
                                                    strict=True))  # fmt: skip
    return (
        f"{share:.0%} of the busy time is {', '.join(kinds)} as {framework}'s tables "
        "have it: largely the host's time (floors of 57 to 259 us), not the GPU's"
    )


def _altered(gpu: Gpu) -> list[str]:
    """Quantities in which ``gpu`` is not the library's part whose name it bears."""
    try:
        part = load_gpu(gpu.name)
    except CodesignError:
        return []
    return [d.path for d in differences(gpu_quantities(part), gpu_quantities(gpu)) if d.moved]


def _quality(ops: pd.DataFrame, recipe: Recipe, system: System, framework: str) -> Quality:
    time_s = ops["time_s"].to_numpy(dtype=float)
    known = ops[["flops", "bytes", "wire_bytes"]].notna().any(axis=1).to_numpy(dtype=bool)
    total_s = max(float(time_s.sum()), 1e-30)
    weak = _evidence(ops).get("extrapolated", 0.0)
    warnings = []
    if weak >= _WORTH_A_WARNING:
        warnings.append(f"{weak:.0%} of the busy time is extrapolated beyond the measured shapes")
    if words := _of_the_host(ops, framework):
        warnings.append(words)
    need_bytes, gpu = footprint(recipe).total_bytes, system.gpu
    if need_bytes > gpu.hbm_capacity_bytes:
        warnings.append(
            f"about {format_si(need_bytes, 'B')} of HBM are needed on each GPU, {gpu.name} has "
            f"{format_si(gpu.hbm_capacity_bytes, 'B')}: this cannot run as described"
        )
    if altered := _altered(gpu):
        warnings.append(
            f"{gpu.name} differs from the part of that name in {', '.join(altered)}; the kernel "
            "times are those of the part, and nothing here follows what was changed"
        )
    return Quality(
        known_work_share=float(time_s[known].sum()) / total_s,
        shape_coverage=1.0,
        steps_found=1,
        steps_by="recipe",
        reliability={
            "idle": Reliability(False, (_NOT_MEASURED,)),
            "launch": Reliability(False, (_NOT_MEASURED,)),
            "exposed": Reliability(False, ("overlap is the recipe's assumption",)),
        },
        warnings=tuple(warnings),
    )
