"""Entry point: finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from codesign._common.errors import CodesignError, DataError
from codesign._common.text import middle_cut, printable

_TRACEBACK_VARIABLE = "CODESIGN_TRACEBACK"
"""Environment variable: if set, an error is shown as Python shows it."""
_LINE_LIMIT = 4000

# command -> (module, attribute, short help); modules load only when their command
# runs, so that `codesign --help` does not wait for pandas.
_COMMANDS = {
    "characterize": ("characterize", "Run a script under capture, read traces, compose a recipe."),
    "show": ("show", "Show what a characterization, model or recommendation file holds."),
    "fit": ("fit", "Fit the sensitivity model, with diagnostics."),
    "project": ("project", "Project a characterization onto other hardware."),
    "recommend": ("recommend", "Rank hardware levers over a portfolio and write the report."),
    "backtest": ("backtest", "Score projections on GPUs that the model has not seen."),
    "hw": ("hw", "List, show, check and compare the hardware library."),
    "doctor": ("doctor", "What is installed, which GPU, what to do next."),
}


class _ReaderGoneError(Exception):
    """Nobody reads standard output any more."""


class _LazyGroup(click.Group):
    # Click would end with code 1 where a reader has gone; it does so on OSError only.
    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError as error:
            raise _ReaderGoneError from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGoneError from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"codesign.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="codesign")
def cli() -> None:
    """Which hardware change is worth most, by what the workloads measurably do.

    \b
    Example, from measured kernels to a ranked report:
      codesign characterize --recipe llama-3.1-8b-sft -o sft.parquet
      codesign fit -o model.json
      codesign recommend default --model model.json -o report.html
    """


def main() -> None:
    """Run the command line. The only place that prints an error and exits."""
    # Sums over a varying number of threads differ in the last bits, and badly conditioned
    # directions of a fit turn that into visible ones. NumPy is not imported yet.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _prepare_streams()
    signal.signal(signal.SIGTERM, _stop)
    try:
        cli.main(prog_name="codesign", standalone_mode=False)
        sys.stdout.flush()
    except (_ReaderGoneError, BrokenPipeError):
        # The reader (head, less) has gone: nothing is wrong and nothing can be said.
        code = 0
    except Exception as error:
        if os.environ.get(_TRACEBACK_VARIABLE):
            raise
        code = _report(error)
    else:
        return
    _leave(code)


def _prepare_streams() -> None:
    """Streams that can take any text, even on a legacy console or where one is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Or else the next file that is opened would become the stream.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _stop(number: int, frame: object) -> None:  # noqa: ARG001
    # As an exception, so that half-written files are removed on the way out.
    raise SystemExit(128 + number)


def _report(error: Exception) -> int:
    """Say in one line what went wrong. Returns the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    text, code = _line(error)
    with contextlib.suppress(OSError):
        click.echo(middle_cut(printable(text), _LINE_LIMIT), err=True)
    return code


def _line(error: Exception) -> tuple[str, int]:
    if isinstance(error, click.exceptions.Abort):
        return "interrupted", 130
    if isinstance(error, click.ClickException):
        text = error.format_message()
        context = getattr(error, "ctx", None)
        if context is not None:
            text = f"{text.rstrip('.')}; see {context.command_path} --help"
        return f"codesign: {text}", error.exit_code
    if isinstance(error, CodesignError):
        return f"codesign: {error}", error.exit_code
    if isinstance(error, OSError) and error.strerror:
        place = error.filename if isinstance(error.filename, str) else "standard output"
        return f"codesign: {place}: {error.strerror}", DataError.exit_code
    if isinstance(error, MemoryError):
        return "codesign: not enough memory; use a smaller input or a larger machine", 1
    return (
        f"codesign: internal error: {type(error).__name__}: {error}; please report it, with what "
        f"{_TRACEBACK_VARIABLE}=1 prints before it",
        CodesignError.exit_code,
    )


def _leave(code: int) -> None:
    """Exit, dropping output that can no longer be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
