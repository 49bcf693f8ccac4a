"""Inference of reinforcement learning: prompts into the KV cache, then token by token."""

from __future__ import annotations

import torch

from codesign.capture.workloads.catalog import Sizes
from codesign.capture.workloads.program import Program, described, dtype_of
from codesign.capture.workloads.transformer import Cache, Transformer


def build(name: str, sizes: Sizes, device: torch.device) -> Program:
    """``rl-prefill``, ``rl-decode`` or ``rl-rollout``."""
    dtype = dtype_of(sizes, device)
    tokens = sizes.sequence + sizes.new_tokens
    model = Transformer.on(device, dtype, sizes, tokens).eval()
    caches = [Cache(sizes, tokens, device, dtype) for _ in range(sizes.layers)]
    last = torch.randint(sizes.vocab, (sizes.batch, 1), device=device)

    def prefill() -> torch.Tensor:
        ids = torch.randint(sizes.vocab, (sizes.batch, sizes.sequence), device=device)
        return model(ids, caches)

    def decode() -> None:
        ids = last
        for i in range(sizes.new_tokens):
            logits = model(ids, caches, sizes.sequence + i)
            ids = logits[:, -1:].float().softmax(dim=-1).argmax(dim=-1)

    parts = {"rl-prefill": [prefill], "rl-decode": [decode], "rl-rollout": [prefill, decode]}
    if name == "rl-decode":
        with torch.no_grad():
            prefill()  # decoding reads what stands in the cache: it must not be zeros

    @torch.no_grad()
    def step() -> None:
        for part in parts[name]:
            part()

    done = {"rl-prefill": sizes.sequence, "rl-decode": sizes.new_tokens}.get(name, tokens)
    return Program(step, float(sizes.batch * done), described(sizes, model.parameter_count()))
