"""A kernel database in memory: times made by a model with known parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from codesign._common.errors import UsageError
from codesign.hardware import system_of_gpu
from codesign.hardware.model import System
from codesign.sensitivity.gemm import TILE_PARAMETERS, GemmModel
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.workload.schema import ops_frame

GPUS = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm")


def gemm_ops(rows: int = 300, seed: int = 1, precision: str = "bf16") -> pd.DataFrame:
    """Random GEMM shapes over the range of real tables."""
    rng = np.random.default_rng(seed)
    sizes = 2 ** rng.integers(0, 14, rows)
    return ops_frame(pd.DataFrame({
        "op_class": "gemm", "name": "gemm", "precision": precision, "count": 1.0,
        "m": sizes, "n": 2 ** rng.integers(7, 14, rows), "k": 2 ** rng.integers(7, 14, rows),
        "evidence": "measured",
    }))  # fmt: skip


class FakeDB:
    """Bf16 GEMM times from `GemmModel` at ``truth``, with noise and a bias per GPU."""

    name = "fake"

    def __init__(
        self,
        noise: float = 0.03,
        bias: dict[str, float] | None = None,
        launch_latency_s: float | None = None,
    ) -> None:
        self.launch_latency_s = launch_latency_s
        self.truth = {p.name: p.initial for p in TILE_PARAMETERS} | {"tensor_efficiency": 0.8}
        self.noise = noise
        self.bias = bias or {}
        self.asked: list[str] = []

    def gpus(self) -> list[str]:
        return list(GPUS)

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        self.asked.append(gpu)
        if op_class != "gemm":
            raise UsageError("no such table")
        ops = gemm_ops()
        ops["time_s"] = self.times(ops, gpu)
        return ops

    def system(self, gpu: str) -> System:
        """The hardware behind a GPU's times; ``launch_latency_s`` overrides its own."""
        own = system_of_gpu(gpu)
        if self.launch_latency_s is None:
            return own
        return replace(own, launch_latency_s=self.launch_latency_s)

    def times(self, ops: pd.DataFrame, gpu: str) -> np.ndarray:
        model = GemmModel()
        hw = hardware_arrays([self.system(gpu)])
        exact = model.times(np.array(list(self.truth.values())), model.features(ops), hw)[0]
        rng = np.random.default_rng(len(gpu))
        return exact * np.exp(self.bias.get(gpu, 0.0) + self.noise * rng.standard_normal(len(ops)))
