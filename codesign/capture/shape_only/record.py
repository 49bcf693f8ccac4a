"""Modes that watch what PyTorch is asked to do."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from codesign.capture.shape_only.autocast import cast
from codesign.capture.shape_only.dims import PRECISIONS, row_of, size_bytes

_PASSES = {"Adam": 7, "AdamW": 7, "NAdam": 7, "RAdam": 7, "RMSprop": 5, "Adagrad": 5, "SGD": 3}
"""Reads and writes of an array as large as the parameters, in one fused update."""


class Recorder:
    """Counts distinct calls while a program runs on tensors without content."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[tuple[str, Any], ...]] = Counter()
        self.silent = False
        self.mask: dict[str, Any] = {}
        self.backward_seen = False
        self._stepping = False

    @property
    def phase(self) -> str:
        """Where in the step the program is."""
        if self._stepping:
            return "optimizer"
        if torch._C._current_graph_task_id() != -1:
            self.backward_seen = True
            return "backward"
        return "forward"

    def add(self, row: dict[str, Any], phase: str | None = None) -> None:
        """Count one call of a row."""
        row = {**row, "phase": phase or self.phase}
        self.calls[tuple(sorted((k, v) for k, v in row.items() if v is not None))] += 1

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the ops table, work per step where it is not left to shapes."""
        found = []
        for call, count in self.calls.items():
            row = {**dict(call), "count": float(count)}
            for work in ("flops", "bytes"):
                if work in row:
                    row[work] = float(row[work]) * count
            if not self.backward_seen:
                row.pop("phase", None)
            found.append(row)
        return found

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What happens inside is part of something already counted."""
        before, self.silent = self.silent, True
        try:
            yield
        finally:
            self.silent = before

    def enter_optimizer(self, optimizer: Any, *_: Any) -> None:
        """An optimizer's whole step is one op."""
        self._stepping = self.silent = True
        parameters = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        kind = type(optimizer).__name__
        passes = _PASSES.get(kind)
        if kind == "SGD" and any(g.get("momentum") for g in optimizer.param_groups):
            passes = 5
        row = {
            "op_class": "optimizer", "name": f"{kind}.step",
            "m": sum(p.numel() for p in parameters),
            "precision": PRECISIONS.get(str(parameters[0].dtype).removeprefix("torch."))
            if parameters else None,
        }  # fmt: skip
        if passes:
            row["bytes"] = passes * size_bytes(parameters)
        self.add(row)

    def leave_optimizer(self, *_: Any) -> None:
        """The optimizer's step has ended."""
        self._stepping = self.silent = False


class Dispatches(TorchDispatchMode):
    """Every op that reaches a back end."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        """Run the op, and count it unless it only looks at memory in another way."""
        result = func(*args, **(kwargs or {}))
        if self._recorder.silent or _is_view(func):
            return result
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        outputs = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        name = func.overloadpacket.__name__
        row = row_of(name, inputs, outputs, args, torch.Tag.pointwise in func.tags)
        if row is not None:
            self._recorder.add({"name": f"{func.namespace}::{name}", **row})
        return result


def _is_view(func: Any) -> bool:
    infos = [r.alias_info for r in func._schema.returns]
    return any(i is not None and not i.is_write for i in infos)


class Functions(TorchFunctionMode):
    """Attention and RMSNorm before they are taken apart, and arguments before they are cast.

    Which mask attention has is known only here; a GPU runs the norm as one kernel.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # fmt: skip
        """Count attention as one op, let everything else pass."""
        kwargs = kwargs or {}
        if self._recorder.silent:
            return func(*args, **kwargs)
        args, kwargs = cast(func, args, kwargs)
        if func in _NORMS:
            return _Norm.apply(args[0], self._recorder)
        if func is not _SDPA:
            return func(*args, **kwargs)
        return attend(self._recorder, *args, **kwargs)


@contextmanager
def seen_inside(recorder: Recorder) -> Iterator[None]:
    """Meet products where functions of PyTorch's own call them too: those hide them from a mode."""

    @functools.wraps(_SDPA)
    def attention(*args: Any, **kwargs: Any) -> Any:
        if recorder.silent:
            return _SDPA(*args, **kwargs)
        args, kwargs = cast(_SDPA, args, kwargs)
        return attend(recorder, *args, **kwargs)

    @functools.wraps(_LINEAR)
    def linear(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = (args, kwargs) if recorder.silent else cast(_LINEAR, args, kwargs)
        return _LINEAR(*args, **kwargs)

    functional = torch.nn.functional
    functional.scaled_dot_product_attention, functional.linear = attention, linear
    try:
        yield
    finally:
        functional.scaled_dot_product_attention, functional.linear = _SDPA, _LINEAR


def attend(
    recorder: Recorder, query: Any, key: Any, value: Any, attn_mask: Any = None,
    dropout_p: float = 0.0, is_causal: bool = False, **_: Any,  # noqa: ARG001 - by its place
) -> Any:  # fmt: skip
    """In place of scaled_dot_product_attention, with its parameters in its order."""
    q, k, v = query, key, value
    row = {
        "op_class": "attention", "name": "scaled_dot_product_attention",
        "batch": math.prod(q.shape[:-3]), "heads": q.shape[-3] if q.dim() > 2 else 1,
        "kv_heads": k.shape[-3] if k.dim() > 2 else 1, "q_len": q.shape[-2],
        "head_dim": q.shape[-1], "head_dim_v": v.shape[-1],
        "precision": PRECISIONS.get(str(q.dtype).removeprefix("torch.")),
        **_mask(attn_mask, bool(is_causal), q.shape[-2], k.shape[-2]),
    }  # fmt: skip
    if recorder.mask:
        row |= {**recorder.mask, "kv_len": k.shape[-2]}
    return _Attention.apply(q, k, v, recorder, row)


def _mask(attn_mask: Any, is_causal: bool, q_len: int, kv_len: int) -> dict[str, Any]:
    """``causal`` and ``kv_len`` in the sense of the ops table: the last query sees every key."""
    variant = getattr(getattr(attn_mask, "variant", None), "name", "")
    if variant == "LOWER_RIGHT":  # torch.nn.attention.bias
        return {"causal": True, "kv_len": kv_len}
    if is_causal or variant == "UPPER_LEFT":
        # PyTorch's flag lets the first query see the first key: those past q_len are not read.
        square = kv_len >= q_len
        return {"causal": True if square else None, "kv_len": min(q_len, kv_len)}
    # What an arbitrary mask leaves is not known, unless the program says so.
    return {"causal": False if attn_mask is None else None, "kv_len": kv_len}


_SDPA = torch.nn.functional.scaled_dot_product_attention
_LINEAR = torch.nn.functional.linear
_NORMS = tuple(f for m in (torch, torch.nn.functional) if (f := getattr(m, "rms_norm", None)))


class _Norm(torch.autograd.Function):
    """RMSNorm as one op forward and one backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, recorder: Recorder) -> Any:
        """The shape of ``x``."""
        ctx.recorder = recorder
        ctx.row = {
            "op_class": "norm", "name": "rms_norm", "n": x.shape[-1],
            "m": x.numel() // max(1, x.shape[-1]),
            "precision": PRECISIONS.get(str(x.dtype).removeprefix("torch.")),
        }  # fmt: skip
        recorder.add(ctx.row)
        with recorder.quiet():
            return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """The gradient of the input; that of the weight is inside the same op."""
        recorder: Recorder = ctx.recorder
        recorder.add({**ctx.row, "name": "rms_norm_backward"})
        with recorder.quiet():
            return torch.empty_like(gradient), None


class _Attention(torch.autograd.Function):
    """Output and gradients of the right shapes, and a row for each pass."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, recorder: Recorder, row: dict[str, Any]) -> Any:
        """Shapes (..., heads, q_len, head_dim_v)."""
        ctx.save_for_backward(q, k, v)
        ctx.recorder, ctx.row = recorder, row
        recorder.add(row)
        with recorder.quiet():
            return q.new_empty((*q.shape[:-1], v.shape[-1]))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # noqa: ARG004 - only its place is needed
        """Gradients of the three inputs."""
        recorder: Recorder = ctx.recorder
        recorder.add({**ctx.row, "name": f"{ctx.row['name']}_backward"})
        with recorder.quiet():
            return (*(torch.empty_like(t) for t in ctx.saved_tensors), None, None)
