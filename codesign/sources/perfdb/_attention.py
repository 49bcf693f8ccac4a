"""Time of an attention call from the measured ones around it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd

from codesign.hardware.model import BYTES_PER_ELEMENT
from codesign.sources.perfdb._curve import (
    Answer,
    Curve,
    Floats,
    OutOfRangeError,
    bracket,
    log_mix,
    span,
)
from codesign.workload.accounting import attention_bytes, attention_flops, attention_pairs

_FAR = 3.0
"""Largest distance, in doublings of the head counts, of a stand-in configuration."""
Config = tuple[int, int, int, int, int, str, str]
"""heads, kv_heads, head_dim, head_dim_v, window (0: none), precision, kv_precision."""


@dataclass(frozen=True)
class AttentionTable:
    """Measured attention: for each configuration and batch, a curve over kv_len."""

    decode: bool
    configs: dict[Config, dict[int, Curve]]
    floor_s: float
    flops_per_s: float
    bytes_per_s: float
    source: str

    @classmethod
    def of(cls, rows: pd.DataFrame, source: str) -> AttentionTable:
        """Index of one table's rows (all decode, or all prefill)."""
        rows = rows.assign(window=_column(rows, "window"), head_dim_v=_head_dim_v(rows))
        keys = ["heads", "kv_heads", "head_dim", "head_dim_v", "window", "precision",
                "kv_precision"]  # fmt: skip
        lengths, times_s = (rows[c].to_numpy(dtype=float) for c in ("kv_len", "time_s"))
        configs: dict[Config, dict[int, Curve]] = {}
        # Positions, not sub-tables: there are thousands of groups of a few rows.
        for key, at in rows.groupby([*keys, "batch"], sort=True).indices.items():
            *sizes, precision, kv_precision, batch = (
                str(value) for value in cast("tuple[object, ...]", key)
            )
            heads, kv_heads, dim, dim_v, window = (int(value) for value in sizes)
            config = (heads, kv_heads, dim, dim_v, window, precision, kv_precision)
            # Of several kernels that were measured, the one that an autotuner would take.
            curve = Curve.of(lengths[at], times_s[at], np.min)
            configs.setdefault(config, {})[int(batch)] = curve
        decode = bool((rows["q_len"] < rows["kv_len"]).any())
        flops_per_s, bytes_per_s = _best_rates(configs, decode)
        return cls(decode, configs, float(times_s.min()), flops_per_s, bytes_per_s, source)

    def speed_of_light_s(self, config: Config, batch: float, length: float) -> float:
        """Time at the best rates reached in the table."""
        flops, size = _work(config, np.asarray(batch), np.asarray(length), self.decode)
        return self.floor_s + max(float(flops) / self.flops_per_s, float(size) / self.bytes_per_s)

    def time(self, config: Config, batch: int, length: int) -> Answer:
        """Time at ``batch`` sequences of ``length`` keys (and, in prefill, as many queries).

        Interpolated over batch and length by utilization. Head counts that were not
        measured take the utilization of the nearest ones with the same head size.
        Raises OutOfRangeError outside the measured batches and lengths.
        """
        near = self._nearest(config)
        curves = self.configs[near]
        batches = np.array(sorted(curves), dtype=float)
        exact = batch in curves and curves[batch].exact(length)
        source = self.source
        if near != config:
            source += f", utilization of heads={near[0]} kv_heads={near[1]} {near[5]}/{near[6]}"
        parts = []
        reached = False
        for near_batch, weight in bracket(batches, batch):
            curve = curves[int(near_batch)]
            reached = reached or curve.covers(length)
            near_length = min(max(length, curve.x[0]), curve.x[-1])
            ideal = self.speed_of_light_s(near, near_batch, near_length)
            parts.append((ideal / curve.at(near_length), weight))
        estimate = self.speed_of_light_s(config, batch, length) / log_mix(
            [p for p in parts if p[1] > 0]
        )
        # Long lengths at large batches exceed memory, so the measured region is a staircase:
        # a point is inside if the neighbour with fewer sequences covers its length.
        if not (batches[0] <= batch <= batches[-1] and reached):
            lengths = curves[int(bracket(batches, batch)[0][0])].x
            raise OutOfRangeError(
                f"batch = {batch} (measured {span(batches)}), kv_len = {length} "
                f"(measured {span(lengths)} at the nearest batch)", estimate,
            )  # fmt: skip
        evidence = "measured" if exact and near == config else "interpolated"
        return Answer(curves[batch].at(length) if evidence == "measured" else estimate,
                      evidence, source)  # fmt: skip

    def _nearest(self, config: Config) -> Config:
        if config in self.configs:
            return config

        def distance(other: Config) -> float:
            if other[2:4] != config[2:4] or other[4] != config[4]:
                return math.inf
            ratio = math.log2((other[0] / other[1]) / (config[0] / config[1]))
            precision = 0.0 if other[5:] == config[5:] else 1.0 + (other[5] != config[5])
            return abs(math.log2(other[0] / config[0])) + abs(ratio) + precision

        best = min(self.configs, key=lambda other: (distance(other), other))
        if distance(best) > _FAR:
            raise OutOfRangeError(
                f"no measured heads near heads={config[0]} kv_heads={config[1]} "
                f"head_dim={config[2]} window={config[4]} {config[5]}/{config[6]}", math.nan,
            )  # fmt: skip
        return best


def _best_rates(configs: dict[Config, dict[int, Curve]], decode: bool) -> tuple[float, float]:
    """FLOP/s and bytes/s of the best calls, among the two longest of each batch."""
    best = [(1.0, 1.0)]
    for config, curves in configs.items():
        batch = np.concatenate([np.full(len(c.x[-2:]), float(n)) for n, c in curves.items()])
        length, time_s = (
            np.concatenate([of[-2:] for of in column])
            for column in zip(*((c.x, c.time_s) for c in curves.values()), strict=True)
        )
        flops, size = _work(config, batch, length, decode)
        best.append((float(np.max(flops / time_s)), float(np.max(size / time_s))))
    return max(f for f, _ in best), max(b for _, b in best)


def _work(config: Config, batch: Floats, length: Floats, decode: bool) -> tuple[Floats, Floats]:
    heads, kv_heads, dim, dim_v = (np.asarray(float(size)) for size in config[:4])
    window, precision, kv_precision = config[4:]
    q_len = np.ones_like(length) if decode else length
    limit = float(window) if window else math.inf
    pairs = attention_pairs(q_len, length, True, limit)
    size = attention_bytes(
        q_len=q_len, kv_read=np.minimum(length, limit + q_len - 1), heads=heads,
        kv_heads=kv_heads, head_dim=dim, head_dim_v=dim_v,
        io_bytes=np.asarray(max(BYTES_PER_ELEMENT[precision], 2.0)),
        kv_bytes=np.asarray(BYTES_PER_ELEMENT[kv_precision]), batch=batch,
        shared_latent=float(decode and dim_v < dim),
    )  # fmt: skip
    return attention_flops(pairs, heads, dim, dim_v, batch), size


def pairs_ratio(q_len: int, kv_len: int, causal: bool, window: int) -> float:
    """Query-key pairs of a call / those of a causal call with kv_len queries."""
    limit = float(window) if window else math.inf
    whole = attention_pairs(kv_len, kv_len, True, limit)
    return float(attention_pairs(q_len, kv_len, causal, limit) / whole)


def _column(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[name].fillna(0).astype("int64") if name in rows else pd.Series(0, index=rows.index)


def _head_dim_v(rows: pd.DataFrame) -> pd.Series:
    return rows["head_dim_v"] if "head_dim_v" in rows else rows["head_dim"]
