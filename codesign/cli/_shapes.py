"""`codesign characterize --shapes`: a workload's ops without running it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign._common.errors import CodesignError, DataError, UsageError

if TYPE_CHECKING:
    from codesign.workload.characterization import Characterization


def characterize_shapes(
    name: str, preset: str, sizes: Sequence[str], system: str | None, model: Path | None
) -> Characterization:
    """The ops of a built-in workload, or of what the function ``MODULE:NAME`` returns.

    Times only with a system: by the sensitivity model in ``model`` where it covers an op,
    else the speed of light. Raises UsageError for a workload, function or model that is none.
    """
    from codesign.capture.shape_only import shapes
    from codesign.capture.workloads.catalog import sizes_of, workload_of
    from codesign.hardware import load_system

    if model is not None and system is None:
        raise UsageError("--model needs --system: it says on which hardware the ops take how long")
    where = None if system is None else load_system(system)
    if ":" in name:
        step = _step_of(name)
        with _theirs(name):
            char = shapes(step, workload=name, system=where)
    else:
        workload = workload_of(name)
        changed = sizes_of(name, preset, sizes)
        program = _on_meta(lambda device: _build(name, changed, device))
        char = shapes(
            program.step, workload=name, system=where, tokens_per_step=program.tokens,
            model=program.model or None, phase=workload.phase,
        )  # fmt: skip
    return char if model is None else _predicted(char, model)


def _build(name: str, sizes: Any, device: Any) -> Any:
    from codesign.capture.workloads.__main__ import build

    return build(name, sizes, device)


def _on_meta(make: Callable[[Any], Any]) -> Any:
    from codesign.capture.shape_only import on_meta

    return on_meta(make)


def _step_of(name: str) -> Callable[[], object]:
    """What ``MODULE:NAME`` returns, built on the meta device."""
    module, _, function = name.partition(":")
    sys.path.insert(0, "")  # as `python -m` has it: the folder one stands in
    try:
        with _theirs(name):
            factory = getattr(importlib.import_module(module), function, None)
            step = factory if factory is None else _on_meta(lambda _: factory())
    except ImportError as error:
        raise UsageError(f"--workload {name}: {error}; expected MODULE:FUNCTION") from error
    finally:
        sys.path.remove("")
    if factory is None:
        raise UsageError(
            f"--workload {name}: {module} has no {function!r}; expected MODULE:FUNCTION"
        )
    if not callable(step):
        raise UsageError(
            f"--workload {name}: returned {type(step).__name__}, expected a step to call"
        )
    return step  # type: ignore[no-any-return]


@contextmanager
def _theirs(name: str) -> Iterator[None]:
    """What goes wrong inside is the user's code, not ours."""
    try:
        yield
    except (CodesignError, ImportError):
        raise
    except Exception as error:
        text = (str(error).strip().splitlines() or [""])[0]
        raise DataError(f"--workload {name}: {type(error).__name__}: {text}") from error


def _predicted(char: Characterization, path: Path) -> Characterization:
    """Times of the sensitivity model, where it covers an op."""
    from codesign.hardware import load_system
    from codesign.sensitivity import load_model
    from codesign.workload.characterization import Characterization

    model = load_model(path)
    assert char.header.system is not None
    found = model.predict(char.ops, load_system(char.header.system), in_sample=True)
    times = found["time_s"].astype("Float64")
    source = char.ops["source"].where(found["tier"] == "held", f"sensitivity model {path.name}")
    ops = char.ops.assign(time_s=times, exposed_s=times, source=source.astype("string"))
    return Characterization(char.header, ops).with_header(step_time_s=float(times.sum()))
