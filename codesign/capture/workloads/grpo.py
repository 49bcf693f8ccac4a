"""The training half of GRPO: sampled answers, their advantages, a reference model."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

import torch

from codesign.capture.workloads.catalog import Sizes
from codesign.capture.workloads.program import Program, described, dtype_of
from codesign.capture.workloads.train import adamw, data_parallel
from codesign.capture.workloads.transformer import Transformer

_CLIP, _KL = 0.2, 0.04
"""Clipping range and weight of the penalty (Shao et al. 2024, arXiv:2402.03300)."""


def _log_probabilities(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """(batch, tokens - 1) log-probability of each token given those before it."""
    told = logits[:, :-1].float().log_softmax(dim=-1)
    return told.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def _unreduced(model: torch.nn.Module) -> AbstractContextManager[object]:
    """Gradients stay with their rank inside, until the last part of a batch has added its own."""
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        kept: AbstractContextManager[object] = model.no_sync()
        return kept
    return nullcontext()


def build(name: str, sizes: Sizes, device: torch.device) -> Program:  # noqa: ARG001
    """One update on ``batch`` prompts with ``group`` answers each, ``batch`` answers at a time.

    Logits of all answers at once are more than a GPU holds, so gradients are accumulated.
    """
    dtype = dtype_of(sizes, device)
    policy = Transformer.on(device, dtype, sizes, sizes.sequence)
    reference = Transformer.on(device, dtype, sizes, sizes.sequence).eval()
    optimizer = adamw(policy, device)
    trained = data_parallel(policy)
    shape = (sizes.group, sizes.batch, sizes.sequence)

    def update(ids: torch.Tensor, advantages: torch.Tensor) -> None:
        with torch.no_grad():
            apart = _log_probabilities(reference(ids), ids)
        new = _log_probabilities(trained(ids), ids)
        ratio = (new - new.detach()).exp()
        clipped = ratio.clamp(1 - _CLIP, 1 + _CLIP)
        gain = torch.minimum(ratio * advantages, clipped * advantages)
        penalty = (apart - new).exp() - (apart - new) - 1
        (-(gain - _KL * penalty).mean() / sizes.group).backward()

    def step() -> None:
        answers = torch.randint(sizes.vocab, shape, device=device)
        rewards = torch.randn(sizes.group, sizes.batch, device=device)
        spread = rewards.std(dim=0, correction=0, keepdim=True) + 1e-6
        advantages = (rewards - rewards.mean(dim=0, keepdim=True)) / spread
        for i in range(sizes.group):
            with nullcontext() if i == sizes.group - 1 else _unreduced(trained):
                update(answers[i], advantages[i].unsqueeze(-1))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    tokens = float(math.prod(shape))
    return Program(step, tokens, described(sizes, policy.parameter_count()))
