"""What ends a step: an optimizer's step, a forward pass, a function's return, an annotation.

``optimizer``            the step of the optimizer that steps least often: see `optimizers`
``forward``              the return of the outermost module's forward pass: inference
``function:MODULE:NAME`` the return of a function or method, such as ``pretrain:train_step``
``annotation:NAME``      the end of a ``record_function(NAME)`` range
``explicit``             a call of ``codesign.capture.step()``
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

Boundary = Callable[[], None]
_KINDS = ("optimizer", "forward", "explicit")


def check(marker: str) -> str | None:
    """What is wrong with a marker, or None."""
    if marker in _KINDS or (marker.startswith("annotation:") and marker != "annotation:"):
        return None
    if function_of(marker) is not None:
        return None
    return (
        f"step marker {marker!r}: expected optimizer, forward, function:MODULE:NAME, "
        "annotation:NAME or explicit"
    )


def function_of(marker: str) -> tuple[str, str] | None:
    """(module, qualified name) of a ``function:`` marker, else None."""
    kind, _, rest = marker.partition(":")
    module, _, name = rest.partition(":")
    return (module, name) if kind == "function" and module and name else None


def on_forward(boundary: Boundary) -> None:
    """Call ``boundary`` after every outermost forward pass."""
    from torch.nn.modules import module

    depth = [0]

    def enter(*_: Any) -> None:
        depth[0] += 1

    def leave(*_: Any) -> None:
        depth[0] = max(0, depth[0] - 1)
        if not depth[0]:
            boundary()

    module.register_module_forward_pre_hook(enter)
    module.register_module_forward_hook(leave, always_call=True)


def on_annotation(name: str, boundary: Boundary) -> None:
    """Call ``boundary`` after every ``record_function(name)`` range."""
    from torch.autograd.profiler import record_function

    leave = record_function.__exit__

    @functools.wraps(leave)
    def wrapped(self: Any, *args: Any) -> Any:
        result = leave(self, *args)
        if self.name == name:
            boundary()
        return result

    record_function.__exit__ = wrapped


_called: list[Boundary] = []
missing: list[str] = []
"""Marked functions that their module turned out not to have."""


def on_function(boundary: Boundary) -> None:
    """Call ``boundary`` whenever the wrapped function returns."""
    _called.append(boundary)


def wrap_function(module: ModuleType, name: str) -> None:
    """Make a function of a module that was just imported tell when it returns."""
    owner: Any = module
    *path, last = name.split(".")
    try:
        for part in path:
            owner = getattr(owner, part)
        held = inspect.getattr_static(owner, last)
    except AttributeError:
        missing.append(f"the module {module.__name__} has no {name}")
        return
    if isinstance(held, (staticmethod, classmethod)):
        setattr(owner, last, type(held)(_telling(held.__func__)))
    else:
        setattr(owner, last, _telling(getattr(owner, last)))


def _telling(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which tells when an outermost call of it returns; one that raises does not."""
    depth = [0]

    @contextmanager
    def call() -> Iterator[None]:
        depth[0] += 1
        try:
            yield
        finally:
            depth[0] -= 1
        if not depth[0]:
            for boundary in _called:
                boundary()

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with call():
            return original(*args, **kwargs)

    @functools.wraps(original)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with call():
            return await original(*args, **kwargs)

    return awaited if inspect.iscoroutinefunction(original) else wrapped
