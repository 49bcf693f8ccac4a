"""A model small enough to work out by hand, and the hardware and ops that it knows.

compute:    count x (max(flops / peak, bytes / HBM bandwidth) + launch)
collective: count x (wire / link + launch), wire split by the NVLink domain
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from codesign.hardware.model import Gpu, System
from codesign.sensitivity import LeakageError
from codesign.workload.characterization import Characterization, Header
from codesign.workload.schema import ops_frame

PEAK = 1e15
HBM = 1e12
LINK = 1e11
LAUNCH = 1e-6


def system(**changes: Any) -> System:
    """1 PFLOP/s bf16, 2 PFLOP/s fp8, 1 TB/s, links of 100 GB/s, 1 us a launch."""
    gpu = Gpu(
        name="toy", vendor="acme", architecture="toy", sm_count=100, tensor_clock_hz=1e9,
        boost_clock_hz=1e9, peak_dense_flops_per_s={"bf16": PEAK, "fp8": 2 * PEAK},
        hbm_capacity_bytes=80e9, hbm_bandwidth_bytes_per_s=HBM, l2_capacity_bytes=50e6,
        nvlink_bandwidth_bytes_per_s=LINK, power_w=700.0,
    )  # fmt: skip
    base = System(
        name="toy-8", gpu=gpu, nvlink_domain=8, nvlink_bandwidth_bytes_per_s=LINK,
        scaleout_bandwidth_bytes_per_s=LINK / 10, launch_latency_s=LAUNCH, base="toy-8",
    )  # fmt: skip
    return replace(base, **changes)


def lever(base: System, name: str, factor: float) -> System:
    """``base`` with one quantity multiplied."""
    gpu = base.gpu
    levers = (*base.levers, (name, factor))
    if name == "hbm_bandwidth":
        value = gpu.hbm_bandwidth_bytes_per_s * factor
        return replace(base, gpu=replace(gpu, hbm_bandwidth_bytes_per_s=value), levers=levers)
    if name in ("bf16_throughput", "fp8_throughput"):
        key = name.split("_", maxsplit=1)[0]
        peaks = dict(gpu.peak_dense_flops_per_s) | {key: gpu.peak_dense_flops_per_s[key] * factor}
        return replace(base, gpu=replace(gpu, peak_dense_flops_per_s=peaks), levers=levers)
    if name == "nvlink_bandwidth":
        value = base.nvlink_bandwidth_bytes_per_s * factor
        return replace(base, nvlink_bandwidth_bytes_per_s=value, levers=levers)
    if name == "launch_latency":
        return replace(base, launch_latency_s=base.launch_latency_s * factor, levers=levers)
    if name == "hbm_capacity":
        value = gpu.hbm_capacity_bytes * factor
        return replace(base, gpu=replace(gpu, hbm_capacity_bytes=value), levers=levers)
    raise AssertionError(name)


@dataclass(frozen=True)
class FakeDraws:
    """Efficiencies: peak and HBM rates are multiplied by them."""

    peak: np.ndarray
    hbm: np.ndarray
    n: int = 1
    seed: int = 0


class FakeModel:
    """See the module."""

    trained_on = ("toy",)

    def draws(self, n: int, seed: int) -> FakeDraws:
        rng = np.random.default_rng(seed)
        return FakeDraws(np.exp(rng.normal(0, 0.1, n)), np.exp(rng.normal(0, 0.1, n)), n, seed)

    def times(self, ops: pd.DataFrame, systems: Any, draws: FakeDraws | None = None) -> np.ndarray:
        one = FakeDraws(np.ones(1), np.ones(1)) if draws is None else draws
        terms = [self._terms(ops, s) for s in systems]
        tensor = np.stack([t["tensor"] for t in terms])
        hbm = np.stack([t["hbm"] for t in terms])
        rest = np.stack([t["nvlink"] + t["launch"] for t in terms])
        peak, rate = one.peak[:, None, None], one.hbm[:, None, None]
        result = np.maximum(tensor / peak, hbm / rate) + rest
        return result[0] if draws is None else result

    def binding(self, ops: pd.DataFrame, system: System) -> np.ndarray:
        terms = self._terms(ops, system)
        names = np.array(list(terms))
        return names[np.stack(list(terms.values())).argmax(axis=0)]

    def covered(self, ops: pd.DataFrame) -> np.ndarray:
        """All but what no tool could name."""
        return ops["op_class"].ne("other").to_numpy(dtype=bool)

    def predict(
        self, ops: pd.DataFrame, system: System, source: System | None = None,
        in_sample: bool = False,
    ) -> pd.DataFrame:  # fmt: skip
        """Whole carry-over, and +-10 % (90 %) on each op."""
        if system.gpu.name in self.trained_on and not in_sample:
            raise LeakageError(f"the model was fitted on {system.gpu.name}")
        assert source is not None
        there, here = self.times(ops, [system, source])
        time = ops["time_s"].to_numpy(dtype=float) * there / here
        return pd.DataFrame({"time_s": time, "time_lo_s": time / 1.1, "time_hi_s": time * 1.1})

    def _terms(self, ops: pd.DataFrame, system: System) -> dict[str, np.ndarray]:
        def column(name: str) -> np.ndarray:
            return ops[name].to_numpy(dtype=float, na_value=0.0)

        comm = ops["op_class"].eq("collective").to_numpy(dtype=bool)
        peaks = np.array(
            [
                system.gpu.peak_flops_per_s(p) if isinstance(p, str) else PEAK
                for p in ops["precision"]
            ]
        )
        return {
            "tensor": np.where(comm, 0.0, column("flops") / peaks),
            "hbm": np.where(comm, 0.0, column("bytes") / system.gpu.hbm_bandwidth_bytes_per_s),
            "nvlink": column("wire_bytes") / system.nvlink_bandwidth_bytes_per_s,
            "launch": column("count") * system.launch_latency_s,
        }


def characterization(rows: list[dict[str, Any]], **header: Any) -> Characterization:
    """A characterization from rows; exposed, count and evidence have defaults."""
    filled = []
    for row in rows:
        full = {"count": 1.0, "evidence": "measured", "phase": "forward", **row}
        full.setdefault("exposed_s", full["time_s"])
        filled.append(full)
    ops = ops_frame(filled)
    idle = header.setdefault("idle_s", 0.0)
    total = float(ops["exposed_s"].sum()) + idle
    head = Header(workload=header.pop("workload", "w"), system=header.pop("system", "toy-8"),
                  step_time_s=total, **header)  # fmt: skip
    return Characterization(head, ops)


def gemm(time_s: float, flops: float, bytes_: float, **more: Any) -> dict[str, Any]:
    """A GEMM row."""
    return {"op_class": "gemm", "name": "mlp", "precision": "bf16", "time_s": time_s,
            "flops": flops, "bytes": bytes_, **more}  # fmt: skip


def collective(time_s: float, wire_bytes: float, **more: Any) -> dict[str, Any]:
    """A collective row."""
    return {"op_class": "collective", "name": "tp.all_reduce", "precision": "bf16",
            "collective": "all_reduce", "group_size": 8, "message_bytes": int(wire_bytes),
            "time_s": time_s, "wire_bytes": wire_bytes, **more}  # fmt: skip
