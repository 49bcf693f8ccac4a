"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from codesign._common.errors import UsageError

force_option = click.option("--force", is_flag=True, help="Overwrite the output if it exists.")


def check_overwrite(paths: tuple[Path, ...] | list[Path], force: bool) -> None:
    """Refuse to overwrite in interactive use; scripts and pipelines may."""
    if force or not sys.stdin.isatty():
        return
    for path in paths:
        if path.exists():
            raise UsageError(f"{path}: exists; pass --force to overwrite")


def note(message: str) -> None:
    """A line of progress: on stderr, and only where someone watches."""
    if sys.stderr.isatty():
        click.echo(message, err=True)
