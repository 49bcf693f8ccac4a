"""GPU and system specifications, levers and their costs.

The loaders are exported lazily: importing this package reads no YAML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codesign.hardware.model import Gpu, System

if TYPE_CHECKING:
    from codesign.hardware.load import (
        gpu_of_device,
        list_gpus,
        list_systems,
        load_gpu,
        load_system,
        system_of_gpu,
    )

__all__ = [
    "Gpu", "System", "gpu_of_device", "list_gpus", "list_systems", "load_gpu", "load_system",
    "system_of_gpu",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        from codesign.hardware import load

        return getattr(load, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
