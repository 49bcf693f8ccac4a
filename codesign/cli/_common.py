"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign._common.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

force_option = click.option("--force", is_flag=True, help="Overwrite the output if it exists.")


def check_overwrite(
    paths: tuple[Path, ...] | list[Path],
    force: bool,
    *,
    inputs: tuple[Path, ...] | list[Path] = (),
    suffix: str = "",
) -> None:
    """Refuse, before any work is done, outputs that cannot or should not be written.

    That is a folder or a device, one of the ``inputs``, another extension than
    ``suffix``, and in interactive use what exists already; scripts may overwrite.
    """
    for path in paths:
        if str(path) in ("-", "."):
            raise UsageError(f"-o {str(path)!r}: expected the name of a file{_such_as(suffix)}")
        if path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "no ordinary file"
            raise UsageError(f"{path}: is {kind}; give the name of a file{_such_as(suffix)}")
        if suffix and path.suffix.lower() != suffix:
            raise UsageError(f"{path}: expected a name that ends in {suffix}")
        for source in inputs:
            if path.exists() and source.exists() and path.samefile(source):
                raise UsageError(f"{path}: is also an input; give another name with -o")
        if path.exists() and not force and sys.stdin.isatty():
            raise UsageError(f"{path}: exists; pass --force to overwrite")


def _such_as(suffix: str) -> str:
    return f", such as run{suffix}" if suffix else ""


def console() -> Console:
    """Tables to stdout; off a terminal at full width, so that nothing is cut from a pipe."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - rich calls this while it handles the error

    width = None if sys.stdout.isatty() else 200
    return _Console(file=sys.stdout, width=width, markup=False, highlight=False)


def note(message: str) -> None:
    """A line of progress: on stderr, and only where someone watches."""
    if sys.stderr.isatty():
        click.echo(message, err=True)
