"""`codesign.capture.shapes`: a step on meta tensors to a modelled characterization."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign.hardware import load_system
from codesign.workload.accounting import add_work, routing_assumption
from codesign.workload.characterization import Characterization, Header, Quality, Reliability
from codesign.workload.schema import ops_frame

if TYPE_CHECKING:
    from codesign.capture.shape_only.record import Recorder
    from codesign.hardware.model import System

_active: list[Recorder] = []
_NOTHING_RAN = "shapes only: nothing was run"


def shapes(
    step: Callable[..., object], *arguments: object, workload: str = "shapes",
    system: System | str | None = None, tokens_per_step: float | None = None,
    model: dict[str, Any] | None = None, phase: str | None = None,
) -> Characterization:  # fmt: skip
    """The ops of one call of ``step`` on tensors without content, evidence ``modelled``.

    ``step`` must be built on the meta device: it takes no memory and no GPU.

        with torch.device("meta"):
            layer, x = MyLayer(), torch.empty(1, 8192, 4096)
            char = codesign.capture.shapes(lambda: layer(x).sum().backward())

    Attention through scaled_dot_product_attention is counted with its causal flag and by
    query heads; `masked` says what another mask leaves. An optimizer's step is one op.

    Args:
        step: what to call; a backward pass and an optimizer's step may be in it.
        arguments: passed to ``step``.
        workload: name.
        system: where times are to be given, as the speed of light of its datasheet.
        tokens_per_step: for the header, as are ``model`` and ``phase``.

    Raises InsufficientDataError if the step did nothing, DataError if it asks for values.
    """
    recorder = _recorded(step, arguments)
    rows = recorder.rows()
    if not rows:
        raise InsufficientDataError(f"{workload}: the step computed nothing on tensors")
    ops = ops_frame([{"evidence": "modelled", **row} for row in rows])
    if phase is not None and not recorder.backward_seen:
        ops["phase"] = ops["phase"].fillna(phase)
    ops = add_work(ops)
    where = load_system(system) if isinstance(system, str) else system
    times: dict[str, Any] = {}
    if where is not None:
        ops = speed_of_light(ops, where)
        times = {"system": where.name, "step_time_s": float(ops["time_s"].sum())}
    unreliable = Reliability(False, (_NOTHING_RAN,))
    header = Header(
        workload=workload, phase=phase, tokens_per_step=tokens_per_step, model=model,
        capture_method="shapes on the meta device", software=_software(),
        assumptions=routing_assumption(ops), quality=Quality(
            reliability=dict.fromkeys(("idle", "launch", "exposed", "step_time"), unreliable),
            warnings=(f"{_NOTHING_RAN}; times, where there are any, are modelled",
                      *_uncounted(ops)),
        ),
        **{"system": None, **times},
    )  # fmt: skip
    return Characterization(header, ops)


def _uncounted(ops: pd.DataFrame) -> Iterator[str]:
    """Which products the FLOPs leave out: a sum of what is known looks like all there is."""
    products = ops["op_class"].isin(["gemm", "grouped_gemm", "attention", "conv", "other"])
    unknown = ops[products & ops["flops"].isna()]
    calls = unknown.groupby(unknown["name"].astype(str))["count"].sum()
    if len(calls):
        names = ", ".join(f"{name} ({count:g})" for name, count in calls.items())
        masks = bool((unknown["op_class"] == "attention").any())
        hint = "; say what the mask is with codesign.capture.masked" if masks else ""
        yield f"FLOPs that are not known are left out, by calls: {names[:500]}{hint}"


@contextmanager
def masked(*, causal: bool = True, window: int | None = None) -> Iterator[None]:
    """Attention inside has this mask, whatever is passed to it: for sliding windows.

    ``window``: keys that a query sees, its own included. Outside of `shapes` it does nothing.
    """
    recorder = _active[-1] if _active else None
    before = recorder.mask if recorder else {}
    if recorder:
        recorder.mask = {"causal": causal, "window": window}
    try:
        yield
    finally:
        if recorder:
            recorder.mask = before


def speed_of_light(ops: pd.DataFrame, system: System) -> pd.DataFrame:
    """The ops with the time that the datasheet's peaks leave, at least a launch each.

    FLOPs at the dense peak of their precision or bytes at the HBM's bandwidth, whichever
    takes longer: a lower bound, labelled so. Rows whose work is unknown get a launch.
    """
    gpu = system.gpu
    flops = ops["flops"].to_numpy(dtype=float, na_value=0.0)
    moved = ops["bytes"].to_numpy(dtype=float, na_value=0.0)
    count = ops["count"].to_numpy(dtype=float)
    rates = np.full(len(ops), np.inf)
    for i, precision in enumerate(ops["precision"].astype(object)):
        if flops[i] > 0 and isinstance(precision, str):
            rates[i] = _rate(system, precision)
    time = np.maximum(flops / rates, moved / gpu.hbm_bandwidth_bytes_per_s)
    time = np.maximum(time, count * system.launch_latency_s)
    filled = pd.array(time, dtype="Float64")
    return ops.assign(
        time_s=filled, exposed_s=filled,
        source=pd.Series(f"speed of light of {system.name}", index=ops.index, dtype="string"),
    )  # fmt: skip


def _rate(system: System, precision: str) -> float:
    try:
        return system.gpu.peak_flops_per_s(precision)
    except UsageError as error:
        raise UsageError(f"{system.name}: {error}") from error


def on_meta(make: Callable[[Any], Any]) -> Any:
    """What ``make`` builds on the meta device, which it is given."""
    import torch

    from codesign.capture.shape_only.autocast import allowed

    device = torch.device("meta")
    with allowed(), device:
        made = make(device)
    return made


def _recorded(step: Callable[..., object], arguments: tuple[object, ...]) -> Recorder:
    import torch
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    from codesign.capture.shape_only.autocast import allowed
    from codesign.capture.shape_only.record import (
        Dispatches,
        Functions,
        Recorder,
        seen_inside,
    )

    recorder = Recorder()
    _active.append(recorder)
    hooks = (register_optimizer_step_pre_hook(recorder.enter_optimizer),
             register_optimizer_step_post_hook(recorder.leave_optimizer))  # fmt: skip
    try:
        # What the step makes on no device in particular has no content either.
        modes = (torch.device("meta"), Functions(recorder), Dispatches(recorder))
        with seen_inside(recorder), allowed(), modes[0], modes[1], modes[2]:
            step(*arguments)
    except (RuntimeError, NotImplementedError) as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        if "meta" not in text[0].lower() and "data-dependent" not in text[0].lower():
            raise
        raise DataError(
            f"the step asks for values, and there are only shapes: {text[0]}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
        _active.remove(recorder)
    return recorder


def _software() -> dict[str, str]:
    import torch

    return {"torch": str(torch.__version__)}
