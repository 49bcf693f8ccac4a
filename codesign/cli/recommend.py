"""`codesign recommend`: the ranked report of a portfolio."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign._common.errors import UsageError
from codesign.cli._common import check_overwrite, force_option, note

if TYPE_CHECKING:
    from codesign.recommend.portfolio import Portfolio
    from codesign.recommend.schema import Recommendations


@click.command("recommend")
@click.argument("portfolio", required=False)
@click.option("--model", "model_path", type=click.Path(path_type=Path),
              help="Model file that `codesign fit` wrote.")  # fmt: skip
@click.option("-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path),
              help="Report to write: .html, .md or .json; may be repeated.")  # fmt: skip
@click.option("--backtest", type=click.Path(path_type=Path),
              help="Backtest file of `codesign backtest`, for its box in the report.")  # fmt: skip
@click.option("--characterizations", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder with RECIPE.parquet files; what is missing is composed.")  # fmt: skip
@click.option("--system", metavar="NAME", help="Baseline, instead of the portfolio's.")
@click.option("--weights", multiple=True, metavar="NAME=SHARE",
              help="Weight of a workload; the others share the rest. May be repeated.")  # fmt: skip
@click.option("--rank-by", type=click.Choice(["money", "area", "power"]),
              help="Cost that gains are divided by, instead of the portfolio's.")  # fmt: skip
@click.option("--costs", type=click.Path(path_type=Path),
              help="YAML with cost values of your own over the shipped ones.")  # fmt: skip
@click.option("--template", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder of templates that replace or extend the shipped ones.")  # fmt: skip
@click.option("--draws", type=click.IntRange(10, 100_000),
              help="Joint draws, instead of the portfolio's.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), help="Seed, instead of the portfolio's.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file and exit.")
@force_option
def command(
    portfolio: str | None, model_path: Path | None, outputs: tuple[Path, ...],
    backtest: Path | None, characterizations: Path | None, system: str | None,
    weights: tuple[str, ...], rank_by: str | None, costs: Path | None, template: Path | None,
    draws: int | None, seed: int | None, schema: bool, force: bool,
) -> None:  # fmt: skip
    """Rank hardware levers over a PORTFOLIO, a shipped name or a .yaml file.

    Without -o the ranking is printed.

    \b
    Example:
      codesign recommend default --model model.json -o report.html -o recommendations.json
      codesign recommend default --model model.json --weights deepseek-v3-pretrain-fp8=0.5
    """
    if schema:
        from codesign.recommend.jsonfile import schema_text

        click.echo(schema_text(), nl=False)
        return
    if portfolio is None or model_path is None:
        raise UsageError("recommend needs a PORTFOLIO and --model; see codesign recommend --help")
    check_overwrite(outputs, force)
    from codesign.recommend.api import recommend
    from codesign.report import render
    from codesign.report.render import renderer_of

    for path in outputs:
        renderer_of(path)
    plan = _plan(portfolio, weights, {"ranking": rank_by, "draws": draws, "seed": seed})
    note(f"studying {len(plan.workloads)} workloads with {plan.draws} draws")
    recs = recommend(plan, model_path, characterizations=characterizations, backtest=backtest,
                     system=system, costs=costs)  # fmt: skip
    for path in outputs:
        render(recs, path, template)
        note(f"wrote {path}")
    if not outputs:
        _print(recs)


def _plan(name: str, weights: tuple[str, ...], changes: dict[str, object]) -> Portfolio:
    """The portfolio with what the command line says over it; what it leaves out stays."""
    import msgspec

    from codesign.recommend.portfolio import load_portfolio, reweighted

    plan = load_portfolio(name)
    given = {key: value for key, value in changes.items() if value is not None}
    plan = msgspec.structs.replace(plan, **given)
    return reweighted(plan, _weights(weights)) if weights else plan


def _weights(texts: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        name, equals, share = text.rpartition("=")
        try:
            value = float(share.strip().removesuffix("%")) / (
                100 if share.strip()[-1:] == "%" else 1
            )
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--weights {text!r}: expected NAME=SHARE, such as my-sft=0.4")
        if name.strip() in found:
            raise UsageError(f"--weights: {name.strip()} is given twice")
        found[name.strip()] = value
    return found


def _print(recs: Recommendations) -> None:
    from codesign.recommend.wording import percent

    click.echo(
        f"{recs.title}: against {recs.baseline_title}, ranked by gain per {recs.ranking_cost}"
    )
    table = [("rank", "lever", "step", "gain", "90 % interval", "P(best)", "status", "ranked by")]
    for r in recs.recommendations:
        best = "-" if r.p_best is None else percent(r.p_best)
        table.append((str(r.rank), r.headline, r.label, f"x{r.gain.value:.3f}",
                      f"[{r.gain.lo:.3f}, {r.gain.hi:.3f}]", best, r.status.replace("_", " "),
                      r.ranked_by.partition(" (")[0]))  # fmt: skip
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    for warning in recs.warnings:
        click.echo(f"note: {warning}")
