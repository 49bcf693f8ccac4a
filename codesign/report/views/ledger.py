"""The extrapolation ledger for the sceptic: on what every projection rests, by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codesign.recommend.schema import LedgerRow, Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import join_words
from codesign.report.views.terms import BASIS_WORDS

FIRM = ("measured", "interpolated")
_ALWAYS = ("measured", "interpolated", "other_precision", "other_gpu", "speed_of_light")
"""Columns that stand even where nothing is in them: that there is none is the news."""


@dataclass(frozen=True)
class LedgerView:
    """The section."""

    intro: str
    steps: Table
    projections: Table | None


def ledger_view(recs: Recommendations, hrefs: dict[str, str]) -> LedgerView | None:
    """The section, or None of a file without a ledger."""
    if recs.ledger is None or not recs.ledger.rows:
        return None
    steps = [r for r in recs.ledger.rows if not r.lever]
    saved = [r for r in recs.ledger.rows if r.lever]
    return LedgerView(_intro(recs), _steps(recs, steps), _projections(recs, saved, hrefs))


def _intro(recs: Recommendations) -> str:
    ledger = recs.ledger
    assert ledger is not None
    trained = join_words(list(recs.provenance.trained_on)) or "nothing"
    seen = (
        f"the model is fitted on this GPU, {ledger.gpu}, too"
        if ledger.ratio_seen
        else f"the model has not seen this GPU, {ledger.gpu}, so that every ratio is a transfer "
        "from others"
    )
    return (
        "A projection is the time of an op times a ratio of the fitted model. The first factor is "
        "split below by how it came about. The second is the model's for every op, on hardware "
        f"that nobody has: {seen} (fitted on {trained})."
    )


def _steps(recs: Recommendations, rows: Sequence[LedgerRow]) -> Table:
    keys = _keys(rows)
    weights = {w.name: w.weight for w in recs.workloads}
    titles = {w.name: w.title or w.name for w in recs.workloads}
    columns = (
        Column("Workload"), *(Column(_heading(k), True) for k in keys),
        Column("Not modelled", True, "ops that the model does not cover: no projection moves them"),
    )  # fmt: skip
    cells = [
        [Cell(titles.get(r.workload, r.workload)), *_shares(r.rests_on, keys),
         Cell(fmt.share(r.held), r.held)]
        for r in rows
    ]  # fmt: skip
    whole = sum(weights.get(r.workload, 0.0) for r in rows)
    if whole > 0:
        mean = {k: sum(weights.get(r.workload, 0.0) * r.rests_on.get(k, 0.0) for r in rows) / whole
                for k in keys}  # fmt: skip
        held = sum(weights.get(r.workload, 0.0) * r.held for r in rows) / whole
        cells.append([Cell("Portfolio, by weight", tag="strong"), *_shares(mean, keys),
                      Cell(fmt.share(held), held)])  # fmt: skip
    return make_table("ledger-steps", "What the time of each step rests on", columns, cells)


def _projections(
    recs: Recommendations, rows: Sequence[LedgerRow], hrefs: dict[str, str]
) -> Table | None:
    """One line for each lever and workload that it saves time of."""
    order = {lever.lever: place for place, lever in enumerate(recs.levers)}
    known = sorted((r for r in rows if r.rests_on), key=lambda r: order.get(r.lever, len(order)))
    if not known:
        return None
    keys = _keys(known)
    names = {r.lever: (r.title, _label(recs, r.lever)) for r in recs.levers}
    titles = {w.name: w.title or w.name for w in recs.workloads}
    columns = (
        Column("Lever"), Column("Workload"),
        Column("Firm", True, "measured shapes and between them"),
        *(Column(_heading(k), True) for k in keys),
    )  # fmt: skip
    cells = []
    for r in known:
        title, label = names.get(r.lever, (r.lever, ""))
        firm = sum(r.rests_on.get(k, 0.0) for k in FIRM)
        cells.append([
            Cell(title, title.lower(), href=hrefs.get(r.lever, ""), sub=label),
            Cell(titles.get(r.workload, r.workload)), Cell(fmt.share(firm), firm, tag="strong"),
            *_shares(r.rests_on, keys),
        ])  # fmt: skip
    return make_table(
        "ledger-projections", "What the time that a lever saves of each workload rests on",
        columns, cells,
    )  # fmt: skip


def _label(recs: Recommendations, lever: str) -> str:
    return next((r.label for r in recs.recommendations if r.lever == lever), "")


def _heading(key: str) -> str:
    words = BASIS_WORDS[key]
    return words[0].upper() + words[1:]


def _keys(rows: Sequence[LedgerRow]) -> list[str]:
    found = {key for r in rows for key in r.rests_on}
    return [k for k in BASIS_WORDS if k in found or k in _ALWAYS]


def _shares(shares: dict[str, float], keys: Sequence[str]) -> list[Cell]:
    return [Cell(fmt.share(shares.get(k, 0.0)), shares.get(k, 0.0)) for k in keys]
