"""`codesign recommend`: the ranked report of a portfolio."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codesign._common.errors import UsageError
from codesign.cli._common import (
    STDOUT,
    InputPath,
    Progress,
    check_inputs,
    check_overwrite,
    force_option,
    quiet_option,
    warn,
    wrote,
)
from codesign.cli._kinds import expect
from codesign.cli._recommend_fail import check, conditions
from codesign.cli._recommend_plan import planned

if TYPE_CHECKING:
    from codesign.recommend.schema import Recommendations


@click.command("recommend")
@click.argument("portfolio", required=False)
@click.option("--model", "model_path", type=InputPath(),
              help="Model file that `codesign fit` wrote.")  # fmt: skip
@click.option("-o", "--output", "outputs", multiple=True, type=click.Path(path_type=Path),
              help="Report to write: .html, .pdf, .xlsx, .md or .json, or - for stdout; may be "
              "repeated.",
              )  # fmt: skip
@click.option("--format", "stdout_format", type=click.Choice(["json", "md", "html", "xlsx", "pdf"]),
              help="Format of -o -, json by default.")  # fmt: skip
@click.option("--backtest", type=InputPath(),
              help="Backtest file of `codesign backtest`, for its box in the report.")  # fmt: skip
@click.option("--characterizations", type=InputPath(), metavar="DIR",
              help="Folder with RECIPE.parquet files; what is missing is composed.")  # fmt: skip
@click.option("--system", metavar="NAME|FILE", help="Baseline, instead of the portfolio's.")
@click.option("--set", "what_if", multiple=True, metavar="LEVER=CHANGE",
              help="What if the baseline had this already: hbm_bandwidth=+50%, nvlink_domain=72; "
              "commas join several. Its times are the model's. May be repeated.")  # fmt: skip
@click.option("--weights", multiple=True, metavar="NAME=SHARE",
              help="Share of a workload, such as my-sft=0.4 or my-sft=40%; the others share "
              "the rest. May be repeated.")  # fmt: skip
@click.option("--scenario", metavar="NAME",
              help="Rank by the weights of this scenario of the portfolio.")  # fmt: skip
@click.option("--steps", multiple=True, metavar="LEVER=STEP,...",
              help="Steps of a lever instead of the portfolio's, such as hbm_bandwidth=+25%,x2. "
              "May be repeated.")  # fmt: skip
@click.option("--budget", "budgets", multiple=True, metavar="KIND=AMOUNT",
              help="Most that a step may cost per GPU, such as power=100 (W), area=50 (mm2) or "
              "money=200 (USD). May be repeated.")  # fmt: skip
@click.option("--min-gain", metavar="SHARE",
              help="Least gain that is worth a place, such as 2%, instead of the portfolio's.",
              )  # fmt: skip
@click.option("--rank-by", type=click.Choice(["money", "area", "power"]),
              help="Cost that gains are divided by, instead of the portfolio's.")  # fmt: skip
@click.option("--costs", type=InputPath(),
              help="YAML with cost values of your own over the shipped ones.")  # fmt: skip
@click.option("--template", type=InputPath(), metavar="DIR",
              help="Folder of templates that replace or extend the shipped ones.")  # fmt: skip
@click.option("--draws", type=click.IntRange(10, 100_000),
              help="Joint draws, instead of the portfolio's.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), help="Seed, instead of the portfolio's.")
@click.option("--compare", type=InputPath(), metavar="OLD.json",
              help="Older recommendations file: say what changed in the ranking and by what.",
              )  # fmt: skip
@click.option("--compare-model", type=InputPath(), metavar="FILE",
              help="Model that OLD.json was made with: tells new data and a new model apart.",
              )  # fmt: skip
@click.option("--fail-on", multiple=True, metavar="CONDITION",
              help="Exit 5 if the list meets it, such as 'gain<1.02@first', 'p_best<0.5@first', "
              "'measured<0.7', 'firsts>1' over scenarios, or with --compare 'first_changed>0', "
              "'rank_change>2@hbm_bandwidth'. May be repeated.")  # fmt: skip
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file and exit.")
@quiet_option
@force_option
def command(
    portfolio: str | None, model_path: Path | None, outputs: tuple[Path, ...],
    stdout_format: str | None, backtest: Path | None, characterizations: Path | None,
    system: str | None, what_if: tuple[str, ...], weights: tuple[str, ...],
    scenario: str | None, steps: tuple[str, ...], budgets: tuple[str, ...],
    min_gain: str | None, rank_by: str | None, costs: Path | None,
    template: Path | None, draws: int | None, seed: int | None, compare: Path | None,
    compare_model: Path | None, fail_on: tuple[str, ...], schema: bool, quiet: bool, force: bool,
) -> None:  # fmt: skip
    """Rank hardware levers over a PORTFOLIO, a shipped name or a .yaml file.

    Without -o the ranking is printed. The shipped portfolios are default and decode;
    `reports/portfolios/` has them to copy.

    \b
    Example:
      codesign recommend default --model model.json -o report.html -o recommendations.json
      codesign recommend default --model model.json --weights deepseek-v3-pretrain-fp8=0.5
      codesign recommend default --model model.json --set hbm_bandwidth=+50%
      codesign recommend default --model model.json -o - | jq '.recommendations[0]'
      codesign recommend fleet.yaml --model model.json -o new.json --compare old.json \\
        --fail-on 'first_changed>0'
    """
    if schema:
        from codesign.recommend.jsonfile import schema_text

        click.echo(schema_text(), nl=False)
        return
    if portfolio is None or model_path is None:
        raise UsageError("recommend needs a PORTFOLIO and --model; see codesign recommend --help")
    read = {"model": model_path, "backtest": backtest, "costs": costs, "compare": compare,
            "compare-model": compare_model}  # fmt: skip
    check_inputs(**read, characterizations=characterizations, template=template)
    _check_kinds(portfolio, read, system)
    wanted = conditions(fail_on, comparing=compare is not None)
    files = [Path(portfolio), *(p for p in read.values() if p is not None)]
    check_overwrite(outputs, force, inputs=files, stdout=True)
    formats = _formats(outputs, stdout_format, template)
    plan = planned(portfolio, scenario, weights, steps, budgets, min_gain,
                   {"ranking": rank_by, "draws": draws, "seed": seed})  # fmt: skip
    from codesign.cli import _recommend_print as shown
    from codesign.recommend.api import recommend
    from codesign.recommend.portfolio import WEIGHTS_NOTE

    with Progress(f"reading {model_path}", quiet) as progress:
        recs = recommend(plan, model_path, characterizations=characterizations, backtest=backtest,
                         system=system, what_if=what_if, costs=costs, compare=compare,
                         compare_model=compare_model, note=progress.say)  # fmt: skip
        text = _write(recs, outputs, formats, template, progress)
    if STDOUT in outputs:
        click.echo(text, nl=False)
    # The report says all that is to be said; only what was made of the input is told here too.
    for said in plan.notes if outputs else ():
        if said.startswith(WEIGHTS_NOTE):
            warn(said)
    for path in outputs:
        wrote(path, quiet)
    if not outputs:
        shown.ranking(recs)
    elif recs.changes is not None and STDOUT not in outputs and not quiet:
        shown.changes(recs.changes)
    check(recs, wanted)


def _check_kinds(portfolio: str, read: dict[str, Path | None], system: str | None) -> None:
    """Refuse a file of another kind than its option reads, and options without effect."""
    kinds = {"model": "model", "backtest": "backtest", "compare": "recommendations",
             "compare-model": "model"}  # fmt: skip
    others = [portfolio, *read.values()]
    expect("PORTFOLIO", portfolio, ["portfolio"], others[1:])
    for option, kind in kinds.items():
        path = read[option]
        if path is not None:
            expect(f"--{option}", path, [kind], [x for x in others if x != path])
    if system is not None:
        expect("--system", system, ["hardware"])
    if read["compare"] is None and read["compare-model"] is not None:
        raise UsageError("--compare-model goes with --compare OLD.json")


def _write(
    recs: Recommendations, outputs: tuple[Path, ...], formats: list[str], template: Path | None,
    progress: Progress,
) -> str | bytes:  # fmt: skip
    """Write the files. Returns what goes to standard output."""
    from codesign.report.render import FORMATS, render

    text: str | bytes = ""
    for path, suffix in zip(outputs, formats, strict=True):
        progress.say(f"writing {path}")
        if path == STDOUT:
            text = FORMATS[suffix](recs, template)
        else:
            render(recs, path, template)
    return text


def _formats(
    outputs: tuple[Path, ...], stdout_format: str | None, template: Path | None
) -> list[str]:
    """The extension that says the format of each output. Refuses options without effect."""
    from codesign.report.render import TEMPLATED, renderer_of

    suffixes = []
    for path in outputs:
        if path == STDOUT:
            suffixes.append(f".{stdout_format or 'json'}")
            renderer_of(Path(f"report{suffixes[-1]}"))
            if stdout_format in ("xlsx", "pdf") and sys.stdout.isatty():
                raise UsageError(f"-o -: a .{stdout_format} is no text for a terminal; redirect it")
        else:
            renderer_of(path)
            suffixes.append(path.suffix.lower())
    if stdout_format is not None and STDOUT not in outputs:
        raise UsageError("--format goes with -o -; a file's extension says its format")
    if template is not None:
        if not template.is_dir():
            raise UsageError(f"--template {template}: expected a folder of templates")
        if not set(suffixes) & TEMPLATED:
            raise UsageError(
                "--template goes with an output that uses one: -o FILE.html, FILE.pdf or FILE.md"
            )
    return suffixes
