from __future__ import annotations

import pytest

from tests.recommend.software.cases import compute, found, look, nothing, silence, without_model


def point(name: str, time_s: float, count: float = 10, **more: object) -> dict[str, object]:
    return {"op_class": "elementwise", "name": name, "precision": "bf16", "time_s": time_s,
            "count": count, **more}  # fmt: skip


def test_one_input_vanishes_and_of_two_one_is_still_read() -> None:
    rows = [compute(8.1), point("aten::gelu", 1.0), point("aten::add", 0.9)]
    finding = found("unfused_pointwise", look(rows))
    # 1.0 + 2/3 x 0.9 = 1.6 s can go, 60 % of it does.
    assert finding.bound_s == pytest.approx(0.3)
    assert finding.gain.value == pytest.approx(10 / (10 - 0.96))


def test_multiplying_by_a_number_has_one_input() -> None:
    row = point("aten::mul", 1.0, kernel="vectorized_elementwise_kernel<4, AUnaryFunctor<...>>")
    assert found("unfused_pointwise", look([compute(9.0), row])).bound_s == 0.0


@pytest.mark.parametrize(
    "row",
    [
        point("triton_poi_fused_gelu_0", 1.0),
        point("aten::gelu", 1.0, kernel="triton_poi_fused_gelu_0"),
        point("aten::_foreach_add", 1.0),
        point("aten::gelu", 1.0, count=1),
        point("aten::arange", 1.0),
    ],
    ids=["compiled", "compiled kernel", "foreach", "once", "written"],
)
def test_what_is_fused_or_not_repeated_is_no_finding(row: dict[str, object]) -> None:
    assert nothing("unfused_pointwise", look([compute(9.0), row]))


def chain(scores_of: int = 1024) -> list[dict[str, object]]:
    """16 heads of 64 over 1024 tokens: scores 40 us, softmax 40 us, values 20 us."""
    gemm = {"op_class": "gemm", "name": "aten::bmm", "precision": "bf16", "batch": 16, "m": 1024}
    return [
        {**gemm, "n": 1024, "k": 64, "time_s": 40e-6},
        {"op_class": "softmax", "name": "aten::_softmax", "precision": "bf16",
         "m": 16384, "n": scores_of, "time_s": 40e-6},
        {**gemm, "n": 64, "k": 1024, "time_s": 20e-6},
    ]  # fmt: skip


def test_attention_in_parts_gains_up_to_one_fused_kernel() -> None:
    finding = found("unfused_attention", look(chain()))
    # Q, K, V and the output: 4 x 16 x 1024 x 64 x 2 B = 8.39 MB at 1 TB/s, and a launch; the
    # 4.3 GFLOP take half of that.
    fused = 4 * 16 * 1024 * 64 * 2 / 1e12 + 1e-6
    assert finding.bound_s == pytest.approx(fused)
    assert finding.gain.value == pytest.approx(1 / (1 - 0.9 * (1 - fused / 100e-6)))
    assert {op.name for op in finding.ops} == {"aten::bmm", "aten::_softmax"}


def test_the_scaling_of_the_scores_belongs_to_the_chain() -> None:
    scores = 2 * 2.0 * 16 * 1024 * 1024
    rows = [*chain(), point("aten::mul", 30e-6, count=1, bytes=scores),
            point("aten::add", 30e-6, count=1, bytes=scores / 4)]  # fmt: skip
    assert found("unfused_attention", look(rows)).at_stake_s == pytest.approx(130e-6)


def test_a_softmax_of_other_scores_makes_no_attention() -> None:
    assert nothing("unfused_attention", look(chain(scores_of=2048)))
    assert nothing("unfused_attention", look(chain()[1:]))
    fewer = [{**row, "m": 8192} if row["op_class"] == "softmax" else row for row in chain()]
    assert nothing("unfused_attention", look(fewer))


def test_without_a_model_no_fused_time_is_claimed() -> None:
    assert "no model" in silence("unfused_attention", without_model(chain()))
