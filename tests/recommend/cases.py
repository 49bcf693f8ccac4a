"""A toy portfolio on the toy system of the projection tests, small enough to do by hand."""

from __future__ import annotations

from typing import Any

from codesign.recommend.build import recommend
from codesign.recommend.portfolio import Portfolio, WorkloadEntry
from codesign.recommend.schema import Recommendations
from codesign.sensitivity import Identification
from codesign.workload.characterization import Characterization
from tests.projection.fakes import FakeModel, characterization, collective, gemm, system

BASE = system(title="Toy, 8 GPUs")


class IdentifiedModel(FakeModel):
    """The fake model, with a word on every lever."""

    def identifiability(self) -> dict[str, dict[str, Identification]]:
        sure = Identification("identified", "seen on two parts")
        alias = Identification("alias", "never moved alone", "nvlink_bandwidth")
        return {
            "hbm_bandwidth": {"gemm": sure}, "bf16_throughput": {"gemm": sure},
            "nvlink_bandwidth": {"collective": sure},
            "launch_latency": {"gemm": alias, "collective": alias},
        }  # fmt: skip


def chars() -> dict[str, Characterization]:
    """``train``: 3 s tensor, 1 s links. ``serve``: 4 s HBM, a tenth of it assumed."""
    train = characterization(
        [gemm(3.0, 3e15, 1e11, name="qkv"), collective(1.0, 1e11)],
        workload="train", phase="pretrain", tokens_per_step=800.0, gpus=8,
    )  # fmt: skip
    serve = characterization(
        [
            gemm(3.6, 1e14, 3.6e12, name="weights", phase="decode"),
            gemm(0.4, 1e13, 0.4e12, name="guess", phase="decode", evidence="assumed"),
        ],
        workload="serve", phase="decode",
    )  # fmt: skip
    return {"train": train, "serve": serve}


def portfolio(**changes: Any) -> Portfolio:
    """Half the GPU-hours train, half serve; ranked by area, which HBM bandwidth has none of."""
    values: dict[str, Any] = {
        "title": "toy", "baseline": "toy-8", "draws": 60, "seed": 3,
        "workloads": (WorkloadEntry(weight=0.5, characterization="train.parquet"),
                      WorkloadEntry(weight=0.5, characterization="serve.parquet")),
        "levers": {"hbm_bandwidth": (1.25, 2.0), "bf16_throughput": (1.25, 2.0),
                   "nvlink_bandwidth": (2.0,), "fp8_throughput": (2.0,), "hbm_capacity": (2.0,),
                   "launch_latency": (0.5,), "fp4_throughput": (2.0,)},
    }  # fmt: skip
    return Portfolio(**(values | changes))


def run(**changes: Any) -> Recommendations:
    """Recommendations of the toy portfolio."""
    return recommend(portfolio(**changes), chars(), IdentifiedModel(), base=BASE)
