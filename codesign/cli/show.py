"""`codesign show`: what a file of codesign's holds, as readable tables."""

from __future__ import annotations

from pathlib import Path

import click

from codesign.cli._common import InputPath


@click.command("show")
@click.argument("file", type=InputPath())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--top", default=15, show_default=True, type=click.IntRange(1, 1000),
              help="Ops to list, by time.")  # fmt: skip
def command(file: Path, as_json: bool, top: int) -> None:
    """Show what a characterization, model, recommendations or backtest file holds.

    FILE may also be a workload recipe, by its name or its .yaml file.

    \b
    Example:
      codesign show run.parquet
      codesign show build/report/recommendations.json
      codesign show llama-3.1-8b-sft
    """
    from codesign.cli._show_views import characterization_view, json_view, print_view, recipe_view

    if file.suffix in (".yaml", ".yml") or (not file.exists() and _is_recipe(str(file))):
        view = recipe_view(str(file), top)
    else:
        kind = _kind(file)
        view = json_view(file) if kind == "json" else characterization_view(file, top)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(view.data), indent=2).decode())
    else:
        print_view(view)


def _is_recipe(name: str) -> bool:
    from codesign.workload.recipe import list_recipes

    return name in list_recipes()


def _kind(path: Path) -> str:
    """``parquet`` or ``json`` by the first bytes. Raises DataError for anything else."""
    from codesign._common.errors import DataError
    from codesign.workload.recipe import list_recipes

    try:
        with path.open("rb") as stream:
            head = stream.read(64)
    except FileNotFoundError as error:
        recipes = ", ".join(list_recipes())
        raise DataError(
            f"{path}: cannot read: no such file, nor a recipe; recipes: {recipes}"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read: {reason}") from error
    if head[:4] == b"PAR1":
        return "parquet"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return "json"
    raise DataError(
        f"{path}: not a file of codesign's (characterization, model, recommendations, backtest, "
        f"recipe); a trace is read with `codesign characterize --from`"
    )
