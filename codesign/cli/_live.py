"""Options and flow of `codesign characterize` where something is run on this machine."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codesign.cli._common import InputPath, Progress, warn

if TYPE_CHECKING:
    from codesign.capture.boot.settings import Settings
    from codesign.capture.live import Result


_OLDEST_TORCH = (2, 5)


@dataclass(frozen=True)
class LiveOptions:
    """What a live run may be told; None where nothing was."""

    steps: int | None
    warmup: int | None
    baseline: int | None
    ranks: str | None
    step_marker: str | None
    timeout: float | None
    stop: bool
    keep_trace: bool
    preset: str | None
    size: tuple[str, ...]
    nproc: int | None
    shapes: bool
    model: Path | None
    calibrate: bool
    sms: int | None
    sm_percent: float | None
    lock_clock: float | None
    allow_clock_control: bool

    def given(self) -> list[str]:
        """Options that were given, as they are written."""
        return [
            f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if getattr(self, field.name) not in (None, False, ())
        ]


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--steps", type=click.IntRange(1, 1000), metavar="N",
                 help="Live run: steps to profile.  [default: 5]"),
    click.option("--warmup", type=click.IntRange(0, 1_000_000), metavar="N",
                 help="Live run: steps to skip first.  [default: 3]"),
    click.option("--baseline", type=click.IntRange(0, 1000), metavar="N",
                 help="Live run: steps to time without the profiler.  [default: 3]"),
    click.option("--ranks", metavar="N,N...",
                 help="Live run: ranks to profile.  [default: all]"),
    click.option("--step-marker", metavar="WHAT",
                 help="Live run: what ends a step: optimizer (default), forward, "
                      "function:MODULE:NAME, annotation:NAME."),
    click.option("--timeout", type=click.FloatRange(min=1.0), metavar="SECONDS",
                 help="Live run: end a command that has not been captured by then.  "
                      "[default: 1800]"),
    click.option("--stop", is_flag=True, help="Live run: end the command once it is captured."),
    click.option("--keep-trace", is_flag=True,
                 help="Live run: keep the raw traces in FILE.traces/."),
    click.option("--preset", metavar="NAME",
                 help="Built-in workload: tiny (default), small, llama-8b, llama-70b."),
    click.option("--size", multiple=True, metavar="KEY=VALUE",
                 help="Built-in workload: change a size, such as layers=8; may be repeated."),
    click.option("--nproc", type=click.IntRange(1, 1024), metavar="N",
                 help="Built-in workload: ranks to run, one a GPU.  [default: 1]"),
    click.option("--shapes", is_flag=True,
                 help="Count the ops of --workload NAME, or MODULE:FUNCTION, without running it."),
    click.option("--model", type=InputPath(), metavar="FILE",
                 help="With --shapes: sensitivity model that gives the times on --system."),
    click.option("--calibrate", is_flag=True,
                 help="Measure single ops here, for codesign fit --database: --preset tiny, "
                      "standard (default), full."),
    click.option("--sms", type=click.IntRange(1), metavar="N",
                 help="Built-in workload: run on N SMs, as a green context."),
    click.option("--sm-percent", type=float, metavar="PERCENT",
                 help="Live run: on so much of the SMs, through a running MPS daemon."),
    click.option("--lock-clock", type=click.FloatRange(100, 10_000), metavar="MHZ",
                 help="Live run: hold the SM clock meanwhile; needs root and "
                      "--allow-clock-control."),
    click.option("--allow-clock-control", is_flag=True,
                 help="Allow --lock-clock to change the clocks of this machine's GPUs."),
)  # fmt: skip


def live_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a live run to a command, which gets them as one, ``live``."""

    @functools.wraps(function)
    def wrapper(**options: Any) -> Any:
        live = LiveOptions(**{f.name: options.pop(f.name) for f in fields(LiveOptions)})
        return function(live=live, **options)

    result: Callable[..., Any] = wrapper
    for option in reversed(_OPTIONS):
        result = option(result)
    return result


def check_live(live: LiveOptions, files: Sequence[str], workload: str | None) -> None:
    """Refuse options that would have no effect."""
    given = live.given()
    builtin = workload is not None and not files
    if live.calibrate:
        if files or workload:
            raise click.UsageError("--calibrate goes with no workload and no command")
        for option in given:
            if option not in ("--calibrate", "--preset", "--nproc"):
                raise click.UsageError(f"{option} does not go with --calibrate")
    elif not builtin:
        for option in ("--preset", "--size", "--nproc", "--shapes", "--model", "--sms"):
            if option in given:
                raise click.UsageError(f"{option} goes with --workload NAME and no command")
    if (live.lock_clock is not None) != live.allow_clock_control:
        raise click.UsageError("--lock-clock and --allow-clock-control go together")
    if live.shapes:
        for option in given:
            if option not in ("--preset", "--size", "--shapes", "--model"):
                raise click.UsageError(f"{option} goes with a run; --shapes runs nothing")
    elif live.model is not None:
        raise click.UsageError("--model goes with --shapes")


def run_live(
    live: LiveOptions, files: Sequence[str], workload: str | None, *, output: Path,
    system: str | None, quiet: bool,
) -> Result:  # fmt: skip
    """Calibrate, count shapes, run a built-in workload or the command ``files``."""
    from codesign.capture.live import Result, check_writable
    from codesign.hardware import load_system

    check_writable(output)
    if system is not None:
        load_system(system)
    if live.calibrate:
        return run_calibration(live, output=output, system=system, quiet=quiet)
    builtin = workload is not None and not files
    if builtin and workload and live.shapes:
        from codesign.cli._shapes import characterize_shapes

        need_torch()
        with Progress(f"counting the ops of {workload}", quiet):
            return Result(characterize_shapes(
                workload, live.preset or "tiny", live.size, system, live.model
            ))  # fmt: skip
    return run_command(
        builtin_command(workload, live) if builtin and workload else files, live,
        output=output, workload=workload, system=system, quiet=quiet,
        marker="explicit" if builtin else "optimizer",
    )  # fmt: skip


def builtin_command(name: str, live: LiveOptions) -> list[str]:
    """What runs a built-in workload. Raises UsageError that lists what there is."""
    from codesign.capture.workloads import command_of

    need_torch()
    settings = _settings(live)
    return command_of(
        name, live.preset or "tiny", live.size, settings.steps_needed + 1, live.nproc, live.sms
    )


def need_torch() -> None:
    """Raise UsageError where there is no PyTorch, or one that is too old."""
    import re
    from importlib.metadata import PackageNotFoundError, version

    from codesign._common.errors import UsageError

    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            "this needs PyTorch: run inside a PyTorch container, or pip install 'codesign[live]'"
        )
    try:
        found = version("torch")
    except PackageNotFoundError:  # built in place: nothing says how old it is
        return
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < _OLDEST_TORCH:
        raise UsageError(f"this needs PyTorch {_OLDEST_TORCH[0]}.{_OLDEST_TORCH[1]} or newer, "
                         f"not {found}")  # fmt: skip


def _settings(live: LiveOptions, marker: str = "optimizer") -> Settings:
    from codesign._common.errors import UsageError
    from codesign.capture.boot.settings import Settings

    try:
        ranks = None if live.ranks is None else tuple(int(r) for r in live.ranks.split(","))
    except ValueError:
        raise UsageError(f"--ranks {live.ranks!r}: expected numbers such as 0,1,7") from None
    return Settings(
        folder="",
        steps=5 if live.steps is None else live.steps,
        warmup=max(1, 3 if live.warmup is None else live.warmup),
        baseline=3 if live.baseline is None else live.baseline,
        marker=live.step_marker or marker,
        ranks=ranks,
    )


def run_command(
    command: Sequence[str], live: LiveOptions, *, output: Path, workload: str | None,
    system: str | None, quiet: bool, marker: str = "optimizer",
) -> Result:  # fmt: skip
    """Run a command under capture."""
    from codesign._common.errors import DataError
    from codesign.capture.clock_control import locked_clock
    from codesign.capture.live import characterize_command
    from codesign.capture.sm_count import mps_environment

    settings = _settings(live, marker)
    extra = {} if live.sm_percent is None else mps_environment(live.sm_percent)
    clock_hz = None if live.lock_clock is None else live.lock_clock * 1e6
    result = None
    with Progress(f"running {command[0]}", quiet) as progress:
        try:
            with nullcontext() if clock_hz is None else locked_clock(clock_hz):
                result = characterize_command(
                    command, settings,
                    workload=workload or output.stem,
                    system=system,
                    timeout_s=1800.0 if live.timeout is None else live.timeout,
                    stop=live.stop,
                    keep_traces=output.with_suffix(".traces") if live.keep_trace else None,
                    extra=extra,
                    held_clock_hz=clock_hz,
                    say=progress.say,
                )  # fmt: skip
        except DataError as error:
            if result is None:
                raise
            # The clocks were not let go; what was captured under them is none the worse.
            result = replace(result, error=error)
    return result


def goes_on(live: LiveOptions, output: Path) -> bool:
    """Whether ``output`` is what a calibration that broke off left: the next may replace it."""
    if not live.calibrate:
        return False
    from codesign.capture.calibrate.run import journal_path

    return journal_path(output).exists()


def check_traces(live: LiveOptions, output: Path, force: bool) -> None:
    """Refuse to replace the traces of an earlier run, unless forced."""
    if not live.keep_trace or force:
        return
    from codesign._common.errors import UsageError
    from codesign.capture.live import kept_traces

    folder = output.with_suffix(".traces")
    if kept_traces(folder):
        raise UsageError(f"{folder}: holds traces; pass --force to overwrite them")


def run_calibration(live: LiveOptions, *, output: Path, system: str | None, quiet: bool) -> Result:
    """Measure single ops on this machine. Raises UsageError without PyTorch."""
    from codesign.capture.calibrate import calibrate

    need_torch()
    with Progress("calibrating", quiet) as progress:
        return calibrate(
            output, effort=live.preset or "standard", ranks=live.nproc or 1, system=system,
            say=progress.say,
        )  # fmt: skip


def end(result: Result, output: Path) -> None:
    """Raise what went wrong with a run, now that its results are safe."""
    if result.journal is not None:
        result.journal.unlink(missing_ok=True)
    kept = _kept(result, output)
    if result.interruption is not None:
        warn(f"interrupted{kept or '; nothing was captured'}")
        raise result.interruption
    if result.error is not None:
        raise type(result.error)(f"{result.error}{kept}")


def _kept(result: Result, output: Path) -> str:
    """What there is in spite of what went wrong, empty if nothing."""
    char = result.characterization
    if char is None:
        return ""
    if char.header.quality.complete:
        return f"; {output} is whole"
    return f"; what was captured is in {output}, marked incomplete"


def print_workloads() -> None:
    """The built-in workloads, one a line."""
    from codesign.capture.workloads import WORKLOADS

    for workload in WORKLOADS.values():
        click.echo(f"{workload.name:<20} {workload.title}")
