import msgspec
import pytest

from codesign.workload.overlap import overlap_rules, overlap_windows
from codesign.workload.recipe import Overlap, load_recipe
from codesign.workload.schema import ops_frame

SFT = load_recipe("llama-3.1-8b-sft")


def recipe(**rules):
    return msgspec.structs.replace(SFT, overlap={
        kind: Overlap(behind=behind, share=share, reason="test")
        for kind, (behind, share) in rules.items()
    })  # fmt: skip


def op(op_class, name, phase, time_s):
    return {"op_class": op_class, "name": name, "phase": phase, "time_s": time_s, "count": 1.0,
            "evidence": "assumed"}  # fmt: skip


OPS = ops_frame([
    op("gemm", "f", "forward", 2.0),
    op("gemm", "b", "backward", 4.0),
    op("norm", "n", "backward", 1.0),
    op("collective", "tp.all_reduce", "forward", 0.5),
    op("collective", "dp_gradients.reduce_scatter", "backward", 3.0),
    op("collective", "dp_parameters.all_gather", "backward", 1.0),
])  # fmt: skip


def test_a_kind_that_is_not_named_or_says_none_never_hides():
    rules = overlap_rules(OPS, recipe(tp=("none", 1.0)))
    assert rules["hidden_by"].isna().all()
    assert overlap_windows(OPS, recipe(tp=("none", 1.0))).isna().all()


def test_a_collective_alone_hides_behind_its_share_of_the_phase():
    windows = overlap_windows(OPS, recipe(dp_gradients=("backward", 0.5)))
    assert windows.iloc[4] == 2.5
    assert windows.notna().sum() == 1


def test_rivals_share_the_compute_by_their_times():
    both = recipe(dp_gradients=("backward", 1.0), dp_parameters=("same", 1.0))
    windows = overlap_windows(OPS, both)
    assert windows.iloc[4] == pytest.approx(5.0 * 3 / 4)
    assert windows.iloc[5] == pytest.approx(5.0 * 1 / 4)
    assert windows.sum() <= 5.0


def test_same_means_the_collectives_own_phase():
    windows = overlap_windows(OPS, recipe(tp=("same", 1.0)))
    assert windows.iloc[3] == 2.0


def test_unknown_times_give_no_window_larger_than_the_compute():
    blank = OPS.copy()
    blank["time_s"] = None
    windows = overlap_windows(ops_frame(blank), recipe(dp_gradients=("backward", 1.0)))
    assert windows.iloc[4] == 0.0


def test_a_kind_with_a_small_share_keeps_it_beside_a_large_one():
    # 4.5 s beside 5 s of backward compute: tp_backward may use all of it, dp_gradients a tenth.
    ops = ops_frame([
        op("gemm", "b", "backward", 5.0),
        op("collective", "tp_backward.all_gather", "backward", 4.0),
        op("collective", "dp_gradients.reduce_scatter", "backward", 0.5),
    ])  # fmt: skip
    windows = overlap_windows(
        ops, recipe(tp_backward=("backward", 1.0), dp_gradients=("backward", 0.1))
    )
    assert windows.iloc[2] == pytest.approx(0.5)
    assert windows.iloc[1] >= 4.0
    assert windows.sum() <= 5.0 + 1e-12


@pytest.mark.parametrize(
    ("sent_s", "windows_s"),
    [
        # 2 s of forward and 4 - 1 s of backward compute, by what each sends.
        ((4.0, 4.0), (2.5, 2.5)),
        ((4.0, 1.0), (4.0, 1.0)),
        ((1.0, 1.0), (2.5, 2.5)),
        ((0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_any_phase_shares_what_the_others_leave(sent_s, windows_s):
    ops = ops_frame([
        op("gemm", "f", "forward", 2.0),
        op("gemm", "b", "backward", 4.0),
        op("optimizer", "adamw", "optimizer", 9.0),
        op("collective", "dp_gradients.reduce_scatter", "backward", 1.0),
        op("collective", "ep.dispatch", "forward", sent_s[0]),
        op("collective", "ep.dispatch", "backward", sent_s[1]),
    ])  # fmt: skip
    windows = overlap_windows(ops, recipe(ep=("any", 1.0), dp_gradients=("backward", 1.0)))
    assert tuple(windows.iloc[4:]) == pytest.approx(windows_s)
