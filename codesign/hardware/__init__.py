"""GPU and system specifications, levers and their costs."""

from codesign.hardware.load import (
    gpu_of_device,
    list_gpus,
    list_systems,
    load_gpu,
    load_system,
    system_of_gpu,
)
from codesign.hardware.model import Gpu, System

__all__ = [
    "Gpu", "System", "gpu_of_device", "list_gpus", "list_systems", "load_gpu", "load_system",
    "system_of_gpu",
]  # fmt: skip
