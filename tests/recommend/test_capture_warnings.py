"""What the head of a report says of captures; each share worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from codesign._common.errors import UsageError
from codesign.recommend.build import recommend
from codesign.sources._devices import contradiction
from codesign.workload.characterization import Quality, Reliability
from tests.projection.fakes import characterization, gemm
from tests.recommend.cases import BASE, IdentifiedModel, chars, portfolio


def said(
    weight: float = 1.0, rows: Any = None, model: Any = None, **header: Any
) -> list[str]:  # fmt: skip
    """Warnings about the first workload, a capture of 4 s of GEMM."""
    given = chars()
    given["train"] = characterization(rows or [gemm(4.0, 4e15, 1e11)], **header)
    entries = portfolio().workloads

    plan = portfolio(workloads=(replace(entries[0], weight=weight), entries[1]))
    found = recommend(plan, given, model or IdentifiedModel(), base=BASE)
    return [line for line in found.warnings if line.startswith("train: ")]


def unsure(*quantities: str) -> Quality:
    return Quality(reliability={q: Reliability(False, ("stacks were recorded",))
                                for q in quantities})  # fmt: skip


def test_a_sound_capture_of_a_busy_device_has_none() -> None:
    assert said() == []
    assert said(idle_s=1.0) == []  # a fifth of the step


def test_idle_time_that_the_capture_does_not_measure_makes_gains_too_small() -> None:
    (line,) = said(idle_s=1.0, quality=unsure("idle"))
    assert "idle time, 20 % of its step, is not measured reliably" in line
    assert "stacks were recorded" in line
    assert said(quality=unsure("idle")) == []


def test_a_device_that_waits_is_told_before_any_lever() -> None:
    (line,) = said(idle_s=4.0)
    assert "idle for 50 % of its step, which no lever shortens" in line


def test_time_that_no_model_covers_is_in_no_gain() -> None:
    class Partial(IdentifiedModel):
        def covered(self, ops: Any) -> Any:
            return (ops["name"] != "unknown").to_numpy(dtype=bool)

    given = chars()
    given["train"] = characterization(
        [gemm(3.0, 3e15, 1e11), {"op_class": "other", "name": "unknown", "time_s": 1.0}]
    )
    found = recommend(portfolio(), given, Partial(), base=BASE).warnings
    (line,) = [w for w in found if w.startswith("train: the model has no say")]
    assert "25 % of its step" in line


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ({"system": None}, "does not name the GPU; it is taken to be that of Toy, 8 GPUs"),
        ({"notes": ("device: not named",)}, "does not name the GPU"),
        ({"quality": Quality(complete=False)}, "cut short"),
        ({"quality": unsure("steps", "step_time")},
         "its step is not reliable (stacks were recorded), nor is any gain of it"),
    ],
)  # fmt: skip
def test_what_the_header_admits_is_told(header: dict[str, Any], told: str) -> None:
    (line,) = said(**header)
    assert told in line


def test_a_model_of_another_librarys_kernels_is_told() -> None:
    class OfTrtllm(IdentifiedModel):
        framework = "trtllm"

    (line,) = said(model=OfTrtllm(), software={"kernels of": "vllm", "torch": "2.9"})
    assert "from kernels of vllm, but the model was fitted on those of trtllm" in line
    assert line.endswith("codesign fit --framework vllm")
    # The same library, or a capture, which runs what it runs.
    assert said(model=OfTrtllm(), software={"kernels of": "trtllm"}) == []
    assert said(model=OfTrtllm(), software={"vllm": "0.24"}) == []


def test_a_capture_of_another_device_than_the_baselines_is_refused() -> None:
    told = contradiction("hgx-h100", "AMD Instinct MI300X")
    assert told is not None
    with pytest.raises(UsageError, match="train was recorded on AMD Instinct MI300X, but"):
        said(quality=Quality(warnings=("clipped", told)))
    assert contradiction("hgx-h100", "NVIDIA H100 80GB HBM3") is None


def test_a_workload_without_weight_is_not_spoken_of() -> None:
    assert said(weight=0.0, idle_s=4.0) == []
