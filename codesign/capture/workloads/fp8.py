"""FP8 linear layers with one scale a tensor, forward and backward through _scaled_mm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from codesign._common.errors import UsageError
from codesign.capture.workloads.catalog import Sizes
from codesign.capture.workloads.program import Program

_E4M3, _E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def quantize(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 values and the scale that they are to be multiplied by."""
    largest = torch.finfo(dtype).max
    scale = x.abs().amax().float().clamp(min=1e-12) / largest
    return (x.float() / scale).clamp(-largest, largest).to(dtype), scale


def _multiply(
    a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor], fast: bool = False
) -> torch.Tensor:
    """(m, k) by (k, n), the second laid out by columns, as the tensor cores take it.

    ``fast``: sums stay in the tensor cores' own narrower registers. Recipes for training
    (Transformer Engine, TorchAO) allow it forward and not for gradients.
    """
    by_column = b[0].t().contiguous().t()
    return torch._scaled_mm(
        a[0].contiguous(), by_column, scale_a=a[1], scale_b=b[1], out_dtype=torch.bfloat16,
        use_fast_accum=fast,
    )  # fmt: skip


class Fp8Matmul(torch.autograd.Function):
    """x W^T: all three products in FP8, gradients with the wider exponent."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """(m, k), (n, k) to (m, n)."""
        narrow_x, narrow_w = quantize(x, _E4M3), quantize(weight, _E4M3)
        ctx.save_for_backward(*narrow_x, *narrow_w)
        return _multiply(narrow_x, (narrow_w[0].t(), narrow_w[1]), fast=True)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of both inputs."""
        x, x_scale, w, w_scale = ctx.saved_tensors
        narrow, scale = quantize(gradient, _E5M2)
        return (
            _multiply((narrow, scale), (w, w_scale)),
            _multiply((narrow.t(), scale), (x, x_scale)),
        )


def build(name: str, sizes: Sizes, device: torch.device) -> Program:
    """Gated MLPs, ``layers`` of them; raises UsageError where the device has no FP8."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 9):
        raise UsageError(f"{name}: {torch.cuda.get_device_name(device)} multiplies no FP8")
    kind = {"device": device, "dtype": torch.bfloat16}
    scale = sizes.hidden**-0.5
    weights = [
        (nn.Parameter(torch.randn(2 * sizes.ffn, sizes.hidden, **kind) * scale),
         nn.Parameter(torch.randn(sizes.hidden, sizes.ffn, **kind) * scale))
        for _ in range(sizes.layers)
    ]  # fmt: skip
    rows = sizes.batch * sizes.sequence

    def step() -> None:
        x = torch.randn(rows, sizes.hidden, **kind, requires_grad=True)
        for gate_up, down in weights:
            gate, up = Fp8Matmul.apply(x, gate_up).chunk(2, dim=-1)
            x = Fp8Matmul.apply(torch.nn.functional.silu(gate) * up, down)
        x.backward(torch.randn_like(x))
        for pair in weights:
            for weight in pair:
                weight.grad = None

    return Program(step, float(rows))
