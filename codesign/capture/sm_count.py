"""A run on some of the SMs: through MPS for any command, as a green context for our own.

Neither needs privilege. MPS limits the processes that connect to its daemon while
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is set; a green context is a part of the GPU's SMs that one
process gives itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from codesign._common.errors import UsageError

_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_PIPE = "CUDA_MPS_PIPE_DIRECTORY"


def mps_environment(percent: float, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables under which a command sees ``percent`` of the SMs.

    Raises UsageError outside (0, 100], or if no MPS daemon runs: without one the variable
    would be ignored and the whole GPU measured.
    """
    if not 0 < percent <= 100:
        raise UsageError(f"--sm-percent {percent:g}: expected more than 0 and at most 100")
    known = os.environ if environment is None else environment
    pipe = Path(known.get(_PIPE, "/tmp/nvidia-mps"))  # noqa: S108 - MPS's own default
    if not (pipe / "control").exists():
        raise UsageError(
            f"--sm-percent: no MPS daemon answers in {pipe}; start one with "
            "nvidia-cuda-mps-control -d (no privilege needed), or name its folder in "
            f"{_PIPE}"
        )
    return {_PERCENTAGE: f"{percent:g}"}


@contextmanager
def green_context(sms: int | None, device: int) -> Iterator[None]:
    """Everything inside runs on ``sms`` SMs of a GPU; None means all of them.

    Raises UsageError where PyTorch or the driver has no green contexts.
    """
    if sms is None:
        yield
        return
    try:
        from torch.cuda.green_contexts import GreenContext

        context = GreenContext.create(num_sms=sms, device_id=device)
        context.set_context()
    except (ImportError, RuntimeError, TypeError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"--sms {sms}: no green context here ({text}); it needs PyTorch 2.9 and CUDA 12.8 or "
            "newer. --sm-percent does the same through MPS"
        ) from error
    try:
        yield
    finally:
        context.pop_context()
