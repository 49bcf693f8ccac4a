"""`codesign recommend`: the ranked report of a portfolio."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign._common.errors import CodesignError, UsageError, one_of
from codesign._common.text import printable
from codesign.cli._common import (
    STDOUT,
    InputPath,
    Progress,
    check_inputs,
    check_overwrite,
    force_option,
    key_value,
    quiet_option,
    warn,
    wrote,
)
from codesign.cli._kinds import expect

if TYPE_CHECKING:
    from codesign.recommend.portfolio import Portfolio, WorkloadEntry
    from codesign.recommend.schema import Recommendations


@click.command("recommend")
@click.argument("portfolio", required=False)
@click.option("--model", "model_path", type=InputPath(),
              help="Model file that `codesign fit` wrote.")  # fmt: skip
@click.option("-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path),
              help="Report to write: .html, .md or .json, or - for stdout; may be repeated.",
              )  # fmt: skip
@click.option("--format", "stdout_format", type=click.Choice(["json", "md", "html"]),
              help="Format of -o -, json by default.")  # fmt: skip
@click.option("--backtest", type=InputPath(),
              help="Backtest file of `codesign backtest`, for its box in the report.")  # fmt: skip
@click.option("--characterizations", type=InputPath(), metavar="DIR",
              help="Folder with RECIPE.parquet files; what is missing is composed.")  # fmt: skip
@click.option("--system", metavar="NAME|FILE", help="Baseline, instead of the portfolio's.")
@click.option("--weights", multiple=True, metavar="NAME=SHARE",
              help="Share of a workload, such as my-sft=0.4 or my-sft=40%; the others share "
              "the rest. May be repeated.")  # fmt: skip
@click.option("--rank-by", type=click.Choice(["money", "area", "power"]),
              help="Cost that gains are divided by, instead of the portfolio's.")  # fmt: skip
@click.option("--costs", type=InputPath(),
              help="YAML with cost values of your own over the shipped ones.")  # fmt: skip
@click.option("--template", type=InputPath(), metavar="DIR",
              help="Folder of templates that replace or extend the shipped ones.")  # fmt: skip
@click.option("--draws", type=click.IntRange(10, 100_000),
              help="Joint draws, instead of the portfolio's.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), help="Seed, instead of the portfolio's.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file and exit.")
@quiet_option
@force_option
def command(
    portfolio: str | None, model_path: Path | None, outputs: tuple[Path, ...],
    stdout_format: str | None, backtest: Path | None, characterizations: Path | None,
    system: str | None, weights: tuple[str, ...], rank_by: str | None, costs: Path | None,
    template: Path | None, draws: int | None, seed: int | None, schema: bool, quiet: bool,
    force: bool,
) -> None:  # fmt: skip
    """Rank hardware levers over a PORTFOLIO, a shipped name or a .yaml file.

    Without -o the ranking is printed. The shipped portfolios are default and decode;
    `reports/portfolios/` has them to copy.

    \b
    Example:
      codesign recommend default --model model.json -o report.html -o recommendations.json
      codesign recommend default --model model.json --weights deepseek-v3-pretrain-fp8=0.5
      codesign recommend default --model model.json -o - | jq '.recommendations[0]'
    """
    if schema:
        from codesign.recommend.jsonfile import schema_text

        click.echo(schema_text(), nl=False)
        return
    if portfolio is None or model_path is None:
        raise UsageError("recommend needs a PORTFOLIO and --model; see codesign recommend --help")
    check_inputs(model=model_path, backtest=backtest, characterizations=characterizations,
                 costs=costs, template=template)  # fmt: skip
    expect("PORTFOLIO", portfolio, ["portfolio"], [model_path, backtest])
    expect("--model", model_path, ["model"], [portfolio, backtest])
    if backtest is not None:
        expect("--backtest", backtest, ["backtest"], [portfolio, model_path])
    if system is not None:
        expect("--system", system, ["hardware"])
    files = [Path(portfolio), *(p for p in (model_path, backtest, costs) if p is not None)]
    check_overwrite(outputs, force, inputs=files, stdout=True)
    formats = _formats(outputs, stdout_format, template)
    plan = _plan(portfolio, weights, {"ranking": rank_by, "draws": draws, "seed": seed})
    from codesign.recommend.api import recommend
    from codesign.recommend.portfolio import WEIGHTS_NOTE
    from codesign.report.render import FORMATS, render

    with Progress(f"reading {model_path}", quiet) as progress:
        recs = recommend(plan, model_path, characterizations=characterizations, backtest=backtest,
                         system=system, costs=costs, note=progress.say)  # fmt: skip
        for path, suffix in zip(outputs, formats, strict=True):
            progress.say(f"writing {path}")
            if path != STDOUT:
                render(recs, path, template)
                continue
            text = FORMATS[suffix](recs, template)
    if STDOUT in outputs:
        click.echo(text, nl=False)
    # The report says all that is to be said; only what was made of the input is told here too.
    for said in plan.notes if outputs else ():
        if said.startswith(WEIGHTS_NOTE):
            warn(said)
    for path in outputs:
        wrote(path, quiet)
    if not outputs:
        _print(recs)


def _formats(
    outputs: tuple[Path, ...], stdout_format: str | None, template: Path | None
) -> list[str]:
    """The extension that says the format of each output. Refuses options without effect."""
    from codesign.report.render import renderer_of

    suffixes = []
    for path in outputs:
        if path == STDOUT:
            suffixes.append(f".{stdout_format or 'json'}")
        else:
            renderer_of(path)
            suffixes.append(path.suffix.lower())
    if stdout_format is not None and STDOUT not in outputs:
        raise UsageError("--format goes with -o -; a file's extension says its format")
    if template is not None:
        if not template.is_dir():
            raise UsageError(f"--template {template}: expected a folder of templates")
        if set(suffixes) <= {".json"}:
            raise UsageError(
                "--template goes with an output that uses one: -o FILE.html or FILE.md"
            )
    return suffixes


def _plan(name: str, weights: tuple[str, ...], changes: dict[str, object]) -> Portfolio:
    """The portfolio with what the command line says over it; what it leaves out stays."""
    import msgspec

    from codesign.recommend.portfolio import load_portfolio, reweighted

    plan = load_portfolio(name)
    given = {key: value for key, value in changes.items() if value is not None}
    plan = msgspec.structs.replace(plan, **given)
    return reweighted(plan, _by_entry(plan, _weights(weights))) if weights else plan


def _by_entry(plan: Portfolio, weights: dict[str, float]) -> dict[str, float]:
    """The weights by the names that the portfolio's entries go by: the stem of each file.

    What a file says of itself is a name, too. Raises UsageError for one that is unknown or
    of several entries, or for one workload given by both.
    """
    if set(weights) <= set(plan.names):
        return weights
    own = {entry.name: _own_name(plan, entry) for entry in plan.workloads}
    found: dict[str, float] = {}
    for asked, weight in weights.items():
        fits = [asked] if asked in own else [name for name, said in own.items() if said == asked]
        if len(fits) != 1:
            known = [f"{n} (named {s})" if s not in ("", n) else n for n, s in own.items()]
            what = f"it names {' and '.join(fits)}" if fits else "unknown workload"
            near = one_of("workload", asked, list(dict.fromkeys([*own, *own.values()]))).partition(
                "; known"
            )[0]
            hint = near.partition("(")[2]
            hint = f" ({hint}" if hint and not fits else ""
            raise UsageError(f"--weights {asked}: {what}{hint}; known: {', '.join(known)}")
        if fits[0] in found:
            raise UsageError(f"--weights: {fits[0]} is given twice, by both of its names")
        found[fits[0]] = weight
    return found


def _own_name(plan: Portfolio, entry: WorkloadEntry) -> str:
    """The ``name`` in a recipe or the ``workload`` in a characterization; empty if unreadable."""
    from codesign.workload.characterization import Characterization
    from codesign.workload.recipe import load_recipe

    try:
        if entry.recipe is not None:
            beside = plan.folder / entry.recipe
            return load_recipe(beside if beside.is_file() else entry.recipe).name
        if entry.characterization is not None:
            return Characterization.load(plan.folder / entry.characterization).header.workload
    except CodesignError:
        pass  # Reading the portfolio says it better.
    return ""


def _weights(texts: tuple[str, ...]) -> dict[str, float]:
    expected = "NAME=SHARE, such as my-sft=0.4 or my-sft=40%"
    found: dict[str, float] = {}
    for text in texts:
        name, share = key_value("--weights", text, expected)
        percent = share.endswith("%")
        try:
            value = float(share.removesuffix("%")) / (100 if percent else 1)
        except ValueError as error:
            raise UsageError(f"--weights {text!r}: expected {expected}") from error
        if name in found:
            raise UsageError(f"--weights: {name} is given twice")
        found[name] = value
    return found


def _print(recs: Recommendations) -> None:
    from codesign.recommend.wording import percent

    click.echo(
        f"{recs.title}: against {recs.baseline_title}, ranked by gain per {recs.ranking_cost}"
    )
    table = [("rank", "lever", "step", "gain", "90 % interval", "P(best)", "status", "ranked by")]
    for r in recs.recommendations:
        best = "-" if r.p_best is None else percent(r.p_best)
        # Of what was not studied or cannot be, the file's gain of 1 is no finding.
        said = r.status not in ("refused", "not_studied")
        table.append((str(r.rank), r.headline, r.label, f"x{r.gain.value:.3f}" if said else "-",
                      f"[{r.gain.lo:.3f}, {r.gain.hi:.3f}]" if said else "-", best,
                      r.status.replace("_", " "),
                      r.ranked_by.partition(" (")[0]))  # fmt: skip
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo(printable("  ".join(cells).rstrip()))
    for s in recs.software:
        click.echo(printable(
            f"software: {s.title}: x{s.gain.value:.3f} [{s.gain.lo:.3f}, {s.gain.hi:.3f}], "
            f"effort {s.effort}, confidence {s.confidence}"
        ))  # fmt: skip
    for lever in recs.levers:
        if not lever.points:
            status = lever.status.replace("_", " ")
            click.echo(printable(f"{status}: {lever.title}: {lever.reason}"))
    for warning in recs.warnings:
        click.echo(printable(f"note: {warning}"))
