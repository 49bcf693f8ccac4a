"""How the same model did on GPUs it had not seen, in plain words, misses in the open."""

from __future__ import annotations

from collections.abc import Sequence

from codesign.recommend.schema import Backtest, BacktestRow, WorkloadBacktestRow
from codesign.recommend.wording import name_of
from codesign.report import formatting as fmt
from codesign.report.charts.dots import DotChart, DotInput, dot_chart
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import sentence

# How many misses of a kind are spelled out; the table has them all.
NAMED_MISSES = 6
WHOLE = 0.8
"""Scored share under which a gain is also given on the whole step."""
COMPOSED = "Both sides are composed from measured kernels; no end-to-end run is among them."


def summary(backtest: Backtest) -> tuple[str, ...]:
    """Sentences, one a fact; a single one where nothing was scored."""
    if not (backtest.ops or backtest.workloads or backtest.experiments or backtest.lever_order):
        return (
            "No backtest was supplied, so nothing here says how far the projections are to be "
            "trusted. Run `codesign backtest` and pass its file.",
        )
    lines = [sentence(backtest.protocol)] if backtest.protocol else []
    if backtest.workloads:
        lines += _workload_lines(backtest.workloads)
    if backtest.ops:
        lines += _op_lines(backtest.ops)
    return tuple(lines)


def _workload_lines(rows: Sequence[WorkloadBacktestRow]) -> list[str]:
    hits = sum(r.covered for r in rows)
    worst = max(rows, key=lambda r: abs(r.error))
    wide = "; the intervals are wider than they need be" if over_wide(
        hits / len(rows), len(rows)) else ""  # fmt: skip
    return [
        f"Median error of the projected gain of whole workloads: "
        f"{fmt.share(median([abs(r.error) for r in rows]))}; "
        f"the worst is {worst.workload} from {worst.source} to {worst.target}, "
        f"{fmt.signed_share(worst.error)}.",
        f"{hits} of {len(rows)} measured gains fell inside the projected 90 % interval; nine of "
        f"ten is what the interval promises. On average it is ±{fmt.share(half_width(rows))} "
        f"wide{wide}.",
        scored_words(rows),
        *_low_shares(rows),
        COMPOSED,
    ]


def scored_words(rows: Sequence[WorkloadBacktestRow]) -> str:
    """How much of the step time these scores are about."""
    shares = [r.scored_share for r in rows]
    text = f"Scored is {fmt.share(median(shares))} of the step time, median"
    low = sum(s < WHOLE for s in shares)
    if not low:
        return f"{text}."
    return (
        f"{text}; in {low} of {len(rows)} it is under {fmt.share(WHOLE)}, "
        f"{fmt.share(min(shares))} at least."
    )


def _low_shares(rows: Sequence[WorkloadBacktestRow]) -> list[str]:
    """What a gain on a small part of the step means for the whole of it."""
    if all(r.scored_share >= WHOLE for r in rows):
        return []
    low = min(rows, key=lambda r: (r.scored_share, r.workload, r.target))
    return [
        f"A measured gain is that of the scored part. On {low.workload} from {low.source} to "
        f"{low.target}, {fmt.share(low.scored_share)} of the step was measured on both sides and "
        f"gained {fmt.speedup(low.measured_gain)}; if the rest gained nothing, that is "
        f"{fmt.speedup(whole_gain(low.measured_gain, low.scored_share))} on the whole step."
    ]


def whole_gain(gain: float, scored_share: float) -> float:
    """Gain of a step of which ``scored_share`` gains ``gain`` and the rest stays as it is."""
    return 1.0 / (1.0 - scored_share * (1.0 - 1.0 / gain))


def half_width(rows: Sequence[WorkloadBacktestRow]) -> float:
    """Mean half width of the 90 % intervals, as a part of the projected gain."""
    gains = [r.projected_gain for r in rows]
    return sum((g.hi - g.lo) / 2 / g.value for g in gains) / len(gains)


def over_wide(coverage: float, n: int) -> bool:
    """Whether so many values inside their 90 % intervals say that these are too wide."""
    return coverage > 0.95 and n >= 20


def _op_lines(rows: Sequence[BacktestRow]) -> list[str]:
    lines = []
    for tier in ("transfer", "spec-only"):
        chosen = [r for r in rows if r.tier == tier]
        if not chosen:
            continue
        n = sum(r.n for r in chosen)
        covered = sum(r.n * r.coverage_90 for r in chosen) / n if n else float("nan")
        better = sum(r.median_ape <= min(_baselines(r).values()) for r in chosen)
        lines.append(
            f"Single ops, {tier}: {fmt.count(n)} measured rows in {len(chosen)} groups. The median "
            f"error of a group runs from {fmt.share(min(r.median_ape for r in chosen))} to "
            f"{fmt.share(max(r.median_ape for r in chosen))}; {fmt.share(covered)} of all rows "
            f"fell inside their 90 % interval; no simpler method does "
            f"better in {better} of {len(chosen)} groups."
        )
    return lines


def misses(backtest: Backtest) -> tuple[str, ...]:
    """Every workload outside its interval, and every group where a baseline did better."""
    lines = [
        f"{r.workload}, {r.source} to {r.target}: measured {fmt.speedup(r.measured_gain)}, "
        f"projected {fmt.gain(r.projected_gain)}, "
        f"error {fmt.signed_share(r.error)}: outside its interval."
        for r in backtest.workloads if not r.covered
    ]  # fmt: skip
    beaten: list[tuple[float, str]] = []
    narrow: list[tuple[float, str]] = []
    wide: list[tuple[float, str]] = []
    for r in backtest.ops:
        name, best = min(_baselines(r).items(), key=lambda item: item[1])
        if best < r.median_ape:
            words = f"{_group(r)} ({name} {fmt.share(best)} against {fmt.share(r.median_ape)})"
            beaten.append((best - r.median_ape, words))
        if _too_narrow(r):
            narrow.append((r.coverage_90, f"{_group(r)} ({fmt.share(r.coverage_90)})"))
        if over_wide(r.coverage_90, r.n):
            wide.append((-r.median_ape, f"{_group(r)} ({fmt.share(r.coverage_90)})"))
    of = f"of {len(backtest.ops)} groups of ops"
    if beaten:
        lines.append(f"In {len(beaten)} {of} a simpler method has the smaller median error: "
                     f"{_worst(beaten)}.")  # fmt: skip
    if narrow:
        lines.append(f"In {len(narrow)} {of} under 80 % of the rows lie in their 90 % interval, "
                     f"which is too narrow there: {_worst(narrow)}.")  # fmt: skip
    if wide:
        lines.append(f"In {len(wide)} {of} over 95 % of the rows lie in their 90 % interval, "
                     f"which is wider than it need be there: {_worst(wide)}.")  # fmt: skip
    return tuple(lines)


def _worst(found: list[tuple[float, str]]) -> str:
    """The worst few by their key; the table of ops marks them all."""
    text = "; ".join(words for _, words in sorted(found)[:NAMED_MISSES])
    more = len(found) - NAMED_MISSES
    return f"{text}; and {more} more, marked in the table of single ops" if more > 0 else text


def _too_narrow(r: BacktestRow) -> bool:
    return r.coverage_90 < 0.8 and r.n >= 10


def _verdict(r: BacktestRow) -> str:
    """What is wrong with a group, or a dash."""
    name, best = min(_baselines(r).items(), key=lambda item: item[1])
    found = [f"beaten by {name}"] if best < r.median_ape else []
    found += ["interval too narrow"] if _too_narrow(r) else []
    found += ["interval too wide"] if over_wide(r.coverage_90, r.n) else []
    return "; ".join(found) or fmt.DASH


def _baselines(r: BacktestRow) -> dict[str, float]:
    """Median error of every simpler method that was scored on the same rows."""
    scored = {
        "the datasheet roofline": r.roofline_median_ape,
        "the fitted roofline": r.fitted_roofline_median_ape,
        "the source's time times the peak ratio": r.ratio_median_ape,
    }
    return {name: value for name, value in scored.items() if value is not None}


def workload_table(backtest: Backtest) -> Table | None:
    """Every workload projection with its verdict."""
    if not backtest.workloads:
        return None
    columns = (Column("No.", True), Column("Workload"), Column("From"), Column("To (unseen)"),
               Column("Measured gain", True), Column("Projected gain", True), Column("Error", True),
               Column("Inside 90 %?"),
               Column("Scored share", True, "of the source's step: rows measured on both sides"),
               Column("On the whole step", True, "measured gain if the rest of the step gained "
                      "nothing; given where the scored share is under 80 %"),
               Column("Trained on", wide=True))  # fmt: skip
    rows = [
        [Cell(str(i), i), Cell(r.workload), Cell(r.source), Cell(r.target),
         Cell(fmt.speedup(r.measured_gain), r.measured_gain),
         Cell(fmt.gain(r.projected_gain), r.projected_gain.value),
         Cell(fmt.signed_share(r.error), r.error),
         Cell("yes") if r.covered else Cell("no: missed", tag="miss"),
         Cell(fmt.share(r.scored_share), r.scored_share,
              tag="miss" if r.scored_share < WHOLE else ""),
         _on_whole(r), Cell(", ".join(r.trained_on))]
        for i, r in enumerate(backtest.workloads, start=1)
    ]  # fmt: skip
    return make_table("backtest-workloads", "Workloads: projected against measured", columns, rows,
                      row_header=1)  # fmt: skip


def _on_whole(r: WorkloadBacktestRow) -> Cell:
    if r.scored_share >= WHOLE:
        return Cell(fmt.DASH)
    gain = whole_gain(r.measured_gain, r.scored_share)
    return Cell(fmt.speedup(gain), gain)


def op_table(backtest: Backtest) -> Table | None:
    """Every op-level score beside the baselines."""
    if not backtest.ops:
        return None
    columns = (
        Column("Op class"), Column("Precision"), Column("Target (unseen)"), Column("Tier"),
        Column("From"), Column("n", True, "measured rows"), Column("Median APE", True),
        Column("MAPE", True), Column("p90 APE", True), Column("Bias", True),
        Column("Coverage", True, "share of rows inside their 90 % interval"),
        Column("Roofline median APE", True, "datasheet roofline on the same rows"),
        Column("Fitted roofline median APE", True, "roofline with a fitted floor and efficiencies"),
        Column("Peak-ratio median APE", True, "source time times the ratio of peaks"),
        Column("What is wrong"), Column("Trained on", wide=True),
    )  # fmt: skip
    rows = [
        [Cell(name_of(r.op_class)), Cell(r.precision), Cell(r.target), Cell(r.tier),
         Cell(r.source or fmt.DASH), Cell(fmt.count(r.n), r.n),
         Cell(fmt.share(r.median_ape), r.median_ape, tag="strong"),
         Cell(fmt.share(r.mape), r.mape), Cell(fmt.share(r.p90_ape), r.p90_ape),
         Cell(fmt.signed_share(r.bias), r.bias),
         Cell(fmt.share(r.coverage_90), r.coverage_90, tag="miss" if r.coverage_90 < 0.8 else ""),
         Cell(fmt.share(r.roofline_median_ape), r.roofline_median_ape),
         Cell(fmt.optional_share(r.fitted_roofline_median_ape), r.fitted_roofline_median_ape),
         Cell(fmt.optional_share(r.ratio_median_ape), r.ratio_median_ape),
         Cell(_verdict(r), tag="miss" if _verdict(r) not in (fmt.DASH, "interval too wide")
              else ""),
         Cell(", ".join(r.trained_on))]
        for r in backtest.ops
    ]  # fmt: skip
    return make_table("backtest-ops", "Single ops: error on unseen GPUs", columns, rows)


def op_chart(backtest: Backtest) -> DotChart | None:
    """Error by target, tier and family of op classes; the table has every single group."""
    if not backtest.ops:
        return None
    families: dict[tuple[str, str, str], list[BacktestRow]] = {}
    for r in sorted(backtest.ops, key=lambda r: (r.target, family(r.op_class), r.tier)):
        families.setdefault((r.target, family(r.op_class), r.tier), []).append(r)
    return dot_chart(
        "backtest-chart", "Error on GPUs that the model had not seen",
        "Median error, averaged over the groups of a row by their numbers of measured rows. "
        "Circle: this model, with a line from its best to its worst group. Square: datasheet "
        "roofline. Diamond: roofline with fitted floor and efficiencies. Triangle: source time "
        "times peak ratio.",
        axis_label="absolute error, % of the measured time",
        inputs=[_dot(*key, rows) for key, rows in families.items()],
        reference=0.0, tick_format="{:g} %",
    )  # fmt: skip


def family(op_class: str) -> str:
    """``attention`` of ``attention mla decode``; every kind of collective is one family."""
    # The schema brings pandas, which the rest of the report does without.
    from codesign.workload.schema import COLLECTIVES

    first = op_class.partition(" ")[0]
    return "collective" if first in COLLECTIVES else first


def _dot(target: str, name: str, tier: str, rows: list[BacktestRow]) -> DotInput:
    def mean(values: list[tuple[float | None, int]]) -> float | None:
        known = [(v, n) for v, n in values if v is not None]
        weight = sum(n for _, n in known)
        return sum(v * n for v, n in known) / weight if weight else None

    ours = mean([(r.median_ape, r.n) for r in rows]) or 0.0
    others = []
    for shape, label, value in (
        ("square", "datasheet roofline", mean([(r.roofline_median_ape, r.n) for r in rows])),
        ("diamond", "fitted roofline", mean([(r.fitted_roofline_median_ape, r.n) for r in rows])),
        ("triangle", "peak ratio", mean([(r.ratio_median_ape, r.n) for r in rows])),
    ):
        if value is not None:
            others.append((shape, 100 * value, f"{label}: {fmt.share(value)}"))
    low, high = min(r.median_ape for r in rows), max(r.median_ape for r in rows)
    count = f"{len(rows)} group{'s' if len(rows) != 1 else ''}"
    name = name_of(name)
    hover = (
        f"{name} on {target}, {tier}: {fmt.share(ours)}, from {fmt.share(low)} to "
        f"{fmt.share(high)} over {count}"
    )
    return DotInput(f"{name}, {tier}, {count}", 100 * ours, 100 * low, 100 * high, hover,
                    fmt.share(ours), target, "", tuple(others))  # fmt: skip


def _group(r: BacktestRow) -> str:
    source = f" from {r.source}" if r.source else ""
    # A collective has no precision of its own.
    what = " ".join(part for part in (name_of(r.op_class), r.precision) if part)
    return f"{what} on {r.target}, {r.tier}{source}"


def median(values: list[float]) -> float:
    """Middle of ``values``, of which there is at least one."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
