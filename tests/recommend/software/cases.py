"""Small workloads whose software findings are worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from codesign.hardware.model import System
from codesign.recommend.schema import SoftwareFinding
from codesign.recommend.software import RULES, Look, Rule, assess
from codesign.workload.characterization import Quality, Reliability, StepTimes
from tests.projection.fakes import FakeModel, characterization, system

BASE = system()


def hopper(**peaks: float) -> System:
    """The toy system as a part of an architecture that multiplies in FP8."""
    return of_architecture("hopper", **peaks)


def of_architecture(name: str, **peaks: float) -> System:
    gpu = BASE.gpu
    rates = {**gpu.peak_dense_flops_per_s, **peaks}
    return replace(BASE, gpu=replace(gpu, architecture=name, peak_dense_flops_per_s=rates))


def rule(key: str) -> Rule:
    return next(r for r in RULES if r.key == key)


def look(rows: list[dict[str, Any]], base: System = BASE, model: Any = None, **header: Any) -> Look:
    return Look(characterization(rows, **header), base, FakeModel() if model is None else model)


def without_model(rows: list[dict[str, Any]], base: System = BASE, **header: Any) -> Look:
    return Look(characterization(rows, **header), base, None)


def found(key: str, at: Look) -> SoftwareFinding:
    result = assess(at, rule(key))
    assert isinstance(result, SoftwareFinding), result
    return result


def silence(key: str, at: Look) -> str:
    result = assess(at, rule(key))
    assert isinstance(result, str), result
    return result


def nothing(key: str, at: Look) -> bool:
    return assess(at, rule(key)) is None


def unreliable(*quantities: str) -> Quality:
    return Quality(reliability={q: Reliability(False, ("clipped",)) for q in quantities})


def one_step(
    idle_s: float, host_bound_s: float | None, stall_s: float | None, kernels: int = 1000,
    time_s: float = 1.0,
) -> tuple[StepTimes, ...]:  # fmt: skip
    """The time line of one step; what is not idle computes."""
    busy = time_s - idle_s
    return (StepTimes("step", "0", time_s, busy, 0.0, 0.0, 0.0, idle_s, kernels, busy,
                      host_bound_s, stall_s),)  # fmt: skip


def compute(time_s: float, **more: Any) -> dict[str, Any]:
    """Some compute that no rule looks at."""
    return {"op_class": "conv", "name": "conv", "time_s": time_s, **more}


def cube(size: int, time_s: float, **more: Any) -> dict[str, Any]:
    """A bf16 GEMM of size^3 called once, with its work: (2 s^3) FLOP, 3 matrices of 2 bytes."""
    return {
        "op_class": "gemm", "name": "mlp", "precision": "bf16", "m": size, "n": size, "k": size,
        "flops": 2.0 * size**3, "bytes": 6.0 * size**2, "time_s": time_s, **more,
    }  # fmt: skip
