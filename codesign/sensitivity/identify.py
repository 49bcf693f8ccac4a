"""Which levers the training data can tell apart, per op class.

Each lever gets an exponent of its own in the fitted model: its quantity acts as
reference x (quantity / reference)^(1 + gamma), gamma = 0 being the physics that was
fitted. The posterior of all gammas together, with every fitted parameter free and a
random effect per GPU, says how well the data would refute a wrong exponent. A lever
whose gamma stays wide is not identified; the lever with whose gamma it is most
correlated is its alias.

Only GPUs with ops that the lever moves can say anything of it: a network that was measured
on one part is not seen to vary because parts without such a measurement have another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from codesign._common.scores import Z_90
from codesign.sensitivity.estimate import ROWS_WORTH, Block, Estimate, natural
from codesign.sensitivity.hardware_arrays import CLOCK_SHARE, PRECISION_INDEX, Array, HardwareArrays
from codesign.sensitivity.modelfile import Identification
from codesign.sensitivity.op_model import OpModel

Evidence = tuple[OpModel, Sequence[Block], Estimate]

IDENTIFIED_SD = 0.35
"""Posterior sd of an exponent below which the lever counts as identified."""
_PRIOR_SD = 1.0
_GPU_SD = 0.08
_STEP = 1.25
_MOVES = 0.03
"""Log contrast below which a quantity never moved in the training data."""
_ACTS = 2e-3
_PRECISIONS = {
    "bf16_throughput": ("bf16", "fp16", "tf32"),
    "fp8_throughput": ("fp8", "fp8_block", "mxfp8"),
    "fp4_throughput": ("nvfp4",),
}
_PLAIN = {
    "hbm_bandwidth": "hbm_bandwidth_bytes_per_s",
    "l2_capacity": "l2_capacity_bytes",
    "nvlink_bandwidth": "nvlink_bandwidth_bytes_per_s",
    "nvlink_domain": "nvlink_domain",
    "scaleout_bandwidth": "scaleout_bandwidth_bytes_per_s",
    "launch_latency": "launch_latency_s",
}
LEVERS = ("hbm_bandwidth", "hbm_capacity", "sm_count", "sm_clock", "l2_capacity",
          "bf16_throughput", "fp8_throughput", "fp4_throughput", "nvlink_bandwidth",
          "nvlink_domain", "scaleout_bandwidth", "launch_latency", "power")  # fmt: skip
_ORDER = ("identified", "alias", "assumed", "no_effect")


def scaled(hw: HardwareArrays, lever: str, factor: float) -> HardwareArrays:
    """``hw`` with a lever moved, as the hardware layer moves it (SMs not rounded)."""
    if lever in _PLAIN:
        name = _PLAIN[lever]
        return replace(hw, **{name: getattr(hw, name) * factor})
    if lever == "sm_count":
        return replace(
            hw, sm_count=hw.sm_count * factor, peaks_flops_per_s=hw.peaks_flops_per_s * factor
        )
    if lever == "sm_clock":
        return replace(
            hw, tensor_clock_hz=hw.tensor_clock_hz * factor,
            boost_clock_hz=hw.boost_clock_hz * factor,
            peaks_flops_per_s=hw.peaks_flops_per_s * factor**CLOCK_SHARE,
        )  # fmt: skip
    if lever in _PRECISIONS:
        peaks = hw.peaks_flops_per_s.copy()
        columns = [PRECISION_INDEX[p] for p in _PRECISIONS[lever]]
        peaks[:, columns] *= factor
        return replace(hw, peaks_flops_per_s=peaks)
    if lever == "power":
        return replace(hw, power_ratio=hw.power_ratio * factor)
    return hw


def _quantity(hw: HardwareArrays, lever: str) -> float:
    """The lever's own quantity on one GPU: rates per SM and clock where it moves only those."""
    if lever in _PLAIN:
        return float(getattr(hw, _PLAIN[lever])[0, 0])
    if lever in _PRECISIONS:
        peak = hw.peaks_flops_per_s[0, PRECISION_INDEX[_PRECISIONS[lever][0]]]
        return float(peak / (hw.sm_count[0, 0] * hw.tensor_clock_hz[0, 0]))
    own: dict[str, Callable[[], float]] = {
        "sm_count": lambda: float(hw.sm_count[0, 0]),
        "sm_clock": lambda: float(hw.boost_clock_hz[0, 0]),
    }
    return own[lever]() if lever in own else 1.0


def identify(evidence: Sequence[Evidence]) -> dict[str, dict[str, Identification]]:
    """{lever: {op class: identification}}: the best that any variant of the class gives."""
    found: dict[str, dict[str, Identification]] = {lever: {} for lever in LEVERS}
    for item in evidence:
        for lever, verdict in _of_unit(item).items():
            for op_class in item[0].op_classes:
                old = found[lever].get(op_class)
                if old is None or _ORDER.index(verdict.status) < _ORDER.index(old.status):
                    found[lever][op_class] = verdict
    return found


def _of_unit(item: Evidence) -> dict[str, Identification]:
    model, blocks, estimate = item
    theta = natural(model.parameters(""), estimate.z)
    moving = [lever for lever in LEVERS if lever not in ("hbm_capacity", "power")]
    elasticity = {
        lever: [_elasticity(model, theta, b, lever) for b in blocks] for lever in [*moving, "power"]
    }
    where = {k: np.array([float(np.abs(e).max()) > _ACTS for e in v])
             for k, v in elasticity.items()}  # fmt: skip
    acts = {lever: bool(on.any()) for lever, on in where.items()}
    contrast = {lever: _contrast(blocks, lever, where[lever]) for lever in moving}
    moves = {k: float(np.abs(v).max()) > _MOVES for k, v in contrast.items()}
    columns = [lever for lever in moving if acts[lever] and moves[lever]]
    covariance = _posterior(item, columns, elasticity, contrast)
    verdicts = {"hbm_capacity": Identification("no_effect", "acts on what fits, not on op times")}
    for lever in [*moving, "power"]:
        if not acts[lever]:
            verdicts[lever] = Identification("no_effect", "does not enter this op's time")
        elif lever == "power":
            verdicts[lever] = Identification(
                "assumed", "acts through the sustained clock as power^(1/3) on tensor-bound time"
            )
        elif lever == "sm_clock" and any(acts[p] for p in _PRECISIONS):
            verdicts[lever] = Identification(
                "assumed",
                "how much of a higher clock tensor-bound kernels sustain under their power limit "
                "is not measured: draws take it from none to all, the estimate is half",
            )
        elif not moves[lever]:
            gpus = ", ".join(b.gpu for b, on in zip(blocks, where[lever], strict=True) if on)
            verdicts[lever] = Identification(
                "assumed",
                f"is the same on every GPU with ops that it moves ({gpus}); the physical form "
                "carries it",
            )
        else:
            verdicts[lever] = _verdict(lever, columns, covariance)
    return verdicts


def _verdict(lever: str, columns: list[str], covariance: Array) -> Identification:
    index = columns.index(lever)
    sd = np.sqrt(np.diag(covariance))
    if sd[index] < IDENTIFIED_SD:
        return Identification("identified", f"exponent known to +-{Z_90 * sd[index]:.2f} (90 %)")
    correlation = covariance[index] / (sd[index] * sd)
    correlation[index] = 0.0
    other = int(np.abs(correlation).argmax())
    if abs(correlation[other]) > 0.3:
        return Identification(
            "alias",
            f"exponent known only to +-{Z_90 * sd[index]:.2f} (90 %): in the training data it "
            f"moves together with {columns[other]} (correlation {correlation[other]:+.2f})",
            columns[other],
        )
    return Identification(
        "assumed",
        f"exponent known only to +-{Z_90 * sd[index]:.2f} (90 %); the physical form carries it",
    )


def _elasticity(model: OpModel, theta: Array, block: Block, lever: str) -> Array:
    """(rows,) d ln(time) / d ln(lever), over a step that crosses waves."""
    before = model.times(theta, block.features, block.hw)[0]
    after = model.times(theta, block.features, scaled(block.hw, lever, _STEP))[0]
    result: Array = np.log(after / before) / np.log(_STEP)
    return result


def _contrast(blocks: Sequence[Block], lever: str, where: NDArray[np.bool_]) -> Array:
    """(blocks,) log of the quantity over its geometric mean among the blocks ``where`` the
    lever acts; 0 for the others and where it does not exist.
    """
    logs = np.log([_quantity(b.hw, lever) for b in blocks])
    known = where & np.isfinite(logs)
    contrast = np.zeros(len(blocks))
    if known.any():
        contrast[known] = logs[known] - logs[known].mean()
    return contrast


def _posterior(
    item: Evidence, columns: list[str], elasticity: dict[str, list[Array]],
    contrast: dict[str, Array],
) -> Array:  # fmt: skip
    """Covariance of the exponents ``columns`` with all fitted parameters free."""
    model, blocks, estimate = item
    p = estimate.z.size
    prior_sd = [q.prior_sd or 1.5 for q in model.parameters("")]
    information = np.diag([*(1.0 / np.square(prior_sd)), *[1.0 / _PRIOR_SD**2] * len(columns)])
    for index, block in enumerate(blocks):
        rows = estimate.cluster == index
        extra = [elasticity[c][index] * contrast[c][index] for c in columns]
        design = np.column_stack([estimate.jacobian[rows], *extra])
        worth = ROWS_WORTH * block.weight / rows.sum()
        noise = max(float(np.std(np.clip(estimate.left_out[rows], -1, 1))), 0.05) ** 2
        # A random effect per GPU takes away what a common factor of its rows would explain.
        total = design.sum(axis=0) * worth
        shrink = _GPU_SD**2 / (noise + worth * rows.sum() * _GPU_SD**2)
        information += (worth * design.T @ design - shrink * np.outer(total, total)) / noise
    covariance: Array = np.linalg.inv(information)[p:, p:]
    return covariance
