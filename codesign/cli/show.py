"""`codesign show`: what a file of codesign's holds, as readable tables."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("show")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--top", default=15, show_default=True, type=click.IntRange(1, 1000),
              help="Ops to list, by time.")  # fmt: skip
def command(file: str, as_json: bool, top: int) -> None:
    """Show what a characterization, model, recommendations or backtest file holds.

    FILE may also be a workload recipe, by its name or its .yaml file.

    \b
    Example:
      codesign show run.parquet
      codesign show build/report/recommendations.json
      codesign show llama-3.1-8b-sft
    """
    from codesign.cli._show_views import characterization_view, json_view, print_view, recipe_view

    path = Path(file)
    if path.suffix in (".yaml", ".yml") or (not path.exists() and _is_recipe(file)):
        view = recipe_view(file, top)
    elif _starts_like_json(path):
        view = json_view(path)
    else:
        view = characterization_view(path, top)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(view.data), indent=2).decode())
    else:
        print_view(view)


def _is_recipe(name: str) -> bool:
    from codesign.workload.recipe import list_recipes

    return name in list_recipes()


def _starts_like_json(path: Path) -> bool:
    """Whether the first character that is not a blank opens a JSON value."""
    from codesign._common.errors import DataError

    try:
        with path.open("rb") as stream:
            return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
