from __future__ import annotations

import pytest

from codesign.hardware import load_system
from codesign.workload.recipe import load_recipe
from tests.recommend.software.cases import compute, found, look, nothing, silence


def test_recomputed_ops_need_no_time_if_they_are_kept() -> None:
    rows = [compute(9.0), {**compute(1.0), "name": "norm.recompute", "phase": "backward"}]
    finding = found("recomputation", look(rows))
    assert finding.gain.value == pytest.approx(10 / 9.4)
    assert finding.gain.hi == pytest.approx(10 / 9)
    assert finding.confidence == "low"  # nobody knows the memory


def test_forward_ops_in_the_backward_phase_are_recomputed() -> None:
    row = {"op_class": "attention", "name": "aten::_flash_attention_forward", "time_s": 1.0}
    assert found("recomputation", look([compute(9.0), {**row, "phase": "backward"}]))
    assert nothing("recomputation", look([compute(9.0), {**row, "phase": "forward"}]))


def test_ops_of_autograd_are_no_recomputation() -> None:
    row = {"op_class": "norm", "name": "aten::native_layer_norm_backward", "time_s": 1.0}
    gemm = {"op_class": "gemm", "name": "aten::mm", "time_s": 1.0}
    rows = [compute(9.0), {**row, "phase": "backward"}, {**gemm, "phase": "backward"}]
    assert nothing("recomputation", look(rows))


def composed(name: str) -> dict[str, object]:
    note = f"recipe sha256 {load_recipe(name).sha256()}"
    return {"workload": name, "capture_method": "composed", "notes": (note,)}


def test_where_memory_has_no_room_for_it_nothing_is_advised() -> None:
    rows = [compute(9.0), {**compute(1.0), "name": "norm.recompute", "phase": "backward"}]
    base = load_system("hgx-h100")
    head = composed("deepseek-v3-pretrain-fp8")
    said = silence("recomputation", look(rows, base=base, system="hgx-h100", **head))
    assert "GB of HBM and has 80.0 GB" in said
    small = composed("llama-3.1-8b-sft")
    finding = found("recomputation", look(rows, base=base, system="hgx-h100", **small))
    assert finding.confidence == "medium"


def test_a_recipe_that_has_changed_since_says_nothing_of_memory() -> None:
    rows = [compute(9.0), {**compute(1.0), "name": "norm.recompute", "phase": "backward"}]
    head = {**composed("deepseek-v3-pretrain-fp8"), "notes": ("recipe sha256 0000",)}
    base = load_system("hgx-h100")
    assert found("recomputation", look(rows, base=base, system="hgx-h100", **head))
