"""Mixed precision on tensors without content, which PyTorch's own autocast passes by.

Which functions are cast is PyTorch's "Autocast Op Reference" for CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_map

_NARROW = """
    __matmul__ __rmatmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d einsum linear matmul mm mv prelu
    scaled_dot_product_attention
"""
_WIDE = """
    acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity
    cross_entropy dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss layer_norm
    log log10 log1p log2 margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
    nll_loss norm normalize pdist poisson_nll_loss pow reciprocal renorm rsqrt sinh smooth_l1_loss
    soft_margin_loss softplus tan triplet_margin_loss
"""
_WIDE_INSIDE = "cumprod cumsum log_softmax prod softmax softmin sum"
"""They read narrow values and compute and answer in fp32: no cast of its own."""


def _found(names: str) -> frozenset[Any]:
    owners = (torch, torch.Tensor, torch.nn.functional)
    return frozenset(
        getattr(owner, name) for name in names.split() for owner in owners if hasattr(owner, name)
    )


_NARROW_CALLS, _WIDE_CALLS, _INSIDE_CALLS = map(_found, (_NARROW, _WIDE, _WIDE_INSIDE))


def narrow_type() -> Any:
    """The element type (torch.dtype) of the autocast around this code, None if there is none."""
    for kind in ("cuda", "cpu"):
        if torch.is_autocast_enabled(kind):
            return torch.get_autocast_dtype(kind)
    return None


def cast(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments as the autocast around this code would have them."""
    narrow = narrow_type()
    if narrow is None:
        return args, kwargs
    if func in _NARROW_CALLS:
        return _all_to(narrow, args, kwargs)
    if func in _WIDE_CALLS:
        return _all_to(torch.float32, args, kwargs)
    if func in _INSIDE_CALLS and _is_narrow(args[0] if args else None):
        return args, {"dtype": torch.float32, **kwargs}
    return args, kwargs


def _is_narrow(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bfloat16, torch.float16)


def _all_to(dtype: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and (value.dtype == torch.float32 or _is_narrow(value)):
            return value.to(dtype)
        return value

    changed: tuple[Any, dict[str, Any]] = tree_map(one, (args, kwargs))
    return changed


@contextmanager
def allowed() -> Iterator[None]:
    """Inside, ``torch.autocast("cuda")`` is taken as on a machine with a GPU of today."""
    from torch.cuda.amp import common

    before = common.amp_definitely_not_available, torch.cuda.is_bf16_supported
    yes: Callable[..., bool] = lambda *_, **__: True  # noqa: E731
    common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = yes
    try:
        yield
    finally:
        common.amp_definitely_not_available, torch.cuda.is_bf16_supported = before
