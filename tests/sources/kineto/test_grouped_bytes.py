"""HBM bytes of grouped GEMMs in a trace, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.sources.kineto import read_kineto
from tests.sources.kineto.traces import kernel, launch, op, write

BF16 = "c10::BFloat16"


def _bytes(folder: Path, *dims: list[int]) -> tuple[float, float]:
    call = op(0, 90, "aten::_grouped_mm", 5, [*dims, [3]], [BF16, BF16, "int"])
    events = [call, launch(10, 9, **{"External id": 5}),
              kernel(100, 50, "cutlass_grouped_gemm", corr=9, **{"External id": 5})]  # fmt: skip
    row = read_kineto(write(folder, events)).ops.iloc[0]
    return float(row["flops"]), float(row["bytes"])


def test_a_forward_product_reads_its_groups_weights(tmp_path: Path) -> None:
    # 1000 tokens of 64 numbers in and 32 out, three matrices of 64 x 32.
    flops, moved = _bytes(tmp_path, [1000, 64], [3, 64, 32])
    assert flops == 2 * 1000 * 64 * 32
    assert moved == pytest.approx(2 * (1000 * (64 + 32) + 3 * 64 * 32))


def test_a_weight_gradient_reads_every_token_once(tmp_path: Path) -> None:
    # The same numbers the other way: three gradients of 64 x 32 are what comes out.
    flops, moved = _bytes(tmp_path, [64, 1000], [1000, 32])
    assert flops == 2 * 1000 * 64 * 32
    assert moved == pytest.approx(2 * (1000 * (64 + 32) + 3 * 64 * 32))


def test_few_tokens_meet_few_of_many_experts(tmp_path: Path) -> None:
    # Four tokens in 256 groups meet at most four of them.
    _, moved = _bytes(tmp_path, [4, 64], [256, 64, 32])
    assert moved <= 2 * (4 * (64 + 32) + 4 * 64 * 32)
    assert moved > 2 * 3 * 64 * 32


def test_an_estimate_of_the_experts_met_says_so(tmp_path: Path) -> None:
    events = [
        op(0, 90, "aten::_grouped_mm", 5, [[4, 64], [256, 64, 32], [256]], [BF16, BF16, "int"]),
        launch(10, 9, **{"External id": 5}),
        kernel(100, 50, "cutlass_grouped_gemm", corr=9, **{"External id": 5}),
    ]  # fmt: skip
    said = read_kineto(write(tmp_path, events)).header.assumptions
    assert "drawn evenly" in said["expert routing"]
    # One group has no routing, and without shapes there are no bytes to speak of.
    one = op(0, 90, "aten::_grouped_mm", 5, [[4, 64], [1, 64, 32], [1]], [BF16, BF16, "int"])
    for call in ([one], []):
        assert read_kineto(write(tmp_path, [*call, *events[1:]])).header.assumptions == {}
