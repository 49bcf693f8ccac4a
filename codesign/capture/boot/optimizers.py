"""Steps by optimizers: which of them ends one, and those that step while gradients come."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


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
