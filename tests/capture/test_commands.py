"""Unchanged scripts under `codesign characterize -- COMMAND`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from codesign.sources import read
from codesign.workload.accounting import hardware_flops
from codesign.workload.characterization import Characterization
from tests.capture.conftest import CLOCKS, LOOP, MODEL, apart, between, said

# Forward of two layers, weight gradients of both, input gradient of the second.
STEP_FLOPS = 2 * 64 * 256 * 512 * (2 + 2 + 1)


def adds_up(char: Characterization) -> None:
    parts = float(char.ops["exposed_s"].sum()) + char.header.idle_s
    assert parts == pytest.approx(char.header.step_time_s, rel=1e-9)
    assert char.header.quality.steps_found == len(char.header.steps) == 5


def test_a_plain_loop(codesign_cli: Any, script: Any, tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    result = codesign_cli("-o", out, "--keep-trace", "--", sys.executable, script(LOOP), "--lr", 1)
    assert result.returncode == 0, result.stderr
    char = Characterization.load(out)
    adds_up(char)
    assert hardware_flops(char.ops) == STEP_FLOPS
    assert "CPU" in char.header.capture_method
    assert any("times are no GPU's" in note for note in char.header.notes)
    assert any("overhead of profiling" in note for note in char.header.notes)
    assert set(char.ops["phase"].dropna()) == {"forward", "backward", "optimizer"}
    # The trace that was kept gives the same ops by the ordinary way.
    again = read(tmp_path / "run.traces" / "rank-0.json")
    assert again.header.step_time_s == char.header.step_time_s
    assert hardware_flops(again.ops) == STEP_FLOPS


def test_steps_by_the_clock_of_the_script(codesign_cli: Any, script: Any, tmp_path: Path) -> None:
    text = (
        MODEL
        + """
import json
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
marks = []
for i in range(12):
    loss().backward()
    begin = time.perf_counter()
    optimizer.step()
    marks.append((begin, time.perf_counter()))
    optimizer.zero_grad()
json.dump(marks, open("marks.json", "w"))
"""
    )
    out = tmp_path / "run.parquet"
    for _ in range(3):  # Another process may stall most steps, but hardly three times.
        result = codesign_cli("-o", out, "--force", "--", sys.executable, script(text))
        assert result.returncode == 0, result.stderr
        header = Characterization.load(out).header
        steps_s = [s.time_s for s in header.steps]
        marks = json.loads((tmp_path / "marks.json").read_text())
        # Three warm up, three are the baseline, one lets the profiler settle, then five count.
        least_s, most_s = between(marks, 6, 11)
        wall_s = header.totals["wall_step_time_s"]
        assert least_s * CLOCKS < sum(steps_s) < most_s / CLOCKS
        assert least_s < 5 * wall_s < most_s
        # The last call also wrote the trace.
        off = max(apart(steps_s[:4], [end for _, end in marks[6:11]]),
                  abs(header.step_time_s / wall_s - 1))  # fmt: skip
        if off < 0.1:
            break
    assert off < 0.1


def test_gradient_accumulation_is_one_step(codesign_cli: Any, script: Any, tmp_path: Path) -> None:
    text = (
        MODEL
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(13 * 4):
    loss().backward()
    if i % 4 == 3:
        optimizer.step(); optimizer.zero_grad()
"""
    )
    out = tmp_path / "run.parquet"
    result = codesign_cli("-q", "-o", out, "--", sys.executable, script(text))
    assert result.returncode == 0, result.stderr
    char = Characterization.load(out)
    adds_up(char)
    assert hardware_flops(char.ops) == 4 * STEP_FLOPS


def test_two_optimizers_at_different_rates(codesign_cli: Any, script: Any, tmp_path: Path) -> None:
    # A critic that steps three times for each step of a generator: 4 passes a step.
    text = (
        MODEL
        + """
head = torch.nn.Linear(256, 256)
critic, generator = torch.optim.Adam(model.parameters()), torch.optim.SGD(head.parameters(), lr=1)
for i in range(13):
    for _ in range(3):
        loss().backward(); critic.step(); critic.zero_grad()
    head(model(torch.randn(64, 256)).detach()).sum().backward()
    generator.step(); generator.zero_grad()
"""
    )
    out = tmp_path / "run.parquet"
    result = codesign_cli("-q", "-o", out, "--", sys.executable, script(text))
    assert result.returncode == 0, result.stderr
    char = Characterization.load(out)
    adds_up(char)
    generator = 2 * 64 * (2 * 256 * 512 + 2 * 256 * 256)
    assert hardware_flops(char.ops) == 3 * STEP_FLOPS + generator


def test_two_ranks_under_torchrun(codesign_cli: Any, script: Any, tmp_path: Path) -> None:
    text = (
        MODEL
        + """
import torch.distributed as dist
dist.init_process_group("gloo")
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), fused=True)
for i in range(13):
    ddp(torch.randn(64, 256)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
dist.destroy_process_group()
"""
    )
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        2,
    ]
    out = tmp_path / "run.parquet"
    result = codesign_cli("-q", "-o", out, "--", *torchrun, script(text))
    assert result.returncode == 0, result.stderr
    char = Characterization.load(out)
    adds_up(char)
    assert char.header.ranks == (0, 1)
    assert char.header.gpus == 2
    assert hardware_flops(char.ops) == STEP_FLOPS
    (reduce,) = char.ops[char.ops["op_class"] == "collective"].to_dict("records")
    parameters = 2 * 256 * 512 + 256 + 512
    assert (reduce["collective"], reduce["group_size"]) == ("all_reduce", 2)
    assert reduce["message_bytes"] == 4 * parameters
    assert reduce["wire_bytes"] == 4 * parameters  # 2 (n - 1) / n of the message, n = 2


def test_a_forward_pass_marks_steps_of_inference(
    codesign_cli: Any, script: Any, tmp_path: Path
) -> None:
    text = MODEL + "for i in range(13):\n    loss()\n"
    out = tmp_path / "run.parquet"
    result = codesign_cli(
        "-q", "-o", out, "--step-marker", "forward", "--", sys.executable, script(text)
    )
    assert result.returncode == 0, result.stderr
    char = Characterization.load(out)
    adds_up(char)
    assert hardware_flops(char.ops) == 2 * 64 * 2 * 256 * 512


def test_the_environment_of_the_script_is_its_own(
    codesign_cli: Any, script: Any, tmp_path: Path, quick: dict[str, str]
) -> None:
    # A module of the user's named like one of ours, and a sitecustomize of the container's.
    other = tmp_path / "site"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins; builtins.contained = True\n")
    (other / "agent.py").write_text("mine = True\n")
    text = "import agent; assert agent.mine and contained\n" + LOOP
    result = codesign_cli(
        "-q", "-o", tmp_path / "run.parquet", "--stop", "--", sys.executable, script(text),
        env={**quick, "PYTHONPATH": os.pathsep.join([str(other), quick["PYTHONPATH"]])},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert [line for line in said(result.stderr) if line.startswith("codesign:")] == []
