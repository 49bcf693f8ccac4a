"""Waits for the process to import torch, and only then looks at it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_OPTIMIZER = "torch.optim.optimizer"


class _Watch(importlib.abc.MetaPathFinder):
    """Calls a function with a module right after its import."""

    def __init__(self, wanted: dict[str, Callable[[ModuleType], None]]) -> None:
        self._wanted = wanted
        self._asking: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> Any:
        """Spec of a wanted module whose loader tells us when it is there."""
        if fullname not in self._wanted or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            for finder in sys.meta_path:
                if finder is self or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(fullname, path)
                if spec is not None and spec.loader is not None:
                    self._call_after(spec.loader, fullname)
                    return spec
        finally:
            self._asking.discard(fullname)
        return None

    def _call_after(self, loader: Any, fullname: str) -> None:
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            # A loader may serve many modules, and a spec may be asked for and never used.
            if module.__name__ == fullname and fullname in self._wanted:
                self._wanted.pop(fullname)(module)

        loader.exec_module = exec_module


def install() -> None:
    """Attach to torch as soon as this process imports it, and to the marked function."""
    from . import agent, markers
    from .settings import from_environment

    settings = from_environment()
    if settings is None:
        return
    wanted: dict[str, Callable[[ModuleType], None]] = {_OPTIMIZER: lambda _: agent.attach(settings)}
    function = markers.function_of(settings.marker)
    if function is not None:
        module, name = function
        wanted[module] = lambda loaded: markers.wrap_function(loaded, name)
    sys.meta_path.insert(0, _Watch(wanted))
