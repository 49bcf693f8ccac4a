"""The window inside a process: other profilers, other threads, signals, and GPU graphs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import profile, schedule

from codesign.capture import finish
from codesign.capture.boot import hook, markers, profiling, window
from codesign.capture.boot.settings import Settings
from codesign.capture.boot.shield import shielded
from codesign.capture.boot.status import Status
from codesign.capture.boot.window import Window

BOOT = Path(window.__file__).parent


def opened(folder: Path, steps: int = 3) -> Window:
    return Window(Settings(str(folder), steps=steps, warmup=1, baseline=1), Status(str(folder)))


def status(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("status-*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def steps(one: Window, count: int) -> None:
    for _ in range(count):
        torch.ones(8, 8) @ torch.ones(8, 8)
        one.boundary()


def step_names(path: str) -> list[str]:
    events = json.loads(Path(path).read_text())["traceEvents"]
    return sorted({e["name"] for e in events if str(e["name"]).startswith("ProfilerStep#")})


def test_the_window_gives_way_to_the_programs_own_profiler_and_comes_again(tmp_path: Path) -> None:
    # Two profilers in one process crash the interpreter.
    one, traces = opened(tmp_path), []
    steps(one, 4)  # warm-up, baseline, settling, one profiled
    assert one.open
    with profile(
        schedule=schedule(wait=1, warmup=1, active=1, repeat=1), on_trace_ready=traces.append
    ) as own:
        for _ in range(4):
            steps(one, 1)
            own.step()
    assert len(traces) == 1
    steps(one, 6)
    assert one.done
    found = status(tmp_path)
    assert (found["state"], len(found["profiled_step_s"])) == ("saved", 3)
    assert len(step_names(found["trace"])) == 3


def test_nothing_starts_while_another_profiler_is_at_work(tmp_path: Path) -> None:
    one = opened(tmp_path)
    with profile() as own:
        steps(one, 8)
        assert not one.open
    assert own.key_averages()
    assert status(tmp_path)["waiting"] == "another profiler was at work"
    steps(one, 6)
    assert status(tmp_path)["state"] == "saved"


@pytest.mark.parametrize(("full_at", "whole"), [(6, 2), (4, 0)])
def test_buffers_that_are_full_end_the_window_before_the_step_that_lacks_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_at: int, whole: int
) -> None:
    if not hasattr(torch.autograd, "_is_kineto_stopped"):
        pytest.skip("this PyTorch does not tell that its buffers are full")
    # Steps 1 and 2 warm up and are the baseline, 3 settles, 4 to 8 are to be profiled.
    one = opened(tmp_path, steps=5)
    steps(one, full_at - 1)
    one._session._profiler.use_device = "cuda"
    monkeypatch.setattr(torch.autograd, "_is_kineto_stopped", lambda: True)
    with pytest.warns(UserWarning, match="stopped early"):
        steps(one, 6)
    found = status(tmp_path)
    assert not profiling.busy()
    assert f"full after {whole} whole steps" in found["overflow"]
    if not whole:
        assert found["state"] == "failed"
        return
    assert (found["state"], len(found["profiled_step_s"])) == ("partial", whole)
    # The one that was cut is in the trace; the reader takes its name from it.
    assert step_names(found["trace"]) == ["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]
    finish._close(Path(found["trace"]), whole)
    assert step_names(found["trace"]) == ["ProfilerStep#1", "ProfilerStep#2"]


def test_a_profiler_that_writes_nothing_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling.Session, "_write", lambda *_: None)
    steps(opened(tmp_path), 9)
    assert status(tmp_path)["state"] == "failed"


def test_two_windows_take_turns(tmp_path: Path) -> None:
    # The command's, around a program that captures itself.
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    both = [opened(folder) for folder in folders]
    for _ in range(20):
        for one in both:
            steps(one, 1)
    assert [status(folder)["state"] for folder in folders] == ["saved", "saved"]


@pytest.mark.parametrize("ends", ["by itself", "while another thread ends the process"])
def test_a_window_on_a_thread_is_closed_by_that_thread(tmp_path: Path, ends: str) -> None:
    one, go_on = opened(tmp_path), threading.Event()

    def train() -> None:
        steps(one, 5)
        if ends != "by itself":
            go_on.wait(10)
            while not one.done:
                steps(one, 1) if one._asked else time.sleep(0.01)

    thread = threading.Thread(target=train)
    thread.start()
    if ends != "by itself":
        while not one.open or one.count < 5:
            time.sleep(0.01)
        go_on.set()
        one.finish("the process ended")
    thread.join()
    found = status(tmp_path)
    assert (found["state"], len(found["profiled_step_s"])) == ("partial", 2)
    assert not profiling.busy()


def test_a_thread_that_does_not_answer_costs_its_trace_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_HANDOVER_S", 0.1)
    one, end = opened(tmp_path), threading.Event()
    thread = threading.Thread(target=lambda: (steps(one, 5), end.wait(10)))
    thread.start()
    while one.count < 5:
        time.sleep(0.01)
    one.finish("terminated")
    assert status(tmp_path)["lost"]
    assert profiling.busy()
    end.set()
    thread.join()
    assert not profiling.busy()


def test_steps_recorded_into_a_gpu_graph_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Waiting for the GPU meanwhile would spoil the program's recording.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)

    def never() -> None:
        raise AssertionError

    monkeypatch.setattr(torch.cuda, "synchronize", never)
    one = opened(tmp_path)
    steps(one, 9)
    assert one.count == 0
    assert not one.done


def test_the_gpu_is_waited_for_at_the_borders_of_what_is_timed_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its work lags behind the host: a border without waiting gives one step's work to another,
    # and waiting after every step would take from the program that it runs ahead.
    for name, value in (
        ("is_available", True), ("is_initialized", True), ("is_current_stream_capturing", False),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(window.facts, "device", lambda: {"type": "cpu"})
    monkeypatch.setattr(window.facts, "software", dict)
    one = Window(Settings(str(tmp_path), steps=4, warmup=2, baseline=3), Status(str(tmp_path)))
    waited: list[int] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: waited.append(one.count))
    steps(one, 14)
    # The warm-up ends with 2, the baseline with 5, the profiler has settled with 6, 10 is the last.
    # PyTorch's profiler itself may wait where it starts and ends.
    assert sorted(set(waited)) == [2, 5, 6, 10]
    assert status(tmp_path)["state"] == "saved"


@pytest.mark.parametrize(("used", "waited_for"), [({0, 2}, [0, 2]), (set(), [None])])
def test_all_gpus_that_a_process_uses_are_waited_for_and_no_other_is_touched(
    monkeypatch: pytest.MonkeyPatch, used: set[int], waited_for: list[int | None]
) -> None:
    # One process that spreads a model over several GPUs; a context on another takes memory there.
    for name, value in (("is_available", True), ("is_initialized", True), ("device_count", 4)):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", used.__contains__, raising=False)
    waited: list[int | None] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    window._synchronize()
    assert waited == waited_for


def test_whatever_goes_wrong_in_the_capture_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise KeyError("world")

    monkeypatch.setattr(window.facts, "place", broken)
    one = opened(tmp_path)
    steps(one, 6)
    found = status(tmp_path)
    assert (found["state"], found["error"]) == ("failed", "the capture failed: KeyError: 'world'")
    assert not profiling.busy()


def test_signals_wait_until_a_trace_is_written() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with shielded():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert heard == []
        assert heard == [signal.SIGTERM]
        with shielded(deliver=False):
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_module_is_met_however_its_spec_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib
    import importlib.util

    (tmp_path / "met_later.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    met: list[str] = []
    watch = hook._Watch({"met_later": lambda module: met.append(module.__name__)})
    monkeypatch.setattr(sys, "meta_path", [watch, *sys.meta_path])
    assert importlib.util.find_spec("met_later") is not None  # as `transformers` looks for torch
    assert met == []
    importlib.import_module("met_later")
    assert met == ["met_later"]
    del sys.modules["met_later"]


def test_the_hook_needs_no_more_than_the_programs_own_python() -> None:
    import ast

    for path in BOOT.glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
        assert "codesign" not in {
            (node.module or "").split(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and not node.level
        }


def test_methods_of_every_kind_tell_when_they_return() -> None:
    import asyncio
    import types

    module = types.ModuleType("m")

    class Trainer:
        @staticmethod
        def static(x: int) -> int:
            return x + 1

        @classmethod
        def of_class(cls, x: int) -> tuple[str, int]:
            return cls.__name__, x

        async def later(self, x: int) -> int:
            await asyncio.sleep(0)
            return len(heard) + x

        def again(self, depth: int) -> int:
            return self.again(depth - 1) if depth else 7

        def fails(self) -> None:
            raise ZeroDivisionError

    module.Trainer = Trainer  # type: ignore[attr-defined]
    heard: list[int] = []
    markers.on_function(lambda: heard.append(1))
    try:
        for name in ("static", "of_class", "later", "again", "fails", "missing"):
            markers.wrap_function(module, f"Trainer.{name}")
        assert Trainer().static(1) == 2
        assert Trainer.static(1) == 2
        assert Trainer().of_class(5) == ("Trainer", 5)
        assert len(heard) == 3
        assert asyncio.run(Trainer().later(10)) == 13  # it had not ended yet
        assert Trainer().again(3) == 7
        assert len(heard) == 5  # of calls inside each other the outermost
        with pytest.raises(ZeroDivisionError):
            Trainer().fails()
        assert len(heard) == 5
        assert markers.missing == ["the module m has no Trainer.missing"]
    finally:
        markers._called.clear()
        markers.missing.clear()


ENDS = """
import os, sys, signal, multiprocessing
sys.path.insert(0, {root!r})
import torch
from codesign.capture.boot import agent
from codesign.capture.boot.settings import Settings
agent.attach(Settings({folder!r}, steps=3, warmup=1, baseline=1, marker="explicit"))
def steps():
    for _ in range(5):
        torch.ones(8, 8) @ torch.ones(8, 8)
        agent.current().boundary()
{how}
"""


@pytest.mark.parametrize(
    "how",
    [
        "steps(); os._exit(0)",
        # A launcher passes on to its ranks what they got already.
        "steps(); os.kill(0, signal.SIGTERM); os.kill(0, signal.SIGTERM)",
        "multiprocessing.get_context('fork').Process(target=steps).start()",
    ],
)
def test_a_process_that_ends_without_a_word_leaves_its_window(tmp_path: Path, how: str) -> None:
    text = ENDS.format(root=str(BOOT.parents[2]), folder=str(tmp_path), how=how)
    subprocess.run(
        [sys.executable, "-c", text], check=False, start_new_session=True, timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    states = [json.loads(p.read_text())["state"] for p in tmp_path.glob("status-*.json")]
    assert "partial" in states
