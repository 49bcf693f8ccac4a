"""Pairs, assumptions, provenance, glossary."""

from __future__ import annotations

from codesign.recommend.schema import Interval, Provenance, Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Footnotes, Table, make_table
from codesign.report.views import costs
from codesign.report.views.terms import GLOSSARY

# An interaction smaller than this changes no decision.
MATERIAL = 0.005


def pairs_table(recs: Recommendations) -> Table | None:
    """Pairs of levers, with what they do to each other."""
    if not recs.pairs:
        return None
    titles = {lever.lever: lever.title for lever in recs.levers}
    notes = Footnotes()
    columns = [
        Column("Pair"), Column("Step"), Column("Gain together", True),
        Column("Product of single gains", True), Column("Interaction", True),
        Column("Reading"), *costs.columns(recs.ranking_cost),
    ]  # fmt: skip
    rows = [
        [Cell(" + ".join(titles.get(name, name) for name in p.levers)), Cell(p.label),
         Cell(fmt.gain(p.gain), p.gain.value, tag="strong"),
         Cell(fmt.speedup(p.product_of_singles), p.product_of_singles),
         Cell(fmt.bracketed(p.interaction, digits=4), p.interaction.value),
         Cell(reading(p.interaction)),
         *costs.cells(p.cost, p.gain_per_cost, recs.ranking_cost, notes, brief=True)]
        for p in recs.pairs
    ]  # fmt: skip
    return make_table("pairs-table", "Two levers together", columns, rows, notes)


def reading(interaction: Interval) -> str:
    """An interaction in words; only one off 1 by its whole interval, and by enough, counts."""
    if interaction.lo > 1.0 and interaction.value - 1 >= MATERIAL:
        return "help each other"
    if interaction.hi < 1.0 and 1 - interaction.value >= MATERIAL:
        return "compete"
    return "nearly independent"


def assumptions_table(recs: Recommendations) -> Table | None:
    """Every value that was not measured."""
    if not recs.assumptions:
        return None
    columns = (Column("Assumption"), Column("Value"), Column("Evidence"),
               Column("Source", wide=True), Column("Where to change it", wide=True))  # fmt: skip
    rows = [
        [Cell(a.name), Cell(a.value), Cell(a.evidence), Cell(a.source or fmt.DASH),
         Cell(a.override or fmt.DASH)]
        for a in recs.assumptions
    ]  # fmt: skip
    return make_table("assumptions-table", "Values that were not measured", columns, rows)


def provenance_facts(recs: Recommendations) -> tuple[tuple[str, str], ...]:
    """What made the file, as (name, value)."""
    p: Provenance = recs.provenance
    return (
        ("Made", recs.generated_at),
        ("codesign", p.codesign_version),
        ("Sensitivity model", p.model),
        ("Model sha256", p.model_sha256),
        ("Model trained on", ", ".join(p.trained_on) or "nothing"),
        ("Joint draws", f"{fmt.count(p.draws)}, seed {p.seed}"),
        ("Set on request", _requested(p)),
        ("File schema", f"version {recs.schema_version}"),
    )


def _requested(p: Provenance) -> str:
    """``min_gain 0.05; ranking area``: what stands elsewhere was not asked for."""
    said = [
        f"{key} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in sorted(p.requested.items())
    ]
    return "; ".join(said) or "nothing: weights, steps and settings are the portfolio's"


def inputs_table(recs: Recommendations) -> Table | None:
    """Input files with their hashes."""
    if not recs.provenance.inputs:
        return None
    rows = [
        [Cell(name), Cell(digest, tag="hash")]
        for name, digest in sorted(recs.provenance.inputs.items())
    ]
    return make_table("inputs-table", "Input files", (Column("File"), Column("sha256")), rows)


def software_table(recs: Recommendations) -> Table | None:
    """Versions of what computed the numbers."""
    if not recs.provenance.software:
        return None
    found = sorted(recs.provenance.software.items())
    rows = [[Cell(name), Cell(version)] for name, version in found]
    columns = (Column("Software"), Column("Version"))
    return make_table("software-table", "Software", columns, rows)


def glossary_table() -> Table:
    """The words that this report uses."""
    rows = [[Cell(word), Cell(meaning)] for word, meaning in GLOSSARY]
    columns = (Column("Word"), Column("Meaning", wide=True))
    return make_table("glossary-table", "Words", columns, rows)
