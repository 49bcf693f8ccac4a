"""The training half of GRPO: sampled answers, their advantages, a reference model."""

from __future__ import annotations

import torch

from codesign.capture.workloads.catalog import Sizes
from codesign.capture.workloads.program import Program, described, dtype_of
from codesign.capture.workloads.train import adamw
from codesign.capture.workloads.transformer import Transformer

_CLIP, _KL = 0.2, 0.04
"""Clipping range and weight of the penalty (Shao et al. 2024, arXiv:2402.03300)."""


def _log_probabilities(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """(batch, tokens - 1) log-probability of each token given those before it."""
    told = logits[:, :-1].float().log_softmax(dim=-1)
    return told.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def build(name: str, sizes: Sizes, device: torch.device) -> Program:  # noqa: ARG001
    """One update on ``batch`` prompts with ``group`` answers each."""
    dtype = dtype_of(sizes, device)
    policy = Transformer(sizes, sizes.sequence).prepare(device, dtype)
    reference = Transformer(sizes, sizes.sequence).prepare(device, dtype).eval()
    optimizer = adamw(policy, device)
    shape = (sizes.batch * sizes.group, sizes.sequence)

    def step() -> None:
        ids = torch.randint(sizes.vocab, shape, device=device)
        rewards = torch.randn(sizes.batch, sizes.group, device=device)
        spread = rewards.std(dim=1, keepdim=True) + 1e-6
        advantages = ((rewards - rewards.mean(dim=1, keepdim=True)) / spread).view(-1, 1)
        with torch.no_grad():
            apart = _log_probabilities(reference(ids), ids)
        new = _log_probabilities(policy(ids), ids)
        ratio = (new - new.detach()).exp()
        clipped = ratio.clamp(1 - _CLIP, 1 + _CLIP)
        gain = torch.minimum(ratio * advantages, clipped * advantages)
        penalty = (apart - new).exp() - (apart - new) - 1
        (-(gain - _KL * penalty).mean()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    tokens = float(shape[0] * shape[1])
    return Program(step, tokens, described(sizes, policy.parameter_count()))
