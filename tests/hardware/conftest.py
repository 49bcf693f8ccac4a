"""A small, correct GPU and system file to break in one place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

Writer = Callable[..., Path]


def base_gpu() -> dict[str, Any]:
    # 100 SMs x 4096 x 1000 MHz = 409.6 TFLOP/s in BF16 by hand.
    return {
        "name": "mine", "vendor": "me", "architecture": "hopper", "sm_count": 100,
        "aliases": ["My X1"],
        "clocks": {"tensor": "1000 MHz", "boost": "1200 MHz"},
        "peak_dense": {"bf16": "409.6 TFLOP/s", "fp8": "819.2 TFLOP/s", "fp32": "30.72 TFLOP/s"},
        "memory": {"capacity": "80 GB", "bandwidth": "3 TB/s", "kind": "HBM3", "stacks": 5},
        "l2": {"capacity": "50 MB"},
        "nvlink": {"kind": "NVLink", "generation": 4, "links": 18,
                   "bandwidth_per_direction": "450 GB/s"},
        "power": "700 W",
    }  # fmt: skip


def base_system() -> dict[str, Any]:
    return {
        "name": "my-box", "gpu": "mine.yaml", "nvlink_domain": 8,
        "nvlink_bandwidth_per_direction": "450 GB/s",
        "scaleout_bandwidth_per_direction": "400 Gb/s", "launch_latency": "2 us",
    }  # fmt: skip


def _write(folder: Path, content: dict[str, Any], changes: dict[str, Any]) -> Path:
    for path, value in changes.items():
        *parents, last = path.split(".")
        section = content
        for key in parents:
            section = section.setdefault(key, {})
        if value is None:
            section.pop(last, None)
        else:
            section[last] = value
    file = folder / f"{content['name']}.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.fixture
def gpu_file(tmp_path: Path) -> Writer:
    """Write the GPU with changes by key path; None removes a key."""
    return lambda changes=None: _write(tmp_path, base_gpu(), changes or {})


@pytest.fixture
def system_file(tmp_path: Path, gpu_file: Writer) -> Writer:
    """Write the system with changes, and its GPU beside it."""

    def write(changes: dict[str, Any] | None = None) -> Path:
        gpu_file()
        return _write(tmp_path, base_system(), changes or {})

    return write
