"""Live runs: PyTorch programs under the profiler, and shapes without running anything.

The only package of codesign that imports torch, and only inside functions. It is callable,
since `codesign.capture(...)` of the public API and the package bear the same name:

    with codesign.capture("run.parquet", steps=5) as run:
        train()
    run.characterization
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codesign.capture.context import Capture, describe, step
    from codesign.capture.live import characterize_command
    from codesign.capture.shape_only import masked, shapes

__all__ = ["Capture", "characterize_command", "describe", "masked", "shapes", "step"]

_HOME = {"Capture": "context", "characterize_command": "live", "describe": "context",
         "masked": "shape_only", "shapes": "shape_only", "step": "context"}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


class _CallableModule(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Capture:
        """As `capture.context.Capture`."""
        from codesign.capture.context import Capture

        return Capture(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
