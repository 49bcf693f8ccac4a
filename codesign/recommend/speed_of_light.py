"""From the ideal step to the measured one: what each resource and op class adds.

Three steps are compared, under one and the same overlap. At the *datasheet bound* every op
runs at the dense peak, HBM or link bandwidth that binds it. At the *attainable bound* it takes
the time that the fitted model gives kernels of its kind, or its own where that is shorter. The
third is the step itself. Differences are taken op by op in exposed seconds, so they add up to
the step; one below zero is communication that shorter compute no longer hides, or an op that
beats its datasheet bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codesign.hardware.rates import rate_of
from codesign.projection.step import scale_step, step_of
from codesign.recommend.schema import Gap, GapRow
from codesign.recommend.software.look import Look
from codesign.sensitivity.collective_volume import (
    KIND_INDEX,
    PER_RANK,
    copies_sent,
    outside_bytes,
    span_in_domain,
)

if TYPE_CHECKING:
    import pandas as pd

    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]

UNKNOWN = "unknown work"
"""Key of ops whose work is not known, so that no bound is."""
BEATS = 0.999
"""Time / datasheet bound under which an op counts as faster than its bound."""


def gap(char: Characterization, base: System, model: Any) -> Gap:
    """The step on ``base`` from its datasheet bound over the attainable one to the measured.

    ``model`` is a `sensitivity.SensitivityModel`; where it has no say on an op, its own time
    counts as attainable. Of an op of unknown work no gap is claimed at all.
    """
    step = step_of(char)
    terms = op_terms(char, base)
    bound = _largest(terms)
    modelled = Look(char, base, model).modelled(char.ops)
    attained = attainable(step.time_s, bound, modelled)
    at_bound = scale_step(step, _ratio(bound, step.time_s)).exposed_s
    at_attainable = scale_step(step, _ratio(attained, step.time_s)).exposed_s
    stages = np.stack([at_bound, at_attainable, step.exposed_s])
    share = step.exposed_s / (step.step_time_s or 1.0)
    unseen = ~np.isnan(bound) if modelled is None else ~np.isnan(bound) & np.isnan(modelled)
    with np.errstate(invalid="ignore"):
        beats = step.time_s < BEATS * bound
    return Gap(
        bound_s=float(at_bound.sum()), attainable_s=float(at_attainable.sum()),
        step_time_s=step.step_time_s, bubble_s=step.bubble_s, idle_s=step.fixed_idle_s,
        by_class=_rows(char.ops["op_class"].to_numpy(dtype=object), stages),
        by_resource=_rows(binding(terms), stages),
        unknown_share=float(share[np.isnan(bound)].sum()),
        unmodelled_share=float(share[unseen].sum()), beats_bound_share=float(share[beats].sum()),
    )  # fmt: skip


def attainable(time_s: Array, bound_s: Array, modelled_s: Array | None) -> Array:
    """(ops,) seconds per step at best: the model's or its own, but never under the bound."""
    best = time_s if modelled_s is None else np.fmin(time_s, modelled_s)
    return np.where(np.isnan(bound_s), time_s, np.fmax(best, bound_s))


def speed_of_light(char: Characterization, base: System) -> float:
    """Step time if every op ran at the datasheet peak that binds it, in seconds.

    The same overlap holds, with no idle time and no bubble. An op whose work is
    unknown counts with its own time: no gap is claimed for it.
    """
    step = step_of(char)
    return float(scale_step(step, _ratio(op_bounds(char, base), step.time_s)).exposed_s.sum())


def op_bounds(char: Characterization, base: System) -> Array:
    """(ops,) seconds per step at dense peaks, HBM and link bandwidth; NaN if unknown."""
    return _largest(op_terms(char, base))


def op_terms(char: Characterization, base: System) -> dict[str, Array]:
    """Resource -> (ops,) seconds per step that its datasheet rate alone asks for; NaN if unknown.

    Work of no bytes or FLOPs is unknown, too, where nothing else of the op is known.
    """
    ops, gpu = char.ops, base.gpu
    peaks = np.array([rate_of(gpu, p)[1] for p in ops["precision"].fillna("bf16")])
    stride = np.fmax(_numbers(ops["group_stride"]), 1.0)
    inside = np.fmax(_numbers(ops["domain_span"]), base.nvlink_domain // stride) > 1
    wire = _numbers(ops["wire_bytes"])
    if base.in_switch_reduction:
        # The switch reduces: each rank sends its message once, not nearly twice.
        once = _numbers(ops["message_bytes"]) * _numbers(ops["count"])
        reduces = ops["collective"].eq("all_reduce").fillna(False).to_numpy(dtype=bool)
        wire = np.where(reduces, np.fmin(wire, once), wire)
    leaving = np.where(inside, _leaving(ops, base.nvlink_domain), wire)
    return {
        "tensor": _numbers(ops["flops"]) / peaks,
        "hbm": _numbers(ops["bytes"]) / gpu.hbm_bandwidth_bytes_per_s,
        # Of a group that spans domains, NVLink carries what does not leave.
        "nvlink": np.where(inside, wire - np.nan_to_num(leaving), np.nan)
        / base.nvlink_bandwidth_bytes_per_s,
        "scaleout": leaving / base.scaleout_bandwidth_bytes_per_s,
    }


def _leaving(ops: pd.DataFrame, nvlink_domain: int) -> Array:
    """(ops,) least bytes a step that a rank sends to other domains; NaN where none has to.

    Reduced and gathered messages cross once for each index inside a domain; a token goes once
    to each domain that holds any of its experts, these drawn evenly. Routing that is limited
    to fewer domains sends less.
    """
    size, count = _numbers(ops["message_bytes"]), _numbers(ops["count"])
    group = _numbers(ops["group_size"])
    stride = np.fmax(_numbers(ops["group_stride"]), 1.0)
    span = span_in_domain(group, stride, np.full(len(ops), float(nvlink_domain)))
    kind = np.array([KIND_INDEX.get(k, np.nan) for k in ops["collective"].fillna("")])
    domains = group / span
    topk = np.fmax(_numbers(ops["topk"]), 1.0)
    routed = ops["collective"].isin(("dispatch", "combine")).to_numpy(dtype=bool)
    copies = np.where(routed, copies_sent(np.full(len(ops), PER_RANK), topk, domains), 1.0)
    sent = outside_bytes(kind, size, group, span, copies) * count
    return np.where(sent > 0, sent, np.nan)


def binding(terms: Mapping[str, Array]) -> NDArray[np.object_]:
    """(ops,) the resource of the largest term; `UNKNOWN` where there is none."""
    names = np.array([*terms, UNKNOWN], dtype=object)
    values = np.stack([*terms.values()])
    place = np.where(np.isnan(values), -np.inf, values).argmax(axis=0)
    return np.asarray(names[np.where(np.isnan(values).all(axis=0), len(terms), place)])


def _rows(keys: NDArray[np.object_], stages: Array) -> tuple[GapRow, ...]:
    """``stages`` (3, ops) summed by key, the largest measured time first."""
    found = [GapRow(str(key), *stages[:, keys == key].sum(axis=1).tolist()) for key in set(keys)]
    return tuple(sorted((r for r in found if any((r.bound_s, r.attainable_s, r.time_s))),
                        key=lambda r: (-r.time_s, r.key)))  # fmt: skip


def _ratio(time_s: Array, own_s: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(own_s > 0, time_s / own_s, 1.0)
    return np.where(np.isfinite(ratio), ratio, 1.0)


def _largest(terms: Mapping[str, Array]) -> Array:
    return np.asarray(np.fmax.reduce(np.stack([*terms.values()]), axis=0))


def _numbers(column: Any) -> Array:
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
