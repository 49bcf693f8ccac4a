"""Training steps: pre-training and fine-tuning of a dense or MoE transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from codesign.capture.workloads.catalog import Sizes
from codesign.capture.workloads.program import Program, described, dtype_of
from codesign.capture.workloads.transformer import Transformer


def adamw(model: torch.nn.Module, device: torch.device) -> torch.optim.AdamW:
    """AdamW in one kernel, where the device has it."""
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type in ("cpu", "cuda"))


def data_parallel(model: torch.nn.Module) -> torch.nn.Module:
    """The model, its gradients averaged over all ranks where there are several."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.nn.parallel.DistributedDataParallel(model)
    return model


def build(name: str, sizes: Sizes, device: torch.device) -> Program:
    """``llama-train``, ``llama-sft`` or ``moe-train``."""
    dtype = dtype_of(sizes, device)
    model = Transformer.on(device, dtype, sizes, sizes.sequence, moe=name == "moe-train")
    optimizer = adamw(model, device)
    shape = (sizes.batch, sizes.sequence)
    trained = data_parallel(model)

    def step() -> None:
        ids = torch.randint(sizes.vocab, shape, device=device)
        labels = torch.randint(sizes.vocab, shape, device=device)
        if name == "llama-sft":
            labels[:, : sizes.sequence // 2] = -100  # the prompt is not learned
        logits = trained(ids)
        loss = F.cross_entropy(logits.view(-1, sizes.vocab).float(), labels.view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    tokens = float(sizes.batch * sizes.sequence)
    return Program(step, tokens, described(sizes, model.parameter_count()))
