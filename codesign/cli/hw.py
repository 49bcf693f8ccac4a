"""`codesign hw`: list, show, check and compare the hardware library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from codesign._common.errors import CheckFailedError, DataError, UsageError, one_of
from codesign._common.text import counted, printable
from codesign.cli._common import console
from codesign.cli._kinds import expect

if TYPE_CHECKING:
    from rich.table import Table

    from codesign.hardware.compare import Quantity
    from codesign.hardware.model import Gpu, System

_LABELS = (
    "label: read = as in the source; derived, recalled, disputed, assumed, measured = as the "
    "note says"
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("hw")
def command() -> None:
    """List, show, check and compare the hardware library.

    A NAME is that of a GPU or a system, an exact device name such as "NVIDIA H200",
    or the path of a YAML file. Folders in the environment variable CODESIGN_HWSPECS
    are searched before the shipped ones.

    \b
    Example:
      codesign hw list
      codesign hw diff hgx-h100 hgx-h200
    """


@command.command("list")
@_json_option
def list_command(as_json: bool) -> None:
    """List the GPUs and systems.

    \b
    Example:
      codesign hw list --json
    """
    from codesign._common.units import format_si
    from codesign.hardware import list_gpus, list_systems, load_gpu, load_system

    gpus = [load_gpu(name) for name in list_gpus()]
    systems = [load_system(name) for name in list_systems()]
    measured = _measured()
    if as_json:
        _print_json({
            "gpus": [{"name": g.name, "architecture": g.architecture, "status": g.status,
                      "aliases": list(g.aliases),
                      "measured_kernels": None if measured is None else g.name in measured}
                     for g in gpus],
            "systems": [{"name": s.name, "title": s.title, "gpu": s.gpu.name,
                         "nvlink_domain": s.nvlink_domain, "status": s.status} for s in systems],
        })  # fmt: skip
        return
    table = _table(
        "GPU", "architecture", "SMs", "dense BF16", "HBM", "capacity", "kernels", "status"
    )
    for gpu in gpus:
        table.add_row(
            gpu.name, gpu.architecture, str(gpu.sm_count), _wide_peak(gpu),
            format_si(gpu.hbm_bandwidth_bytes_per_s, "B/s"),
            format_si(gpu.hbm_capacity_bytes, "B"),
            "measured" if gpu.name in (measured or ()) else "-", gpu.status,
        )  # fmt: skip
    console().print(table)
    click.echo(
        "kernels measured: recipes can be composed for its systems; others need traces\n"
        if measured is not None
        else "kernels: not known without the extra: pip install 'codesign[perfdb]'\n"
    )
    table = _table("system", "GPU", "NVLink domain", "per direction", "scale-out", "status")
    for system in systems:
        table.add_row(
            system.name, system.gpu.name, str(system.nvlink_domain),
            format_si(system.nvlink_bandwidth_bytes_per_s, "B/s"),
            format_si(system.scaleout_bandwidth_bytes_per_s * 8, "b/s"), system.status,
        )  # fmt: skip
    console().print(table)


@command.command("show")
@click.argument("name")
@_json_option
def show_command(name: str, as_json: bool) -> None:
    """Show one GPU or system: each value with its label and source.

    \b
    Example:
      codesign hw show b300-sxm
      codesign hw show "NVIDIA H200" --json
    """
    from dataclasses import asdict

    found = _find(name)
    if as_json:
        _print_json({
            kind: {"name": record.name, "status": record.status,
                   "quantities": [asdict(row) for row in rows]}
            for kind, (record, rows) in found.items()
        })  # fmt: skip
        return
    numbers: dict[str, int] = {}
    for kind, (record, rows) in found.items():
        click.echo(printable(f"{kind} {record.name} ({record.status})"))
        table = _table("key", "value", "label", "source", "note")
        for row in rows:
            number = numbers.setdefault(row.source, len(numbers) + 1) if row.source else 0
            cited = f"[{number}]" if number else ""
            table.add_row(*map(printable, (row.path, row.text, row.label, cited, row.note)))
        console().print(table)
    for source, number in numbers.items():
        click.echo(printable(f"[{number}] {source}"))
    click.echo(_LABELS)


@command.command("check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
def check_command(files: tuple[Path, ...]) -> None:
    """Check FILES, or the whole library with its experiments: units, dense peaks, clocks, links.

    Exits with 5 if a file fails.

    \b
    Example:
      codesign hw check
      codesign hw check my-gpu.yaml
    """
    from codesign.hardware.load import ProblemsError, check_library, spec_files
    from codesign.projection.experiments.records import check_file, experiment_files

    problems = [] if files else check_library()
    paths = list(files) or [*(path for _, path in spec_files()), *experiment_files()]
    for path in paths:
        if not path.exists():
            raise DataError(f"{path}: cannot read: no such file")
        try:
            expect("FILE", path, ["hardware"])
            check_file(path)
        except ProblemsError as error:
            problems += error.problems
        except (DataError, UsageError) as error:
            problems.append(str(error))
    problems = list(dict.fromkeys(problems))
    for problem in problems:
        click.echo(printable(problem), err=True)
    if problems:
        raise CheckFailedError(
            f"{counted(len(problems), 'problem')} in {counted(len(paths), 'file')}"
        )
    click.echo(f"{counted(len(paths), 'file')} checked, no problems")


@command.command("diff")
@click.argument("a")
@click.argument("b")
@_json_option
@click.option("--all", "show_all", is_flag=True, help="Also print what is equal.")
def diff_command(a: str, b: str, as_json: bool, show_all: bool) -> None:
    """Compare two GPUs or two systems: the ratio B / A of each quantity that differs.

    Of a GPU and a system, the system's GPU is compared, and a line says so.

    \b
    Example:
      codesign hw diff h100-sxm h200-sxm
    """
    from dataclasses import asdict

    from codesign.hardware.compare import differences
    from codesign.report.formatting import factor

    left, right = _find(a), _find(b)
    kinds = [kind for kind in left if kind in right]
    if not kinds:
        raise UsageError(
            f"{a!r} is a {', '.join(left)} and {b!r} a {', '.join(right)}; "
            f"compare two GPUs or two systems"
        )
    said = [_gpu_only(name, found) for name, found in ((a, left), (b, right))
            if set(left) != set(right) and "system" in found]  # fmt: skip
    # A system brings its GPU, so that its diff is the whole of it.
    rows = [d for kind in kinds for d in differences(left[kind][1], right[kind][1])]
    moved = [row.path for row in rows if row.moved]
    if as_json:
        _print_json({"a": a, "b": b, "compared": kinds, "moved": moved,
                     "quantities": [asdict(r) for r in rows]})  # fmt: skip
        return
    for line in said:
        click.echo(printable(line))
    table = _table("key", printable(a), printable(b), "ratio")
    for row in rows:
        if row.moved or show_all:
            ratio = "" if row.ratio is None else factor(row.ratio)
            table.add_row(*map(printable, (row.path, row.a, row.b, ratio)))
    if moved or show_all:
        console().print(table)
    click.echo(f"moved: {', '.join(moved) or 'nothing'}")


def _gpu_only(name: str, found: dict[str, tuple[Gpu | System, list[Quantity]]]) -> str:
    return f"{name} is a system, the other a GPU: only its GPU, {found['gpu'][0].name}, is compared"


def _measured() -> list[str] | None:
    """GPUs with measured kernels; None without the extra that brings them."""
    from codesign.sources.perfdb import PerfDB

    try:
        return PerfDB().gpus()
    except UsageError:
        return None


def _find(name: str) -> dict[str, tuple[Gpu | System, list[Quantity]]]:
    """What ``name`` is, with its quantities; a system brings its GPU along."""
    from codesign.hardware import list_gpus, list_systems, load_gpu, load_system
    from codesign.hardware.compare import gpu_quantities, system_quantities
    from codesign.hardware.load import is_system_file

    expect("NAME", name, ["hardware"])
    gpu: Gpu
    # A name may be both a GPU's and a system's (h100-nvl): then both are shown.
    if name in list_systems() or is_system_file(name):
        system = load_system(name)
        gpu = system.gpu
        return {
            "system": (system, system_quantities(system)),
            "gpu": (gpu, gpu_quantities(gpu)),
        }
    try:
        gpu = load_gpu(name)
    except UsageError as error:
        known = [*list_gpus(), *list_systems()]
        raise UsageError(
            f"{one_of('GPU or system', name, known)}; or give the path of a YAML file"
        ) from error
    return {"gpu": (gpu, gpu_quantities(gpu))}


def _wide_peak(gpu: Gpu) -> str:
    from codesign._common.units import format_si

    peaks = gpu.peak_dense_flops_per_s
    if "bf16" in peaks:
        return format_si(peaks["bf16"], "FLOP/s", 4)
    return f"{format_si(peaks['fp16'], 'FLOP/s', 4)} (FP16)" if "fp16" in peaks else "none"


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print_json(value: Any) -> None:
    import json

    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
