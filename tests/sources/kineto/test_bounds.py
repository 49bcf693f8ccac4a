"""Rates above what the device can: reported as invalid, never clamped or passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign.sources.kineto import read_kineto
from codesign.workload.characterization import Characterization
from tests.sources.kineto.traces import annotation, kernel, launch, op, write

BF16 = ["c10::BFloat16"] * 2
H100 = "NVIDIA H100 80GB HBM3"


def read(
    folder: Path, us: float, device: str = H100, name: str = "aten::mm", more_us: float = 0
) -> Characterization:
    """One product of 4096 x 4096 x 4096, 137.4 GFLOP, and others without shapes beside it."""
    events = [
        annotation(0, 10_000, "ProfilerStep#1"),
        op(50, 30, name, 1, [[4096, 4096], [4096, 4096]], BF16), launch(60, 1),
        kernel(100, us, "nvjet_tst", corr=1),
        op(1050, 30, "aten::mm", 2, [[64, 64], [64, 64]], BF16), launch(1060, 2),
        kernel(1100, more_us, "nvjet_tst", corr=2),
    ]  # fmt: skip
    return read_kineto(write(folder, events, deviceProperties=[{"id": 0, "name": device}]))


def said(char: Characterization) -> list[str]:
    return [w for w in char.header.quality.warnings if "faster than" in w]


# 989.4 TFLOP/s dense at 1830 MHz: 138.9 us; at the boost clock of 1980 MHz 128.4 us.
@pytest.mark.parametrize(("us", "above"), [(200, 0), (139, 0), (130, 0), (120, 1), (10, 1)])
def test_a_product_faster_than_the_highest_clock_allows_is_invalid(
    tmp_path: Path, us: float, above: int
) -> None:
    char = read(tmp_path, us)
    assert len(said(char)) == above
    assert char.header.quality.reliable("flops") == (not above)
    # The value stays as it was derived.
    assert char.ops["flops"].max() == 2.0 * 4096**3


def test_the_share_of_the_peak_is_told(tmp_path: Path) -> None:
    (text,) = said(read(tmp_path, 100))
    assert "139%" in text
    assert "989 TFLOP/s" in text


def test_a_kernel_runs_on_one_die_of_a_package(tmp_path: Path) -> None:
    """383 TFLOP/s are those of two dies: 147 on one is 76.8 % of its own, and 250 too many."""
    slow, fast = 137.439e9 / 147e6, 137.439e9 / 250e6
    assert not said(read(tmp_path, slow, "AMD Instinct MI250X"))
    assert "131%" in said(read(tmp_path, fast, "AMD Instinct MI250X"))[0]


def test_one_odd_op_among_many_leaves_the_rest_reliable(tmp_path: Path) -> None:
    char = read(tmp_path, 10, more_us=5000)
    assert len(said(char)) == 1
    assert char.header.quality.reliable("flops")


@pytest.mark.parametrize(("device", "name"), [("Foo X1", "aten::mm"), (H100, "aten::relu")])
def test_no_bound_is_made_up(tmp_path: Path, device: str, name: str) -> None:
    assert not said(read(tmp_path, 1, device, name, more_us=10))


@pytest.mark.parametrize(
    ("device", "system", "warned"),
    [(H100, "hgx-a100", True), (H100, "hgx-h100", False), ("Foo X1", "hgx-a100", False)],
)
def test_another_device_than_the_systems_is_said(
    tmp_path: Path, device: str, system: str, warned: bool
) -> None:
    """What is stated wins, but not in silence: its peaks would be another part's."""
    events = [kernel(0, 10, "nvjet_tst")]
    path = write(tmp_path, events, deviceProperties=[{"id": 0, "name": device}])
    header = read_kineto(path, system=system).header
    assert header.system == system
    assert any("was recorded, but" in w for w in header.quality.warnings) == warned
