"""Options and helpers that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codesign._common.errors import UsageError
from codesign._common.text import printable

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Console
    from rich.progress import Progress as Spinner
    from rich.progress import TaskID

FRAMEWORKS = ("trtllm", "vllm", "sglang")
"""Those of `sources.perfdb`, whose import would slow every command down."""
STDOUT = Path("-")
_NEW_FOLDERS = "codesign.new_folders"

force_option = click.option(
    "--force",
    is_flag=True,
    help="Overwrite an output that exists; without it that is refused, in scripts too.",
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True,
    help="No progress, summary or 'wrote' line; what was asked for, warnings and errors stay.",
)  # fmt: skip


class InputPath(click.Path):
    """A file to read. Standard input is none: files are read twice, and named in results."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:  # fmt: skip
        """The path; raises click.BadParameter for ``-``."""
        if str(value) == "-":
            self.fail("standard input is not read; give the name of a file", param, ctx)
        return super().convert(value, param, ctx)


def check_overwrite(
    paths: Sequence[Path],
    force: bool,
    *,
    inputs: Sequence[Path] = (),
    suffix: str = "",
    stdout: bool = False,
) -> None:
    """Refuse, before any work is done, outputs that cannot or should not be written.

    That is a folder or a device, one of the ``inputs``, the same file twice, another
    extension than ``suffix``, and without ``force`` what exists. ``-`` passes only with
    ``stdout``.
    """
    seen: dict[str, Path] = {}
    for path in paths:
        if path == STDOUT and stdout:
            target = str(path)
        else:
            _check_file(path, force, inputs, suffix, stdout)
            target = os.path.realpath(path)
        if target in seen:
            raise UsageError(f"-o {path}: given twice (as {seen[target]}); name each output once")
        seen[target] = path


def _check_file(
    path: Path, force: bool, inputs: Sequence[Path], suffix: str, stdout: bool
) -> None:  # fmt: skip
    if str(path) in ("-", "."):
        reason = "this output is not written to standard output" if path == STDOUT else "a folder"
        raise UsageError(
            f"-o {str(path)!r}: {reason}; expected the name of a file{_such_as(suffix)}"
        )
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no ordinary file"
        hint = "; -o - writes to standard output" if stdout and not path.is_dir() else ""
        raise UsageError(f"{path}: is {kind}; give the name of a file{_such_as(suffix)}{hint}")
    if suffix and path.suffix.lower() != suffix:
        raise UsageError(f"{path}: expected a name that ends in {suffix}")
    missing = None
    for folder in path.absolute().parents:
        if folder.exists():
            if not folder.is_dir():
                raise UsageError(f"{path}: cannot be written: {folder} is no folder")
            break
        missing = folder
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be written: no permission to write in {folder}")
    if missing is not None:
        _new_folders()[os.path.realpath(path)] = missing
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise UsageError(f"{path}: is also an input; give another name with -o")
    if path.exists() and not force:
        raise UsageError(f"{path}: exists; pass --force to overwrite it")


def _new_folders() -> dict[str, Path]:
    """Of this command's outputs, the outermost folder that each makes; by the output's path."""
    context = click.get_current_context(silent=True)
    kept: dict[str, Path] = {} if context is None else context.meta.setdefault(_NEW_FOLDERS, {})
    return kept


def _such_as(suffix: str) -> str:
    return f", such as run{suffix}" if suffix else ""


def check_inputs(**options: Path | None) -> None:
    """Refuse, before any work is done, an input that is not there. Keys name the options."""
    for name, path in options.items():
        if path is not None and not path.exists():
            raise UsageError(f"--{name} {path}: no such file or folder")


def console() -> Console:
    """Tables to stdout; off a terminal at full width, so that nothing is cut from a pipe."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - rich calls this while it handles the error

    width = None if sys.stdout.isatty() else 200
    return _Console(file=sys.stdout, width=width, markup=False, highlight=False)


class Progress:
    """What a long command does at the moment: one moving line with the time it took so far.

    On stderr, and only where someone watches; it is gone when the work is done. Stages of a
    minute stay, one line each, in logs too.
    """

    def __init__(self, text: str, quiet: bool = False) -> None:
        self._text = printable(text)
        self._quiet = quiet
        self._shown = not quiet and sys.stderr.isatty()
        self._spinner: Spinner | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Spinner
            from rich.text import Text

            class _Bar(BarColumn):
                def render(self, task: Any) -> Any:
                    return super().render(task) if task.total else Text("")

            class _Count(TextColumn):
                def render(self, task: Any) -> Text:
                    return super().render(task) if task.total else Text("")

            columns = (
                SpinnerColumn(), TextColumn("{task.description}", markup=False), _Bar(),
                _Count("{task.completed} of {task.total} files"), TimeElapsedColumn(),
            )  # fmt: skip
            self._spinner = Spinner(*columns, console=Console(file=sys.stderr), transient=True)
            self._task = self._spinner.add_task(self._text, total=None)
            self._spinner.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def stage(self, text: str) -> None:
        """A line that stays, on a terminal or not, as a stage of a minute or so begins."""
        if self._spinner is not None:
            self._spinner.console.print(printable(text), markup=False, highlight=False)
            self.say(text)
        elif not self._quiet:
            click.echo(printable(text), err=True)

    def files(self, done: int, total: int) -> None:
        """Show a bar of how many files are read, where there are several."""
        if self._spinner is not None and self._task is not None and total > 1:
            self._spinner.update(self._task, completed=done, total=total)

    def say(self, text: str) -> None:
        """Show ``text`` instead of what stood there."""
        if self._spinner is not None and self._task is not None:
            self._spinner.update(self._task, description=printable(text))


def wrote(path: Path, quiet: bool = False) -> None:
    """Say on stderr that an output is there, how large it is, and which folder was made for it."""
    from codesign._common.units import format_si

    if not quiet and path != STDOUT:
        made = _new_folders().get(os.path.realpath(path))
        new = "" if made is None else f", made the folder {made}"
        size = format_si(path.stat().st_size, "B")
        click.echo(printable(f"wrote {path} ({size}){new}"), err=True)


def evidence_shares(ops: DataFrame) -> tuple[str, dict[str, float]]:
    """What the shares are of, and the share of each evidence, largest first.

    That is what an op adds to its step (its exposed time). A summary by kernel knows no step,
    so nothing of it is exposed: there it is all of the ops' time.
    """
    exposed = float(ops["exposed_s"].sum()) > 0
    column = "exposed_s" if exposed else "time_s"
    parts = ops.groupby("evidence")[column].sum().astype(float).sort_values(ascending=False)
    total_s = float(parts.sum()) or float("nan")
    shares = {str(kind): float(value) / total_s for kind, value in parts.items()}
    return ("busy time" if exposed else "op time"), shares


def warn(message: str) -> None:
    """A warning on stderr, in scripts and under ``--quiet`` too."""
    click.echo(printable(f"warning: {message}"), err=True)


def key_value(option: str, text: str, expected: str, last: bool = False) -> tuple[str, str]:
    """(key, value) of a ``KEY=VALUE`` option; UsageError says what the option expects.

    ``last`` divides at the last equals sign: where a key is a name that may hold one.
    """
    parts = text.rpartition("=") if last else text.partition("=")
    key, equals, value = (part.strip() for part in parts)
    if not (key and equals and value):
        raise UsageError(f"{option} {text!r}: expected {expected}")
    return key, value
