"""A what-if baseline: the measured workload moved by the model, by hand and by laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign._common.errors import UsageError
from codesign.projection import project
from codesign.projection.rebase import rebase
from tests.projection.fakes import FakeModel, characterization, collective, gemm, lever, system

BASE = system()
MODEL = FakeModel()
COMPUTE, MEMORY = gemm(3.3, 3e15, 1e12), gemm(1.1, 1e14, 1e12)
COMM = {**collective(2.0, 2e11), "exposed_s": 0.5, "overlap_window_s": 1.5}
CHAR = characterization([COMPUTE, MEMORY, COMM], system="toy-8", idle_s=0.6, bubble_s=0.49)


def test_rows_move_by_the_model_and_say_so() -> None:
    wide = lever(BASE, "hbm_bandwidth", 2.0)
    moved = rebase(CHAR, MODEL, BASE, wide)
    # Only the 1.1 s row waits for memory; the window shrinks with compute, 4.4 -> 3.85 s.
    assert moved.ops["time_s"].tolist() == pytest.approx([3.3, 0.55, 2.0], rel=1e-5)
    assert moved.ops["overlap_window_s"][2] == pytest.approx(1.5 * 3.85 / 4.4, rel=1e-5)
    assert moved.ops["exposed_s"][2] == pytest.approx(2.0 - 1.5 * 3.85 / 4.4, rel=1e-5)
    assert moved.ops["evidence"].tolist() == ["measured", "modelled", "measured"]
    assert moved.header.system == wide.name
    assert moved.header.step_time_s == pytest.approx(
        moved.ops["exposed_s"].sum() + moved.header.idle_s
    )


def test_no_change_leaves_every_time_as_measured() -> None:
    same = rebase(CHAR, MODEL, BASE, lever(BASE, "hbm_bandwidth", 1.0))
    for column in ("time_s", "exposed_s", "overlap_window_s", "evidence"):
        assert same.ops[column].equals(CHAR.ops[column])
    assert same.header.idle_s == CHAR.header.idle_s


@given(first=st.floats(0.5, 4.0), second=st.floats(0.5, 4.0))
def test_two_changes_gain_the_product_of_one_after_the_other(first: float, second: float) -> None:
    there = lever(BASE, "nvlink_bandwidth", first)
    beyond = lever(there, "hbm_bandwidth", second)
    whole = project(CHAR, MODEL, [there, beyond], draws=0, base=BASE).gain
    rest = project(rebase(CHAR, MODEL, BASE, there), MODEL, [beyond], draws=0, base=there).gain
    assert whole[0].value * rest[0].value == pytest.approx(whole[1].value, rel=1e-9)


def test_only_levers_on_the_measured_system_make_a_baseline() -> None:
    other = replace(BASE, gpu=replace(BASE.gpu, name="other"))
    with pytest.raises(UsageError, match="expected toy-8 with levers"):
        rebase(CHAR, MODEL, BASE, other)
    with pytest.raises(UsageError, match="characterized on toy-8, but"):
        rebase(CHAR, MODEL, replace(BASE, name="toy-16"), BASE)


def test_what_only_the_measured_hardware_has_is_left_out() -> None:
    counted = characterization([{**COMPUTE, "dram_bytes": 1e12, "time_sd_s": 0.1}], system="toy-8")
    moved = rebase(counted, MODEL, BASE, lever(BASE, "bf16_throughput", 2.0))
    assert moved.ops[["dram_bytes", "time_sd_s"]].isna().all(axis=None)
    assert np.isfinite(moved.ops["flops"]).all()
