"""Collectives: latency of steps, the switch of protocols, and bytes over each fabric.

    time = launch + steps + pipeline + p-norm(NVLink and SMs, scale-out)

Latency grows with the ranks as rings do for few and trees for many; where every rank writes to
every other at once (all_to_all, dispatch, combine, custom all_reduce) only with their log2.
What ranks need to find each other, and a step, cross links and switches, which do not run at the
SM clock: floors are no lower where it is higher (L40S at 2.5 GHz lies above H100 at 2.0).
Between the latency-bound and the bandwidth-bound size NCCL changes protocol (LL, LL128, Simple)
and chunk size; the best pipeline of chunks over a link costs sqrt(latency x bytes / bandwidth),
which is that middle. Inside a domain with reducing switches (NVLS) all_reduce sends each byte
about once. An exchange's SMs copy what a rank keeps as well as what it sends. How many ranks
stay inside is computed from the system's ``nvlink_domain``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codesign.sensitivity.collective_volume import (
    KIND_INDEX,
    PER_EXPERT,
    PER_RANK,
    PER_SLOT,
    copies_sent,
    inside_bytes,
    outside_bytes,
    span_in_domain,
)
from codesign.sensitivity.hardware_arrays import Array, HardwareArrays
from codesign.sensitivity.op_model import (
    Features,
    OpModel,
    Parameter,
    Terms,
    numbers,
    p_norm,
    strings,
)

HOST_BRIDGE_BELOW_BYTES_PER_S = 100e9
"""A "scale-up" link slower than this is PCIe: its kernels share a host bridge."""
DEFAULT_COMM_SMS = 24.0
"""SMs that DeepEP's normal kernels take where a row does not say (its default)."""
FABRIC_OVERLAP_P = 1.25
"""Assumed p of the norm over the time inside and between domains; 1 is one after the other."""
_LIBRARY_OF_TABLE = (
    ("custom_allreduce", "custom"), ("trtllm_alltoall", "slots"), ("moe_a2a", "a2a"),
    ("deepep_ll", "low_latency"), ("deepep_normal", "normal"), ("nccl", ""),
)  # fmt: skip
"""Kernel family by table, whose name stands in ``name`` or ``source`` of a measured row."""
_EXCHANGES = ("dispatch", "combine")
_CUSTOM = ("custom", "eager")

_PARAMETERS = (
    Parameter("launches", 1.0, 0.8, 10.0, "smallest-kernel times that the op costs", prior_sd=0.2),
    Parameter("overhead_s", 3e-6, 1e-7, 2e-4, "fixed time of ranks that find each other"),
    Parameter("step_s", 1.5e-6, 1e-8, 2e-5, "step between ranks of a domain"),
    Parameter("pipeline_s", 3e-6, 1e-9, 1e-4, "latency of a chunk: the protocol switch"),
    Parameter("efficiency", 0.8, 0.2, 1.0, "share of the link rate, many ranks"),
    Parameter("pair_loss", 0.5, 0.0, 1.2, "loss of efficiency per 1 / ranks", log=False,
              prior_sd=0.5),
    Parameter("switch_efficiency", 0.6, 0.2, 1.0, "share of the link rate, in-switch reduction",
              prior_sd=0.3),
    Parameter("bridge_efficiency", 0.6, 0.05, 1.0, "share of the link rate, two GPUs on PCIe"),
    Parameter("bridge_contention", 0.2, 0.001, 5.0, "slowdown per further GPU on PCIe"),
    Parameter("sm_bytes_per_clock", 12.0, 1.0, 256.0, "bytes that a communication SM moves"),
    # Across domains only the DeepEP tables measured anything. For the rest this is an
    # assumption: NCCL reaches 85 to 92 % of NIC line rate (nccl-tests, HGX H100 with 400 Gb/s),
    # its tuning table gives 14 us for a network step of the Simple protocol, 2.7 us of LL.
    Parameter("scaleout_efficiency", 0.88, 0.3, 1.0, "share of the NIC rate between domains "
              "(assumed unless measured)", prior_sd=0.06),
    Parameter("scaleout_step_s", 8e-6, 1e-6, 5e-5, "latency of a step between domains "
              "(assumed unless measured)", prior_sd=0.4),
)  # fmt: skip
_EFFECTS: Mapping[str, Mapping[str, float]] = {
    "latency": {"overhead_s": 1.0, "step_s": 1.0, "pipeline_s": 1.0},
    # The middle, sqrt(latency x bytes / bandwidth), moves by half of either.
    "bandwidth": {"efficiency": -1.0, "switch_efficiency": -1.0, "bridge_efficiency": -1.0,
                  "sm_bytes_per_clock": -1.0, "pipeline_s": 1.0},
}  # fmt: skip
"""Links of a generation have their own latency, and their own share of the wire: measured
floors rise by half from Hopper to Blackwell and fell by as much from Ampere to Hopper."""
ASSUMED = ("scaleout_efficiency", "scaleout_step_s")
"""Parameters that only the DeepEP variants measure; elsewhere prior and width are assumptions."""


class CollectiveModel(OpModel):
    """Any collective of the contract. See the module for the form."""

    name: ClassVar[str] = "collective"
    op_classes: ClassVar[tuple[str, ...]] = ("collective",)
    reads: ClassVar[frozenset[str]] = frozenset({
        "architectures", "nvlink_bandwidth_bytes_per_s", "nvlink_domain", "in_switch_reduction",
        "scaleout_bandwidth_bytes_per_s", "launch_latency_s", "boost_clock_hz",
    })  # fmt: skip

    def applies(self, ops: pd.DataFrame) -> NDArray[np.bool_]:
        """Rows with a known kind, message and group."""
        known = (numbers(ops, "message_bytes") > 0) & (numbers(ops, "group_size") >= 1)
        kind = np.isin(strings(ops, "collective"), list(KIND_INDEX))
        row: NDArray[np.bool_] = (strings(ops, "op_class") == "collective") & kind & known
        return row & (numbers(ops, "count") > 0)

    def variant(self, ops: pd.DataFrame) -> NDArray[np.str_]:
        """Kind, and the library where several were measured: their floors differ."""
        kind, library = strings(ops, "collective"), _library(ops)
        joined = np.char.add(np.char.add(kind, "_"), library)
        return np.where(library == "", kind, joined)

    def fallbacks(self, variant: str) -> tuple[str, ...]:
        """The same kind of another library, then the nearest pattern of traffic."""
        kind = next((k for k in KIND_INDEX if variant.startswith(k)), variant)
        same = tuple(f"{kind}_{lib}" for lib in ("normal", "low_latency", "slots", "a2a"))
        near = {"combine": "dispatch", "dispatch": "combine"}.get(kind)
        other = tuple(f"{near}_{lib}" for lib in ("normal", "low_latency")) if near else ()
        first = tuple(f"{kind}_{lib}" for lib in _CUSTOM if variant.endswith(_CUSTOM))
        order = (*first, kind, *same, *other, "all_to_all", "all_gather", "all_reduce")
        return tuple(dict.fromkeys(v for v in order if v != variant))

    def parameters(self, variant: str) -> tuple[Parameter, ...]:  # noqa: ARG002
        """The same for every kind."""
        return _PARAMETERS

    def effects(self, variant: str) -> Mapping[str, Mapping[str, float]]:  # noqa: ARG002
        """Latency and bandwidth of a family's links."""
        return _EFFECTS

    def features(self, ops: pd.DataFrame) -> Features:
        """Kind, bytes, ranks, stride and communication SMs of one call."""
        kind = strings(ops, "collective")
        library = _library(ops)
        policy = np.select(
            [library == "low_latency", library == "slots"], [PER_EXPERT, PER_SLOT], PER_RANK
        )
        exchange = np.isin(kind, _EXCHANGES)
        return {
            "bytes": numbers(ops, "message_bytes"),
            "kind": np.array([KIND_INDEX[name] for name in kind]),
            "ranks": numbers(ops, "group_size"),
            "stride": np.maximum(numbers(ops, "group_stride", 1.0), 1.0),
            "topk": np.maximum(numbers(ops, "topk", 1.0), 1.0),
            "direct": (exchange | np.isin(library, _CUSTOM) | (kind == "all_to_all")).astype(
                np.float64
            ),
            "policy": np.where(exchange, policy, PER_EXPERT),
            "sms": np.where(exchange & (policy == PER_RANK), _comm_sms(ops), np.inf),
        }

    def terms(self, theta: Array, features: Features, hw: HardwareArrays) -> Terms:
        """Seconds on ``launch``, ``network latency``, ``nvlink``, ``sm`` and ``scaleout``."""
        launches, overhead_s, step_s, pipeline_s, efficiency, pair_loss = theta[:6]
        switch, bridge, contention, per_clock, scale_efficiency, scale_step_s = theta[6:12]
        kind, size, ranks = features["kind"], features["bytes"], features["ranks"]
        span = span_in_domain(ranks, features["stride"], hw.nvlink_domain)
        domains = ranks / span
        forwards = features["policy"] == PER_RANK
        inside_copies = copies_sent(features["policy"], features["topk"], ranks)
        between = np.where(forwards, domains, ranks)
        outside_copies = copies_sent(features["policy"], features["topk"], between)
        sent = inside_bytes(kind, size, ranks, span, inside_copies, forwards)
        crossing = outside_bytes(kind, size, ranks, span, outside_copies)
        link = hw.nvlink_bandwidth_bytes_per_s
        reached = efficiency * (1.0 - np.minimum(pair_loss / np.maximum(span, 2.0), 0.8))
        wire = sent / (link * reached)
        reduced = size * (1.0 + 1.0 / span) / (link * switch)
        reducing = (kind == KIND_INDEX["all_reduce"]) & (hw.in_switch_reduction > 0) & (span > 2.0)
        wire = np.where(reducing, np.minimum(wire, reduced), wire)
        bridged = sent / (link * bridge) * (1.0 + contention * np.maximum(span - 2.0, 0.0))
        wire = np.where(link < HOST_BRIDGE_BELOW_BYTES_PER_S, bridged, wire)
        clock = hw.boost_clock_hz
        copied = size * inside_copies * np.where(span > 1.0, 1.0, 0.0)
        return {
            "launch": launches * hw.launch_latency_s + overhead_s + 0.0 * span,
            "network latency": step_s
            * np.where(features["direct"] > 0, np.log2(span), _steps(span))
            + np.sqrt(pipeline_s * sent / link)
            + scale_step_s * _steps(domains),
            "nvlink": wire,
            "sm": copied / (features["sms"] * per_clock * clock),
            "scaleout": crossing / (hw.scaleout_bandwidth_bytes_per_s * scale_efficiency),
        }

    def combine(self, theta: Array, terms: Terms) -> Array:  # noqa: ARG002
        """Latencies, then the fabrics: phases that overlap only in part.

        With more overlap a larger domain could lose: NICs that worked beside NVLink would
        stand idle in it.
        """
        inside = p_norm(2.5, terms["nvlink"], terms["sm"])
        moved = p_norm(FABRIC_OVERLAP_P, inside, terms["scaleout"])
        return terms["launch"] + terms["network latency"] + moved


def _steps(ranks: Array) -> Array:
    """Steps one after another: a ring's for few ranks, a tree's when that is shorter."""
    result: Array = np.minimum(ranks - 1.0, 3.0 * np.log2(np.maximum(ranks, 1.0)))
    return result


def _library(ops: pd.DataFrame) -> NDArray[np.str_]:
    """Kernel family of a row: that of the table where it was measured, else by phase.

    Serving reduces with the custom kernels of its framework, and decode, which sends few
    tokens, exchanges with low-latency ones; everything else runs NCCL or normal kernels.
    """
    joined = np.char.add(np.char.add(strings(ops, "name"), " "), strings(ops, "source"))
    text = pd.Series(joined, dtype="object")
    kind, phase = strings(ops, "collective"), strings(ops, "phase")
    exchange = np.isin(kind, _EXCHANGES)
    decode = np.isin(phase, ["decode", "rollout"])
    serving = (kind == "all_reduce") & (decode | (phase == "prefill"))
    known = [(text.str.contains(stem, regex=False).to_numpy(dtype=np.bool_), library)
             for stem, library in _LIBRARY_OF_TABLE]  # fmt: skip
    # Started from the host one by one, a custom all_reduce waits for it; graphs do not.
    eager = pd.Series(strings(ops, "kernel"), dtype="object").str.endswith("_eager")
    known.insert(0, (eager.to_numpy(dtype=np.bool_) & (kind == "all_reduce"), "eager"))
    guessed = [(exchange & decode, "low_latency"), (exchange, "normal"), (serving, "custom")]
    conditions, choices = zip(*known, *guessed, strict=True)
    return np.asarray(np.select(conditions, choices, ""), dtype=np.str_)


def _comm_sms(ops: pd.DataFrame) -> Array:
    """SMs given to communication, from kernels named ``... sms=N``; else DeepEP's default."""
    found = pd.Series(strings(ops, "kernel")).str.extract(r"sms=(\d+)", expand=False)
    return np.asarray(pd.to_numeric(found).fillna(DEFAULT_COMM_SMS), dtype=np.float64)
