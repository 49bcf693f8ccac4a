"""`codesign.capture()` in the program itself, against the program's own clock and hand counts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import codesign
from codesign import capture as capture_package
from codesign._common.errors import InsufficientDataError, UsageError
from codesign.workload.accounting import hardware_flops
from codesign.workload.characterization import Characterization


def multiply(size: int = 512, times: int = 4) -> None:
    a = torch.randn(size, size)
    for _ in range(times):
        a = a @ a


def test_steps_that_the_program_marks_itself(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    lengths = []
    with codesign.capture(out, steps=4, warmup=2, baseline=1) as run:
        while not run.done:
            begin = time.perf_counter()
            multiply()
            run.step()
            lengths.append(time.perf_counter() - begin)
    char = Characterization.load(out)
    assert char.header.step_time_s == run.characterization.header.step_time_s
    assert hardware_flops(char.ops) == 4 * 2 * 512**3
    # Two to warm up, one as baseline, one that settles, then four that count; the last call
    # also wrote the trace.
    assert sum(s.time_s for s in char.header.steps[:3]) == pytest.approx(sum(lengths[4:7]), rel=0.1)
    parts = float(char.ops["exposed_s"].sum()) + char.header.idle_s
    assert parts == pytest.approx(char.header.step_time_s, rel=1e-9)


def test_an_exception_leaves_what_was_captured(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    run = codesign.capture(out, warmup=1, baseline=1)

    def fails() -> None:
        with run:
            for _ in range(5):
                multiply(64)
                capture_package.step()
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not run.characterization.header.quality.complete
    assert Characterization.load(out).header.quality.steps_found == 2


def test_too_few_steps_are_said(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    with pytest.raises(InsufficientDataError, match="1 steps in all, and 12"):  # noqa: SIM117
        with codesign.capture(out) as run:
            run.step()
    assert not out.exists()
    with pytest.raises(UsageError, match="outside"):
        run.step()


def test_captures_do_not_nest() -> None:
    with pytest.raises(InsufficientDataError), codesign.capture():  # noqa: SIM117
        with pytest.raises(UsageError, match="already running"), codesign.capture():
            pass


def test_an_optimizer_is_heard_only_inside_the_block() -> None:
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def train() -> None:
        layer(torch.randn(4, 8)).sum().backward()
        optimizer.step()

    with codesign.capture(steps=2, warmup=1, baseline=0) as run:
        while not run.done:
            train()
    train()
    assert run.characterization.header.quality.steps_found == 2
    assert hardware_flops(run.characterization.ops) == 2 * 4 * 8 * 8 * 2
