"""The answer: one sentence, key figures, and the ranked table."""

from __future__ import annotations

from typing import NamedTuple

from codesign.recommend.schema import (
    FirstByCost,
    Interval,
    OpShare,
    Recommendation,
    Recommendations,
)
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Footnotes, Table, make_table
from codesign.report.text import ellipsis, sentence
from codesign.report.views import costs, odds
from codesign.report.views.backtest import COMPOSED, half_width, median, over_wide, scored_words
from codesign.report.views.packages import summary as package_summary
from codesign.report.views.terms import STATUS_WORDS, VERDICT_WORDS

# Below this, even the optimistic end of an interval is not worth building.
NEGLIGIBLE_GAIN = 1.01


NO_GAIN = ("refused", "not_studied")
"""Statuses of a lever of whose gain nothing is said."""


WORTH = ("first", "strong", "costly", "unpriced", "untested")
"""Verdicts on levers that gain enough and that nothing speaks against."""
ASSUMED_INTERVAL = (
    "Its effect is assumed. The interval covers only what is modelled: whether the assumption "
    "holds is not in it"
)


class Figure(NamedTuple):
    """A key figure of the summary."""

    value: str
    label: str
    detail: str


def worthwhile(rec: Recommendation) -> bool:
    """Whether the gain is above nothing by its whole interval."""
    return gains_enough(rec.gain)


def gains_enough(gain: Interval) -> bool:
    """Whether a gain is above nothing by its whole interval."""
    return gain.lo > 1.0 and gain.hi >= NEGLIGIBLE_GAIN


def worth_it(rec: Recommendation) -> bool:
    """Whether it may be advised: it gains for sure, and enough by the rule of the file."""
    return worthwhile(rec) and (rec.verdict is None or rec.verdict in WORTH)


def head(recs: Recommendations) -> Recommendation | None:
    """The first line that is worth it; else that with the largest gain of which one is said."""
    said = [r for r in recs.recommendations if r.status not in NO_GAIN]
    worth = next((r for r in said if worth_it(r)), None)
    return worth or max(said, key=lambda r: (worthwhile(r), r.gain.value, -r.rank), default=None)


def headline(recs: Recommendations) -> str:
    """The answer in one sentence: what first, its gain, cost, and how sure."""
    first = head(recs)
    if first is None:
        return "No recommendation: nothing was studied that the data could rank."
    if not worth_it(first):
        return (
            f"No lever studied is worth its place: the largest gain, that of "
            f"{step_in_words(first)}, is {gain_in_words(first)} over the portfolio."
        )
    cost = costs.in_words(first.cost, first.gain_per_cost, recs.ranking_cost)
    if first.verdict == "untested":
        return (
            f"No lever that measurements identify is worth its place. Of those that none has "
            f"tested, {step_in_words(first)} comes first: the portfolio would gain "
            f"{gain_in_words(first)}, and {cost}. Test it before you invest."
        )
    fleet = fleet_gain(recs, first)
    floor = costs.is_bounded_above(first.cost, recs)
    if fleet is not None and (fleet.hi if floor else fleet.value) < 1.0:
        kind = recs.packages[0].kind
        return (
            f"No lever returns more than the same {kind} spent on more GPUs as they are. Of the "
            f"levers, {step_in_words(first)} is first: the portfolio gains {gain_in_words(first)}, "
            f"{fleet_words(recs, first)}, and {cost}."
        )
    return (
        f"Invest first in {step_in_words(first)}: the portfolio gains {gain_in_words(first)}, "
        f"{fleet_words(recs, first)}{', ' if fleet else ''}and {cost}."
    )


def fleet_gain(recs: Recommendations, rec: Recommendation) -> Interval | None:
    """What ``rec`` gains a fleet that costs no more than today's; None where that is not known."""
    return recs.packages[0].alone.get(rec.lever) if recs.packages else None


def fleet_words(recs: Recommendations, rec: Recommendation) -> str:
    """``x1.003 [0.996, 1.012] at the power of today's fleet``; empty where it is not known."""
    fleet = fleet_gain(recs, rec)
    if fleet is None:
        return ""
    bound = "at least " if costs.is_bounded_above(rec.cost, recs) else ""
    return f"{bound}{fmt.gain(fleet)} at the {recs.packages[0].kind} of today's fleet"


def _fleet_line(recs: Recommendations, rec: Recommendation) -> str:
    """The same under a heading that says what it is: ``≥ x1.003 [0.996, 1.012] at equal power``."""
    words = fleet_words(recs, rec).partition(" at the ")[0].replace("at least ", "≥ ")
    return f"{words} at equal {recs.packages[0].kind}" if words else ""


def step_in_words(rec: Recommendation) -> str:
    """``scale-out bandwidth at +50 % (75.0 GB/s)``, inside a sentence."""
    return step_in_words_of(rec.headline, rec.label, lower=rec.kind == "hardware")


def step_in_words_of(name: str, label: str, lower: bool = True) -> str:
    """The same of a headline and the label of a step."""
    if lower and name[1:2].islower():
        name = name[0].lower() + name[1:]
    change, colon, value = label.partition(": ")
    return f"{name} at {change} ({value})" if colon else f"{name}, {label}"


def how_sure(recs: Recommendations) -> str:
    """How firm the first place is: the draws, the runner-up, the evidence."""
    said = points(recs)
    return " ".join(f"Next: {text}" if subject == "Next" else text for subject, text in said)


def points(recs: Recommendations) -> tuple[tuple[str, str], ...]:
    """(subject, sentences) about the first recommendation; none where nothing is worth it."""
    first = head(recs)
    if first is None or not worth_it(first):
        return ()
    evidence = []
    if first.evidence:
        shares = fmt.shares(first.evidence)
        evidence.append(f"The time it saves rests on kernel times that are {shares}.")
    if first.status != "identified":
        evidence.append(sentence(f"{STATUS_WORDS[first.status].label.lower()}: {first.reason}"))
    rest = [r for r in recs.recommendations if r is not first and worth_it(r)][:2]
    words = [f"{step_in_words(r)}, {gain_in_words(r)}" for r in rest]
    found = (
        ("How firm", _firmness(recs, first)),
        ("It rests on", " ".join(evidence)),
        ("By other costs", " ".join(other_costs(recs, first))),
        ("Next", sentence("; ".join(words))),
        ("Together", package_summary(recs.packages[0]) if recs.packages else ""),
        ("Largest", _largest(recs, first, rest)),
    )
    return tuple((subject, text) for subject, text in found if text)


def _firmness(recs: Recommendations, first: Recommendation) -> str:
    if first.p_best is None:
        return ""
    rival = max(recs.recommendations, key=lambda r: r.p_best or 0.0)
    beaten = (rival.p_best or 0.0) > first.p_best
    firmness = (
        "It is first by the costs as printed, but the draws favour another" if beaten
        else "It is clearly first" if first.p_best >= 0.9
        else "It is probably first" if first.p_best >= 0.6
        else "Its lead is narrow"
    )  # fmt: skip
    text = (
        f"{firmness}: best by {odds.measure(first)} in {fmt.share(first.p_best)} of "
        f"{fmt.count(recs.provenance.draws)} joint draws of what model and costs leave open."
    )
    if beaten:
        text += (
            f" More often, in {fmt.share(rival.p_best or 0.0)} of them, {step_in_words(rival)} "
            "is best: the costs as printed and the ranges that they are drawn from disagree."
        )
    return f"{text} {_outside_the_draws(recs, first)}".rstrip()


def _odds_are_of(recs: Recommendations, first: Recommendation) -> str:
    """Among which levers the first was held to be the best."""
    among = odds.among(recs, first)
    ahead = "; untested ones would come first if their effect holds"
    return (
        f"by {odds.measure(first)}, {f'among {among}, ' if among else ''}from the joint draws"
        f"{ahead if _untested_ahead(recs, first) else ''}"
    )


def _untested_ahead(recs: Recommendations, first: Recommendation) -> list[Recommendation]:
    """Levers that would come before the first if what is assumed of them held."""
    return [
        r for r in recs.recommendations
        if r.status == "assumed" and worth_it(r) and r.gain_per_cost is not None
        and first.gain_per_cost is not None and r.gain_per_cost > first.gain_per_cost
    ]  # fmt: skip


def _outside_the_draws(recs: Recommendations, first: Recommendation) -> str:
    words = []
    for r in _untested_ahead(recs, first):
        item = None if r.cost is None else costs.ranking_item(r.cost, recs.ranking_cost)
        value = r.gain_per_cost or 0.0
        per_cost = costs.per_cost_in_words(item, value, recs.ranking_cost)
        words.append(f"{step_in_words(r)}, {per_cost}")
    if not words:
        return ""
    return (
        "Left out of them, since no measurement tested the effect that is assumed: "
        f"{'; '.join(words)}. By the costs as printed that would be ahead of the first."
    )


def _largest(recs: Recommendations, first: Recommendation, rest: list[Recommendation]) -> str:
    largest = max(recs.recommendations, key=lambda r: (worth_it(r), r.gain.value))
    if largest.gain.value <= first.gain.value or largest in rest:
        return ""
    cost = costs.in_words(largest.cost, largest.gain_per_cost, recs.ranking_cost)
    return (
        f"The largest gain is that of {step_in_words(largest)}, {gain_in_words(largest)}, at "
        f"rank {largest.rank}: {cost}."
    )


def other_costs(recs: Recommendations, first: Recommendation) -> list[str]:
    """One sentence: who would be first by each other kind of cost; none where nothing is known."""
    words = []
    for other in recs.first_by:
        unit = fmt.cost_unit(other.ranking_cost).replace("mm2", "mm²")
        if not other.lever:
            words.append(f"per {unit} none, since no lever that is worth it has such a cost")
        elif other.lever == first.lever:
            words.append(f"per {unit} the same lever, at {other.label.partition(': ')[0]}")
        else:
            name = step_in_words_of(other.headline, other.label)
            words.append(f"per {unit} {name}, {fmt.gain(other.gain)}{_and_per_cost(recs, other)}")
    return (
        [f"Ranked by gain for another cost, first would be: {'; '.join(words)}."] if words else []
    )


def _and_per_cost(recs: Recommendations, other: FirstByCost) -> str:
    """Its gain per cost, a bound where the cost of that step is one."""
    if other.gain_per_cost is None:
        return ""
    cost = next((p.cost for x in recs.levers if x.lever == other.lever for p in x.points
                 if p.factor == other.factor), None)  # fmt: skip
    item = None if cost is None else costs.ranking_item(cost, other.ranking_cost)
    return f" and {costs.per_cost_in_words(item, other.gain_per_cost, other.ranking_cost)}"


def gain_in_words(rec: Recommendation) -> str:
    """A gain inside a sentence, with what its interval leaves out."""
    text = fmt.gain(rec.gain)
    if rec.status != "assumed":
        return text
    return f"{text} (assumed: the interval covers only what is modelled)"


def ranked_table(recs: Recommendations, hrefs: dict[str, str]) -> Table:
    """Every recommendation, hardware and software alike."""
    notes = Footnotes()
    columns = [
        Column("Rank", True),
        Column("Recommendation"),
        Column("Verdict", hint="see how the list is made", narrow=True),
        Column(
            "Portfolio gain",
            True,
            "speedup with its 90 % interval; below it, what is left of "
            "it if the fleet may cost no more than today",
        ),
        *costs.columns(recs.ranking_cost),
        Column(
            "P(best)",
            True,
            "share of the joint draws in which it is first by its criterion, "
            "among the levers that measurements identify",
        ),
        Column("Carried by", wide=True, hint="ops that save most of the time"),
        Column("Evidence", hint="what the time saved rests on"),
        Column("Status", narrow=True),
    ]
    against = {x.lever: x.contradicted_by for x in recs.levers if x.contradicted_by}
    rows = [
        _ranked_row(recs, r, hrefs, notes, against.get(r.lever, "")) for r in recs.recommendations
    ]
    caption = f"Ranked recommendations against {recs.baseline_title or recs.baseline}"
    return make_table("ranking-table", caption, columns, rows, notes, row_header=1)


def _ranked_row(
    recs: Recommendations,
    rec: Recommendation,
    hrefs: dict[str, str],
    notes: Footnotes,
    against: str = "",
) -> list[Cell]:
    kind = "" if rec.kind == "hardware" else " (software)"
    status = STATUS_WORDS[rec.status]
    ranked = rec.cost is None or rec.gain_per_cost is not None or rec.status in NO_GAIN
    by = () if ranked else (notes.mark(f"Ranked by {rec.ranked_by}"),)
    per_cost = None if rec.status == "no_effect" else rec.gain_per_cost
    return [
        Cell(str(rec.rank), rec.rank, by),
        Cell(
            rec.headline + kind, rec.headline.lower(), href=hrefs.get(rec.lever, ""), sub=rec.label
        ),
        Cell(VERDICT_WORDS[rec.verdict] if rec.verdict else fmt.DASH),
        Cell(fmt.DASH)
        if rec.status in NO_GAIN
        else Cell(
            fmt.gain(rec.gain),
            rec.gain.value,
            (notes.mark(f"{ASSUMED_INTERVAL}."),) if rec.status == "assumed" else (),
            tag="strong",
            sub=_fleet_line(recs, rec),
        ),
        *(
            [Cell(fmt.DASH)] * 4
            if rec.status == "refused"
            else costs.cells(rec.cost, per_cost, recs.ranking_cost, notes, brief=True)
        ),
        Cell(fmt.optional_share(rec.p_best), rec.p_best),
        Cell(
            fmt.DASH
            if rec.status in NO_GAIN
            else (rec.status != "no_effect" and carriers(rec.carried_by)) or "nothing is saved"
        ),
        Cell(fmt.shares(rec.evidence) or fmt.DASH, bar=tuple(fmt.ordered_parts(rec.evidence))),
        Cell(
            status.label,
            None,
            (notes.mark(f"Contradicted by {against}."),) if against else (),
            tag=f"status-{status.tag}",
        ),
    ]


def carriers(ops: tuple[OpShare, ...], limit: int = 2) -> str:
    """The ops that save most, with their shares of the time saved; one name once a workload."""
    found: dict[tuple[str, str], list[float]] = {}
    for o in ops:
        if o.saved_share > 0:
            found.setdefault((o.name, o.workload), []).append(o.saved_share)
    top = sorted(found.items(), key=lambda item: -sum(item[1]))[:limit]
    return "; ".join(
        f"{ellipsis(name, 60)}{f', {len(shares)} shapes,' if len(shares) > 1 else ''} in "
        f"{ellipsis(workload, 60)} ({fmt.share(sum(shares))})"
        for (name, workload), shares in top
    )


def figures(recs: Recommendations) -> list[Figure]:
    """Four figures an executive reads."""
    result = []
    first = head(recs)
    if first is not None:
        label = "gain of the first recommendation" if worth_it(first) else "largest gain of a lever"
        result.append(Figure(fmt.gain(first.gain), label,
                             f"{first.headline}, {first.label}; 90 % interval"
                             + (" of what is modelled; the effect is assumed"
                                if first.status == "assumed" else "")))  # fmt: skip
        if first.p_best is not None and worth_it(first):
            result.append(Figure(fmt.share(first.p_best), "probability that it is the best",
                                 _odds_are_of(recs, first)))  # fmt: skip
    if recs.software and gains_enough(recs.software[0].gain):
        best = recs.software[0]
        result.append(Figure(fmt.gain(best.gain), "largest gain of software alone",
                             f"{best.title}; {best.effort} effort, {best.confidence} confidence; "
                             "no silicon"))  # fmt: skip
    rows = recs.backtest.workloads
    if rows:
        hits = sum(r.covered for r in rows)
        wide = ", wider than they need be" if over_wide(hits / len(rows), len(rows)) else ""
        result.append(Figure(
            fmt.share(median([abs(r.error) for r in rows])),
            "median error of whole-workload gains",
            f"on unseen GPUs, {fmt.share(max(abs(r.error) for r in rows))} at worst; {hits} of "
            f"{len(rows)} lie inside their 90 % interval, on average "
            f"±{fmt.share(half_width(rows))}{wide}. {scored_words(rows)} {COMPOSED}",
        ))  # fmt: skip
    if recs.workloads:
        result.append(Figure(fmt.share(recs.measured_share), "of portfolio time is measured",
                             "or interpolated between measured kernels"))  # fmt: skip
    return result
