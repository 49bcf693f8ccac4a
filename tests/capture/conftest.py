"""Training scripts as users write them, and the command that captures them."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Big enough that a step is more than the profiler's own work, small enough for a second.
MODEL = """
import sys, time, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
def loss():
    return model(torch.randn(64, 256)).square().mean()
"""
LOOP = (
    MODEL
    + """
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for i in range(40):
    loss().backward(); optimizer.step(); optimizer.zero_grad()
"""
)

CLOCKS = 0.999  # the profiler's clock and Python's run alike, if not to the last digit


def between(marks: list[tuple[float, float]], first: int, last: int) -> tuple[float, float]:
    """Least and most time that steps take, of calls that begin and end as ``marks`` say.

    A step begins somewhere inside one call and ends somewhere inside the next one, so that the
    bounds hold whatever else the machine does meanwhile.
    """
    calls = marks[first : last + 1]
    least_s = sum(after[0] - before[1] for before, after in pairwise(calls))
    return least_s, calls[-1][1] - calls[0][0]


def apart(steps_s: list[float], clock_s: list[float]) -> float:
    """How far steps are from the times between ``clock_s``, as a share of these: the median.

    One step that the machine stalls between the two clocks does not count.
    """
    gaps = [after - before for before, after in pairwise(clock_s)]
    return median(abs(step / gap - 1) for step, gap in zip(steps_s, gaps, strict=True))


@pytest.fixture(scope="session")
def quick() -> dict[str, str]:
    """Environment of a captured script on a machine with few cores, and of this checkout."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Write a script, return its path."""

    def write(text: str, name: str = "train.py") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def codesign_cli(quick: dict[str, str], tmp_path: Path) -> Any:
    """Run `codesign characterize` as a user does."""
    code = "from codesign.cli.main import main; main()"

    def run(*arguments: object, wait: bool = True, **options: Any) -> Any:
        command = [sys.executable, "-c", code, "characterize", *map(str, arguments)]
        options = {"env": quick, "cwd": tmp_path, "text": True, **options}
        if not wait:
            return subprocess.Popen(command, stderr=subprocess.PIPE, **options)
        return subprocess.run(command, capture_output=True, check=False, timeout=120, **options)

    return run


def said(stderr: str) -> list[str]:
    """What codesign itself said: the script's own lines and the profiler's left out."""
    return [line for line in stderr.splitlines() if line.startswith(("codesign:", "warning:"))]
