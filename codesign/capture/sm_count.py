"""A run on some of the SMs: through MPS for any command, as a green context for our own.

Neither needs privilege. MPS limits the processes that connect to its daemon while
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is set; a green context is a part of the GPU's SMs that one
process gives itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from codesign._common.errors import UsageError

_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_PIPE = "CUDA_MPS_PIPE_DIRECTORY"
_STEP = 8
"""SMs that a share may be rounded up by."""


def mps_environment(percent: float, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables under which a command sees ``percent`` of the SMs.

    Raises UsageError outside (0, 100], or if no MPS daemon runs: without one the variable
    would be ignored and the whole GPU measured. One that died leaves its pipe behind, and
    programs go on without it: `limited` looks at what came of it.
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


def limited(environment: Mapping[str, str], sm_count: float, whole: int) -> str:
    """What is doubtful about a run's share of SMs; empty if nothing is.

    ``sm_count``: what the driver reported to the process, which under MPS is its share;
    ``whole``: SMs of the part.
    """
    try:
        share = float(environment.get(_PERCENTAGE, "100")) / 100.0
    except ValueError:
        return ""
    if share >= 1.0 or sm_count <= share * whole + _STEP:
        return ""
    return (
        f"{_PERCENTAGE}={environment[_PERCENTAGE]}, but the process was given {sm_count:.0f} of "
        f"{whole} SMs: is the MPS daemon alive?"
    )


def check_granularity(sms: int, capability: tuple[int, int]) -> None:
    """Raise UsageError unless the driver gives exactly so many SMs to a green context.

    It rounds up to what its partitions come in (cuDevSmResourceSplitByCount), and a sweep
    would then be labelled with SMs that it did not have.
    """
    least, multiple = (8, 8) if capability >= (9, 0) else (4, 2) if capability >= (8, 0) else (2, 2)
    if sms < least or sms % multiple:
        raise UsageError(
            f"--sms {sms}: this GPU gives SMs in multiples of {multiple}, {least} at least"
        )


@contextmanager
def green_context(sms: int | None, device: int) -> Iterator[None]:
    """Everything inside runs on ``sms`` SMs of a GPU; None means all of them.

    Raises UsageError where PyTorch or the driver has no green contexts, or not of this size.
    """
    if sms is None:
        yield
        return
    with ExitStack() as stack:
        try:
            _enter(stack, sms, device)
        except (ImportError, RuntimeError, TypeError, AttributeError) as error:
            text = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(
                f"--sms {sms}: no green context here ({text}); it needs PyTorch 2.9 and CUDA 12.8 "
                "or newer. --sm-percent does the same through MPS"
            ) from error
        yield


def _enter(stack: ExitStack, sms: int, device: int) -> None:
    import torch
    from torch.cuda.green_contexts import GreenContext

    if not torch.cuda.is_available():
        raise RuntimeError("no GPU")
    check_granularity(sms, torch.cuda.get_device_capability(device))
    context = GreenContext.create(num_sms=sms, device_id=device)
    if hasattr(context, "Stream"):
        # A stream takes its SMs along to whichever thread works on it.
        stack.enter_context(torch.cuda.stream(context.Stream()))
    else:  # PyTorch before 2.12: the context is current on this thread only
        context.set_context()
        stack.callback(context.pop_context)
    # Backward would run on a thread of its own, in the context of the whole GPU.
    stack.enter_context(torch.autograd.set_multithreading_enabled(False))
