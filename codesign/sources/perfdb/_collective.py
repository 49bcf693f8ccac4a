"""Time of a collective: from tables where its group was measured, else by a stated formula."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from codesign._common.errors import DataError, UsageError
from codesign.hardware.model import System
from codesign.sources.perfdb._curve import Answer, Curve, OutOfRangeError, log_mix, span
from codesign.sources.perfdb._op import Op
from codesign.sources.perfdb.assumed import (
    PEER_EFFICIENCY,
    SCALEOUT_BASE_LATENCY_S,
    SCALEOUT_EFFICIENCY,
    SCALEOUT_HOP_LATENCY_S,
)
from codesign.workload.accounting import wire_factor

_INFERENCE = ("prefill", "decode", "rollout")
_EXPERT = ("dispatch", "combine")
MAX_SLICES = 8
"""A message larger than the table is the sum of at most this many measured ones."""


@dataclass(frozen=True)
class CollectiveTables:
    """Curves over message bytes of every measured (table, collective, group)."""

    curves: dict[tuple[str, str, int, int], Curve]
    """(table, collective, group size, ranks in a domain) -> time over message bytes."""
    sources: dict[tuple[str, str, int, int], str]
    """Source text of each curve."""
    pooled: frozenset[tuple[str, str, int, int]]
    """Curves whose points are medians over hidden sizes and numbers of experts."""
    topk: dict[str, int]
    """Experts a token that an exchange's curves are of, by table."""

    @classmethod
    def of(cls, tables: dict[str, list[tuple[pd.DataFrame, str]]]) -> CollectiveTables:
        """From {stem: [(rows, source)]}; the first source that measured a group has it."""
        curves, sources, pooled = {}, {}, set()
        topk: dict[str, int] = {}
        parts = [(stem, *some) for stem, found in tables.items() for some in found]
        for stem, rows, source in parts:
            keys = ["collective", "group_size", "domain_span"]
            comparable = _comparable(stem, rows)
            if "topk" in comparable:
                topk.setdefault(stem, int(comparable["topk"].iloc[0]))
            for key, part in comparable.groupby(keys, sort=True):
                kind, group, inside = (str(value) for value in key)
                x, t = (part[c].to_numpy(dtype=float) for c in ("message_bytes", "time_s"))
                name = (stem, kind, int(group), int(inside))
                if name in curves:
                    continue
                curves[name], sources[name] = Curve.of(x, t), source
                if "k" in part and part["k"].nunique() > 1:
                    pooled.add(name)
        return cls(curves, sources, frozenset(pooled), topk)

    def inside(self, kind: str, group: int, size: float, tables: tuple[str, ...]) -> Answer:
        """Time of a collective whose group lies within one domain.

        Group sizes between measured ones are interpolated; larger ones are modelled:
        the largest measured group's time, scaled by the bytes each rank sends, plus
        the latency that its doublings of ranks showed.
        """
        stem = next((s for s in tables if any(c[:2] == (s, kind) for c in self.curves)), None)
        if stem is None:
            raise DataError(f"no measured {kind} in the kernel tables of this GPU")
        groups = {c[2]: curve for c, curve in self.curves.items()
                  if c[:2] == (stem, kind) and c[2] == c[3]}  # fmt: skip
        if group in groups:
            return self._exact_only((stem, kind, group, group), size)
        sizes = sorted(groups)
        if not sizes[0] < group < sizes[-1]:
            near = sizes[0] if group <= sizes[0] else sizes[-1]
            source = self.sources[stem, kind, near, near]
            return self._scaled(groups, group, size, f"{kind}, {source}")
        low = max(g for g in sizes if g < group)
        high = min(g for g in sizes if g > group)
        weight = math.log(group / low) / math.log(high / low)
        parts = [_on_curve(groups[g], size, "").time_s for g in (low, high)]
        time_s = log_mix([(parts[0], 1 - weight), (parts[1], weight)])
        named = dict.fromkeys(self.sources[stem, kind, g, g] for g in (low, high))
        return Answer(time_s, "interpolated", f"{low} and {high} ranks of {', '.join(named)}")

    def _scaled(self, groups: dict[int, Curve], group: int, size: float, what: str) -> Answer:
        few, many = min(groups), max(groups)
        near = few if group < few else many
        doublings = max(math.log2(many / few), 1.0)
        hop_s = max(float(groups[many].time_s[0] - groups[few].time_s[0]) / doublings, 0.0)
        volume = ((group - 1) / group) / ((near - 1) / near)
        curve = groups[near]
        measured_s = curve.beyond(max(size, curve.x[0]), lambda x: x)
        time_s = measured_s * volume + hop_s * max(math.log2(group / near), 0.0)
        source = f"{near} ranks scaled to {group} by bytes sent and log2(ranks): {what}"
        return Answer(time_s, "modelled", source)

    def across(
        self, kind: str, group: int, inside: int, size: float, tables: tuple[str, ...]
    ) -> Answer | None:
        """Time of a measured exchange over several domains, or None if there is none."""
        for stem in tables:
            if (stem, kind, group, inside) in self.curves:
                return self._exact_only((stem, kind, group, inside), size)
        return None

    def _exact_only(self, name: tuple[str, str, int, int], size: float) -> Answer:
        """On one curve; a point pooled over shapes is not a measurement of any of them."""
        answer = _on_curve(self.curves[name], size, self.sources[name])
        if name in self.pooled and answer.evidence == "measured":
            return Answer(answer.time_s, "interpolated", f"{answer.source}, over hidden sizes")
        return answer


def tables_for(op: Op) -> tuple[str, ...]:
    """Tables to look in, best first: serving and training run different kernels."""
    serving = op.text("phase") in _INFERENCE
    if op.text("collective") in _EXPERT:
        # The only sweep inside one large domain comes first; low-latency DeepEP is for decode.
        normal = ("wideep_deepep_normal_perf", "moe_a2a_perf")
        few = op.text("phase") in ("decode", "rollout")
        return ("trtllm_alltoall_perf", *(("wideep_deepep_ll_perf",) if few else ()), *normal)
    return ("custom_allreduce_perf", "nccl_perf") if serving else ("nccl_perf",)


def collective_time(op: Op, tables: CollectiveTables, system: System | None) -> Answer:
    """Time of one collective call.

    ``domain_span`` tells how many of its ranks share a domain. Raises UsageError if
    it leaves the domain and no system says what it meets there.
    """
    kind, group = op.text("collective"), op.size("group_size")
    size = float(op.size("message_bytes"))
    inside = min(op.get("domain_span", group), group)
    if group < 2 or size == 0:
        return Answer(0.0, "modelled", "nothing to send")
    if kind in ("send_recv", "broadcast"):
        return _peer(kind, size, inside >= group, _needed(system, op))
    if inside >= group:
        return _of_topk(tables.inside(kind, group, size, tables_for(op)), op, tables)
    if kind in _EXPERT or kind == "all_to_all":
        found = tables.across(kind, group, inside, size, tables_for(op))
        found = _of_topk(found, op, tables) if found is not None else None
        return found or _exchange(op, tables, inside, _needed(system, op))
    return _hierarchical(op, tables, inside, _needed(system, op))


def _of_topk(answer: Answer, op: Op, tables: CollectiveTables) -> Answer:
    """An exchange measured with another top-k than the op's says so."""
    for stem, topk in tables.topk.items():
        if stem in answer.source and op.get("topk", topk) != topk:
            evidence = "interpolated" if answer.evidence == "measured" else answer.evidence
            return Answer(answer.time_s, evidence, f"by bytes from top-{topk}: {answer.source}")
    return answer


def _needed(system: System | None, op: Op) -> System:
    if system is None:
        raise UsageError(f"{op.label}: it leaves the measured domain; pass a system")
    return system


def _network_s(sent_bytes: float, ranks: float, system: System) -> float:
    rate = system.scaleout_bandwidth_bytes_per_s * SCALEOUT_EFFICIENCY.value
    hops = math.log2(max(ranks, 2.0))
    latency = SCALEOUT_BASE_LATENCY_S.value + SCALEOUT_HOP_LATENCY_S.value * hops
    return sent_bytes / rate + latency


def _peer(kind: str, size: float, near: bool, system: System) -> Answer:
    if not near:
        where = f"{SCALEOUT_EFFICIENCY.value:g} of the scale-out rate"
        return Answer(_network_s(size, 2, system), "assumed", f"{kind} at {where} plus latency")
    rate = system.nvlink_bandwidth_bytes_per_s * PEER_EFFICIENCY.value
    time_s = size / rate + system.launch_latency_s
    where = f"{PEER_EFFICIENCY.value:g} of the NVLink rate"
    return Answer(time_s, "assumed", f"{kind} at {where} plus launch latency")


def _exchange(op: Op, tables: CollectiveTables, inside: int, system: System) -> Answer:
    """All-to-all beyond the domain: the part that leaves is sent while the rest is exchanged.

    Dispatch sends a token once to each domain that it needs (DeepEP forwards it there
    over NVLink), combine returns one sum from each.
    """
    kind, group = op.text("collective"), op.size("group_size")
    size = float(op.size("message_bytes"))
    domains = group / inside
    leaving = size * (group - inside) / group
    if kind in _EXPERT:
        topk = op.get("topk", 1)
        met = domains * (1 - (1 - 1 / domains) ** topk)
        leaving = size * met * (domains - 1) / domains / topk
    network_s = _network_s(leaving, domains, system)
    local_s = 0.0
    if inside > 1:
        local_s = _local(op, tables, kind, inside, size)
    source = (f"slower of {leaving:.4g} B over the scale-out network at "
              f"{SCALEOUT_EFFICIENCY.value:g} of its rate plus latency, and the exchange "
              f"inside {inside} ranks")  # fmt: skip
    return Answer(max(network_s, local_s), "assumed", source)


def _hierarchical(op: Op, tables: CollectiveTables, inside: int, system: System) -> Answer:
    """Inside each domain first and last, across domains on 1/inside of the message."""
    kind, group = op.text("collective"), op.size("group_size")
    size = float(op.size("message_bytes"))
    domains = group / inside
    sent = float(wire_factor(kind, domains)) * size / inside
    time_s = _network_s(sent, domains, system)
    steps = []
    if inside > 1:
        steps = ["reduce_scatter", "all_gather"] if kind == "all_reduce" else [kind]
        time_s += sum(_local(op, tables, step, inside, size) for step in steps)
    local = f", after {' and '.join(steps)} inside {inside} ranks" if steps else ""
    source = (f"{sent:.4g} B over the scale-out network at {SCALEOUT_EFFICIENCY.value:g} of its "
              f"rate plus latency{local}")  # fmt: skip
    return Answer(time_s, "assumed", source)


def _local(op: Op, tables: CollectiveTables, kind: str, inside: int, size: float) -> float:
    """The stage inside a domain; a message beyond the tables moves at the largest one's rate."""
    names = tables_for(op)
    try:
        return tables.inside(kind, inside, size, names).time_s
    except OutOfRangeError as outside:
        return outside.estimate_s


def _on_curve(curve: Curve, size: float, source: str) -> Answer:
    if curve.covers(size):
        evidence = "measured" if curve.exact(size) else "interpolated"
        return Answer(curve.at(size), evidence, source)
    if size < curve.x[0]:
        # Fewer bytes than the smallest message: all of its time is latency.
        latency = f"latency of the smallest message: {source}"
        return Answer(float(curve.time_s[0]), "modelled", latency)
    slices = math.ceil(size / curve.x[-1])
    if slices > MAX_SLICES:
        what = f"message_bytes = {size:g} (measured {span(curve.x)})"
        raise OutOfRangeError(what, curve.beyond(size, lambda x: x))
    part = f"{slices} x {size / slices:.4g} B: {source}"
    return Answer(slices * curve.at(size / slices), "modelled", part)


def _comparable(stem: str, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that one curve over bytes can hold.

    NCCL: two-byte elements, since sums of int8 take other paths. DeepEP: its default
    of 20 SMs. Custom all_reduce: as CUDA graphs launch it, which serving does. Exchanges: the
    commonest top-k; kernels differ by hidden size and number of experts far less than by
    bytes, so those are pooled.
    """
    if stem == "nccl_perf":
        return rows[rows["precision"] == "bf16"]
    if stem == "custom_allreduce_perf":
        graphs = np.asarray(rows["kernel"].str.endswith("_graph"), dtype=bool)
        return rows[graphs] if graphs.any() else rows
    if stem == "wideep_deepep_normal_perf":
        rows = rows[np.asarray(rows["kernel"].str.endswith("sms=20"), dtype=bool)]
    if "topk" in rows:
        rows = rows[rows["topk"] == rows["topk"].mode().iloc[0]]
    return rows
