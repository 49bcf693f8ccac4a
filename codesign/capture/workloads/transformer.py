"""A Llama-like transformer: GQA, rotary positions, SwiGLU or MoE, RMSNorm, SDPA, KV cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from codesign.capture.workloads.catalog import Sizes


class Cache:
    """Keys and values of one layer, room for every token kept from the start."""

    def __init__(self, sizes: Sizes, tokens: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = (sizes.batch, sizes.kv_heads, tokens, sizes.head_dim)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)

    def extend(
        self, at: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new tokens from ``at`` on; returns all keys and values so far."""
        end = at + keys.shape[2]
        self.keys[:, :, at:end] = keys
        self.values[:, :, at:end] = values
        return self.keys[:, :, :end], self.values[:, :, :end]


def rotary(
    tokens: int, head_dim: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """(tokens, head_dim) cosines and sines of rotary positions, base 10000."""
    inverse = 10000.0 ** (-torch.arange(0, head_dim, 2, device=device).float() / head_dim)
    angles = torch.outer(torch.arange(tokens, device=device).float(), inverse)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: torch.Tensor, positions: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Turn (batch, heads, tokens, head_dim) by the positions."""
    cosines, sines = positions
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-second, first], dim=-1) * sines


class Attention(nn.Module):
    """Grouped-query attention through scaled_dot_product_attention."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.sizes = s
        self.qkv = nn.Linear(s.hidden, (s.heads + 2 * s.kv_heads) * s.head_dim, bias=False)
        self.out = nn.Linear(s.heads * s.head_dim, s.hidden, bias=False)

    def forward(
        self, x: torch.Tensor, positions: tuple[torch.Tensor, torch.Tensor],
        cache: Cache | None = None, at: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        """(batch, tokens, hidden) to the same."""
        s = self.sizes
        batch, tokens, _ = x.shape
        mixed = self.qkv(x).view(batch, tokens, s.heads + 2 * s.kv_heads, s.head_dim)
        q, k, v = mixed.transpose(1, 2).split([s.heads, s.kv_heads, s.kv_heads], dim=1)
        q, k = rotate(q, positions), rotate(k, positions)
        if cache is not None:
            k, v = cache.extend(at, k, v)
        mixed = F.scaled_dot_product_attention(
            q, k, v, is_causal=tokens > 1, enable_gqa=s.heads != s.kv_heads
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, -1))


class SwiGlu(nn.Module):
    """Gated MLP, gate and up in one matrix."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.gate_up = nn.Linear(s.hidden, 2 * s.ffn, bias=False)
        self.down = nn.Linear(s.ffn, s.hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., hidden) to the same."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Moe(nn.Module):
    """Routed experts: each token to its top k, all experts in two grouped GEMMs."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.topk, self.experts = s.topk, s.experts
        self.router = nn.Linear(s.hidden, s.experts, bias=False)
        scale = s.hidden**-0.5
        self.gate_up = nn.Parameter(torch.randn(s.experts, s.hidden, 2 * s.ffn) * scale)
        self.down = nn.Parameter(torch.randn(s.experts, s.ffn, s.hidden) * scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., hidden) to the same."""
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(tokens).softmax(dim=-1).topk(self.topk, dim=-1)
        order = chosen.reshape(-1).argsort()
        ends = F.one_hot(chosen.reshape(-1), self.experts).sum(0).cumsum(0).to(torch.int32)
        rows = tokens[order // self.topk]
        gate, up = torch._grouped_mm(rows, self.gate_up, offs=ends).chunk(2, dim=-1)
        done = torch._grouped_mm(F.silu(gate) * up, self.down, offs=ends)
        done = done * weights.reshape(-1)[order].unsqueeze(-1)
        return torch.zeros_like(tokens).index_add(0, order // self.topk, done).view(x.shape)


class Layer(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, s: Sizes, moe: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(s.hidden) for _ in range(2))
        self.attention = Attention(s)
        self.mlp = Moe(s) if moe else SwiGlu(s)

    def forward(
        self, x: torch.Tensor, positions: tuple[torch.Tensor, torch.Tensor],
        cache: Cache | None = None, at: int = 0,
    ) -> torch.Tensor:  # fmt: skip
        """(batch, tokens, hidden) to the same."""
        x = x + self.attention(self.norms[0](x), positions, cache, at)
        return x + self.mlp(self.norms[1](x))


class Transformer(nn.Module):
    """Token ids to logits."""

    def __init__(self, s: Sizes, tokens: int, moe: bool = False) -> None:
        super().__init__()
        self.sizes, self.tokens = s, tokens
        self.embedding = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(Layer(s, moe) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.hidden)
        self.head = nn.Linear(s.hidden, s.vocab, bias=False)

    @classmethod
    def on(
        cls, device: torch.device, dtype: torch.dtype, s: Sizes, tokens: int, moe: bool = False
    ) -> Transformer:
        """Made where it runs and as it is kept: a large one fits nowhere else, nor is made soon."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with device:
                made = cls(s, tokens, moe)
        finally:
            torch.set_default_dtype(before)
        made.positions = rotary(tokens, s.head_dim, device, dtype)
        return made

    def forward(
        self, ids: torch.Tensor, caches: list[Cache] | None = None, at: int = 0
    ) -> torch.Tensor:
        """(batch, tokens) ids to (batch, tokens, vocab) logits."""
        cosines, sines = self.positions
        place = slice(at, at + ids.shape[1])
        positions = (cosines[place], sines[place])
        x = self.embedding(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, positions, caches[i] if caches else None, at)
        return self.head(self.norm(x))

    def parameter_count(self) -> int:
        """Elements of all parameters."""
        return sum(p.numel() for p in self.parameters())
