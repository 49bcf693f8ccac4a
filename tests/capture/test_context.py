"""`codesign.capture()` in the program itself, against the program's own clock and hand counts."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import codesign
from codesign import capture as capture_package
from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign.workload.accounting import hardware_flops
from codesign.workload.characterization import Characterization
from tests.capture.conftest import CLOCKS, apart, between


def multiply(size: int = 512, times: int = 4) -> None:
    a = torch.randn(size, size)
    for _ in range(times):
        a = a @ a


def test_steps_that_the_program_marks_itself(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    for _ in range(3):  # Another process may stall most steps, but hardly three times.
        marks = []
        with codesign.capture(out, steps=4, warmup=2, baseline=1) as run:
            while not run.done:
                multiply()
                begin = time.perf_counter()
                run.step()
                marks.append((begin, time.perf_counter()))
        char = Characterization.load(out)
        steps_s = [s.time_s for s in char.header.steps]
        # Two to warm up, one as baseline, one that settles, then four that count.
        least_s, most_s = between(marks, 3, 7)
        assert least_s * CLOCKS < sum(steps_s) < most_s / CLOCKS
        off = apart(steps_s, [begin for begin, _ in marks[3:8]])
        if off < 0.1:
            break
    assert off < 0.1
    assert char.header.step_time_s == run.characterization.header.step_time_s
    assert hardware_flops(char.ops) == 4 * 2 * 512**3
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


def test_one_capture_can_be_used_again() -> None:
    run = codesign.capture(steps=2, warmup=1, baseline=0)
    for size in (32, 64):
        with run:
            while not run.done:
                multiply(size)
                run.step()
        assert hardware_flops(run.characterization.ops) == 4 * 2 * size**3
    notes = run.characterization.header.notes
    assert any("not measured" in note for note in notes)  # what the profiler cost


def test_what_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write"), codesign.capture("/proc/no/x.parquet"):
        raise AssertionError
    (tmp_path / "a folder").mkdir()
    with pytest.raises(DataError, match="a folder"), codesign.capture(tmp_path / "a folder"):
        raise AssertionError
    with codesign.capture(steps=1, warmup=1, baseline=0) as run:  # nothing of those is left over
        while not run.done:
            multiply(8)
            run.step()


def test_the_blocks_own_exception_comes_through_whatever_else_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise DataError("no space left")

    monkeypatch.setattr(Characterization, "save", full)
    run = codesign.capture(tmp_path / "x.parquet", warmup=1)

    def fails() -> None:
        with run:
            for _ in range(8):
                multiply(32)
                run.step()
            raise MemoryError

    with pytest.raises(MemoryError):
        fails()
    assert "codesign: no space left" in capsys.readouterr().err


def test_without_pytorch_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="needs PyTorch"), codesign.capture():
        pass


def test_what_another_thread_trains_does_not_end_steps() -> None:
    layers = [torch.nn.Linear(8, 8) for _ in range(2)]
    own, other = (torch.optim.SGD(layer.parameters(), lr=0.1) for layer in layers)

    def elsewhere() -> None:
        for _ in range(3):
            layers[1](torch.randn(4, 8)).sum().backward()
            other.step()

    with codesign.capture(steps=2, warmup=1, baseline=1) as run:
        while not run.done:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            layers[0](torch.randn(4, 8)).sum().backward()
            own.step()
    assert run.characterization.header.quality.steps_found == 2


def test_optimizers_that_step_inside_of_the_backward_pass() -> None:
    # Started or ended in there, the profiler would take the interpreter down.
    before = torch.autograd._engine_run_backward
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 256))
    for parameter in model.parameters():
        own = torch.optim.SGD([parameter], lr=0.1)

        def hook(p: torch.Tensor, own: torch.optim.Optimizer = own) -> None:
            own.step()
            own.zero_grad()

        parameter.register_post_accumulate_grad_hook(hook)
    with codesign.capture(steps=3, warmup=1, baseline=1) as run:
        passes = 0
        while not run.done:
            model(torch.randn(64, 256)).sum().backward()
            passes += 1
    # One warms up, one is the baseline, one lets the profiler settle.
    assert passes == 6
    assert run.characterization.header.quality.steps_found == 3
    assert hardware_flops(run.characterization.ops) == 5 * 2 * 64 * 256 * 256
    assert torch.autograd._engine_run_backward is before


def test_no_step_ends_in_the_middle_of_a_backward_pass() -> None:
    x = torch.ones(4, requires_grad=True)
    with codesign.capture(steps=2, warmup=1, baseline=0) as run:
        for _ in range(4):
            assert not run.done
            y = x * 2
            y.register_hook(lambda _: capture_package.step())
            y.sum().backward()
            capture_package.step()
        assert run.done


def test_a_scaled_product_by_the_newer_function_is_a_gemm_in_fp8() -> None:
    functional = torch.nn.functional
    if not hasattr(functional, "scaled_mm"):
        pytest.skip("this PyTorch has no scaled_mm")
    a = torch.randn(64, 128).to(torch.float8_e4m3fn)
    b = torch.randn(32, 128).to(torch.float8_e4m3fn).t()
    scale, recipe = torch.ones(1), functional.ScalingType.TensorWise
    with codesign.capture(steps=2, warmup=1, baseline=1) as run:
        while not run.done:
            functional.scaled_mm(
                a, b, scale, recipe, scale, recipe, output_dtype=torch.bfloat16
            )  # fmt: skip
            run.step()
    (row,) = run.characterization.ops.to_dict("records")
    assert (row["op_class"], row["precision"]) == ("gemm", "fp8")
    assert row["flops"] == 2 * 64 * 128 * 32
