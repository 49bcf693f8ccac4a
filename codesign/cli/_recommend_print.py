"""What `codesign recommend` says on the terminal: the list, scenarios, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from codesign._common.text import printable

if TYPE_CHECKING:
    from codesign.recommend.change_records import Changes, Scenario, ScenarioRank
    from codesign.recommend.schema import Recommendation, Recommendations


def ranking(recs: Recommendations) -> None:
    """The ranked list, software, what was refused, warnings; then scenarios and changes."""
    from codesign.recommend.wording import percent

    click.echo(printable(
        f"{recs.title}: against {recs.baseline_title}, ranked by gain per {recs.ranking_cost}"
    ))  # fmt: skip
    table = [("rank", "lever", "step", "gain", "90 % interval", "P(best)", "status", "ranked by")]
    for r in recs.recommendations:
        best = "-" if r.p_best is None else percent(r.p_best)
        # Of what was not studied or cannot be, the file's gain of 1 is no finding.
        said = r.status not in ("refused", "not_studied")
        table.append((str(r.rank), r.headline, r.label, f"x{r.gain.value:.3f}" if said else "-",
                      f"[{r.gain.lo:.3f}, {r.gain.hi:.3f}]" if said else "-", best,
                      _status(r),
                      r.ranked_by.partition(" (")[0]))  # fmt: skip
    _table(table)
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
    if recs.scenarios:
        scenarios(recs.scenarios)
    if recs.changes is not None:
        changes(recs.changes)


def _status(r: Recommendation) -> str:
    """The status, with a verdict that puts an identified lever behind ones that gain less."""
    behind = r.verdict in ("marginal", "uncertain", "over_budget", "contradicted")
    words: list[str] = [r.status, *([str(r.verdict)] if behind and r.verdict != r.status else [])]
    return ", ".join(word.replace("_", " ") for word in words)


def scenarios(found: Sequence[Scenario]) -> None:
    """Rank and gain of each lever under each scenario's weights."""
    click.echo()
    by_lever = [{r.lever: r for r in s.ranks} for s in found]
    table = [("rank by scenario", *(s.name for s in found))]
    for first in found[0].ranks:
        cells = [ranks[first.lever] for ranks in by_lever]
        table.append((first.title, *(f"{r.rank}  {_scenario_gain(r)}" for r in cells)))
    _table(table)


def _scenario_gain(rank: ScenarioRank) -> str:
    """As in the list: of what was not studied or cannot be, a gain of 1 is no finding."""
    silent = rank.verdict in ("open", "none") and rank.gain.lo == rank.gain.hi == 1.0
    return "-" if silent else f"x{rank.gain.value:.3f}"


def changes(found: Changes) -> None:
    """What changed against the older file, and by what."""
    click.echo()
    click.echo(printable(f"against {found.old or 'the older file'} of {found.old_made}: "
                         f"{found.summary}"))  # fmt: skip
    for cause in found.causes:
        click.echo(printable(f"changed: {cause.name}: {'; '.join(cause.what)} ({cause.how})"))
    table = [
        ("lever", "rank", *(f"after {stage}" for stage in found.stages), "gain", "by, at one step")
    ]
    for x in found.levers:
        if x.rank_before == x.rank_after and all(abs(g - 1) < 5e-4 for g in x.gains.values()):
            continue
        before, after = ("-" if r is None else str(r) for r in (x.rank_before, x.rank_after))
        gains = [
            "-" if g is None else f"{label.partition(':')[0]} x{g.value:.3f}"
            for label, g in ((x.label_before, x.gain_before), (x.label_after, x.gain_after))
        ]
        by = ", ".join(f"{stage} x{g:.3f}" for stage, g in x.gains.items() if abs(g - 1) >= 5e-4)
        by += f" at x{x.factor:.3g}" if by and x.factor is not None else ""
        table.append((
            x.title, f"{before} -> {after}",
            *(str(x.ranks.get(stage, "-")) for stage in found.stages),
            f"{gains[0]} -> {gains[1]}", by or "-",
        ))  # fmt: skip
    if len(table) > 1:
        _table(table)
    for note in found.notes:
        click.echo(printable(f"note: {note}"))


def _table(lines: Sequence[tuple[str, ...]]) -> None:
    shown = [[printable(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in shown) for i in range(len(shown[0]))]
    for line in shown:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
