"""Options and flow of `codesign characterize` where something is run on this machine."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codesign.cli._common import InputPath, Progress, warn

if TYPE_CHECKING:
    from codesign.capture.boot.settings import Settings
    from codesign.capture.live import Result


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


def check_live(live: LiveOptions, builtin: bool) -> None:
    """Refuse options that would have no effect."""
    given = live.given()
    if not builtin:
        for option in ("--preset", "--size", "--nproc", "--shapes", "--model"):
            if option in given:
                raise click.UsageError(f"{option} goes with --workload NAME and no command")
    if live.shapes:
        for option in given:
            if option not in ("--preset", "--size", "--shapes", "--model"):
                raise click.UsageError(f"{option} goes with a run; --shapes runs nothing")
    elif live.model is not None:
        raise click.UsageError("--model goes with --shapes")


def builtin_command(name: str, live: LiveOptions) -> list[str]:
    """What runs a built-in workload. Raises UsageError that lists what there is."""
    from codesign.capture.workloads import command_of

    need_torch()
    settings = _settings(live)
    return command_of(name, live.preset or "tiny", live.size, settings.steps_needed + 1, live.nproc)


def need_torch() -> None:
    """Raise UsageError where there is no PyTorch."""
    from codesign._common.errors import UsageError

    if importlib.util.find_spec("torch") is None:
        raise UsageError(
            "this needs PyTorch: run inside a PyTorch container, or pip install 'codesign[live]'"
        )


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
    """Run a command under capture. Raises UsageError, DataError before it is started."""
    from codesign.capture.live import characterize_command, check_writable
    from codesign.hardware import load_system

    check_writable(output)
    if system is not None:
        load_system(system)
    with Progress(f"running {command[0]}", quiet) as progress:
        return characterize_command(
            command, _settings(live, marker),
            workload=workload or output.stem,
            system=system,
            timeout_s=1800.0 if live.timeout is None else live.timeout,
            stop=live.stop,
            keep_traces=output.with_suffix(".traces") if live.keep_trace else None,
            say=progress.say,
        )  # fmt: skip


def end(result: Result, output: Path) -> None:
    """Raise what went wrong with a run, now that its results are safe."""
    kept = f"; what was captured is in {output}, marked incomplete" if _partial(result) else ""
    if result.interruption is not None:
        warn(f"interrupted{kept or '; nothing was captured'}")
        raise result.interruption
    if result.error is not None:
        raise type(result.error)(f"{result.error}{kept or _whole(result, output)}")


def _partial(result: Result) -> bool:
    char = result.characterization
    return char is not None and not char.header.quality.complete


def _whole(result: Result, output: Path) -> str:
    return "" if result.characterization is None else f"; {output} is whole"


def print_workloads() -> None:
    """The built-in workloads, one a line."""
    from codesign.capture.workloads import WORKLOADS

    for workload in WORKLOADS.values():
        click.echo(f"{workload.name:<20} {workload.title}")
