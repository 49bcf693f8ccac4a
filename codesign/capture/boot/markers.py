"""What ends a step: an optimizer's step, a forward pass, a function's return, an annotation.

``optimizer``            the step of the optimizer that steps least often (a GAN's generator,
                         the last of several that step in turn)
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


class OptimizerSteps:
    """Which optimizer's step ends a step of the workload.

    Of all that stepped during the warm-up the one that did least often, since a workload's
    step holds them all; among equals the one that came last in the first round. An optimizer
    that shows up later starts the choice anew; one that others leave far behind, since the
    program has put another in its place, is forgotten.
    """

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        """Steps of each, in the order of their first ones."""
        self.names: dict[int, str] = {}
        self._chosen: int | None = None
        self._switched = False
        self._behind: dict[int, int] = {}
        self._patience = 6

    def stepped(
        self, optimizer: Any, decide: bool, fixed: bool = False
    ) -> tuple[bool, int | None]:  # fmt: skip
        """Count one; returns (this ends a step, steps that ended before if they were miscounted).

        ``decide``: the warm-up is over, so it is time to choose. ``fixed``: steps are being
        profiled, so that what a step is must not change any more.
        """
        key = id(optimizer)
        if fixed and self._chosen is not None:
            return key == self._chosen, None
        new = key not in self.counts
        self.names[key] = type(optimizer).__name__
        self.counts[key] = self.counts.get(key, 0) + 1
        if self._leader_is_gone(key) or (new and self._chosen is not None):
            self._anew()
            return False, 0
        first = next(iter(self.counts))
        if self._chosen is None and decide:
            fewest = min(self.counts.values())
            self._chosen = [k for k, n in self.counts.items() if n == fewest][-1]
            # The steps so far ended with the first one; what began then is no whole step.
            self._switched = self._chosen != first
            self._behind = {}
        if self._chosen is None:
            return key == first, None
        if key != self._chosen:
            return False, None
        switched, self._switched = self._switched, False
        return True, self.counts[key] - 1 if switched else None

    def _leader_is_gone(self, key: int) -> bool:
        """Whether the one that ends steps has not been seen for long; then it is forgotten."""
        leader = next(iter(self.counts)) if self._chosen is None else self._chosen
        self._behind[key] = self._behind.get(key, 0) + 1
        if key == leader:
            self._behind = {}
        if self._behind.get(key, 0) <= self._patience:
            return False
        self._patience *= 4  # it may only be slow, and come again
        self.counts = {key: 1}  # and so may others
        return True

    def _anew(self) -> None:
        self._chosen = None
        self._switched = False
        self._behind = {}
        self.counts = dict.fromkeys(self.counts, 1)


def in_backward() -> bool:
    """Whether this thread is inside of a backward pass, where no profiler may start or end.

    Autograd puts back the thread's state after each of its nodes: the profiler would lose its own.
    """
    import torch

    task: int = torch._C._current_graph_task_id()
    return task != -1


class InBackward:
    """Stands for all optimizers that step while gradients come, each with its own parameters."""


def on_optimizer(stepped: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``stepped`` with every optimizer that has stepped; returns what ends that.

    Those that step inside of a backward pass count as one, when the pass is over.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    inside: list[InBackward] = []

    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
        if not in_backward():
            stepped(optimizer)
        elif not inside:
            inside.append(together)

    def after() -> None:
        if inside and not in_backward():
            stepped(inside.pop())

    together = InBackward()
    hook._torchdynamo_disable = True  # type: ignore[attr-defined] # a compiled step is not traced in here
    handle = register_optimizer_step_post_hook(hook)
    restore = _after_backward(after)

    def remove() -> None:
        handle.remove()
        restore()

    return remove


def _after_backward(after: Callable[[], None]) -> Callable[[], None]:
    """Call ``after`` whenever a backward pass has ended; returns what ends that."""
    from torch import autograd

    name = "_engine_run_backward"
    original = getattr(autograd, name, None)
    if original is None:  # another version of PyTorch: such steps are not found
        return lambda: None

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        after()
        return result

    wrapped._torchdynamo_disable = True  # type: ignore[attr-defined]
    setattr(autograd, name, wrapped)

    def restore() -> None:
        if getattr(autograd, name) is wrapped:
            setattr(autograd, name, original)

    return restore


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
