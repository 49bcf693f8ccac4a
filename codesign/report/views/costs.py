"""Cost cells: a value with the footnote of its source, or a dash that says why."""

from __future__ import annotations

from dataclasses import replace

from codesign.recommend.schema import Cost, CostItem, Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Footnotes
from codesign.report.text import join_words, sentence

NO_COST = "No cost is known for this change, so it is ranked by its gain."

_SOURCES = "The sources of every cost stand in the section of its lever."
ASSUMED = f"Rests on an assumed value. {_SOURCES}"
BOUNDS = {
    "upper": f"≤: an upper bound. It may cost less, and would then rank higher. {_SOURCES}",
    "lower": f"≥: a lower bound. It costs more, and would then rank lower. {_SOURCES}",
}


def columns(ranking_cost: str) -> list[Column]:
    """Area, power, money and gain per cost."""
    per = f"Gain, % per {fmt.cost_unit(ranking_cost)}".replace("mm2", "mm²")
    return [
        Column("Area", True, "silicon per GPU, mm²"),
        Column("Power", True, "watts per GPU at full rate"),
        Column("Money", True, "cost of components per GPU"),
        Column(per, True, "portfolio gain per unit of cost"),
    ]  # fmt: skip


def cells(
    cost: Cost | None, gain_per_cost: float | None, ranking_cost: str, notes: Footnotes,
    brief: bool = False,
) -> list[Cell]:  # fmt: skip
    """The cells of ``columns``.

    ``brief`` leaves the sources of known values to the section of the lever, and only
    marks those that are bounds or assumed.
    """
    if cost is None:
        dash = Cell(fmt.DASH, None, (notes.mark(NO_COST),))
        return [dash, dash, dash, Cell(fmt.DASH)]
    known = [
        _item(i, kind, notes, brief)
        for i, kind in ((cost.area, "area"), (cost.power, "power"), (cost.money, "money"))
    ]
    if cost.note:
        mark = notes.mark(sentence(cost.note.replace("mm2", "mm²")))
        known[0] = replace(known[0], notes=(*known[0].notes, mark))
    return [*known, per_cost(ranking_item(cost, ranking_cost), gain_per_cost)]


def per_cost(item: CostItem | None, value: float | None) -> Cell:
    """Gain per unit of ``item``, a bound where that is one: at most that cost is at least that
    gain for it.
    """
    if value is None:
        return Cell(fmt.DASH)
    sign = {"upper": "≥ ", "lower": "≤ "}.get("" if item is None else item.bound, "")
    return Cell(sign + fmt.number(value), value)


def per_cost_in_words(item: CostItem | None, value: float, ranking_cost: str) -> str:
    """``at least 0.157 % per W``."""
    bound = {"upper": "at least ", "lower": "at most "}
    least = bound.get("" if item is None else item.bound, "")
    return least + fmt.per_cost(value, ranking_cost).replace("mm2", "mm²")


def _item(item: CostItem, kind: str, notes: Footnotes, brief: bool) -> Cell:
    if item.value is None:
        why = f": {item.source}" if item.source else ""
        return Cell(fmt.DASH, None, (notes.mark(f"No sourced value for {kind}{why}"),))
    if brief:
        note = BOUNDS.get(item.bound, ASSUMED if item.evidence == "assumed" else "")
        return Cell(fmt.cost_item(item), item.value, (notes.mark(note),) if note else ())
    about = [item.evidence, *([f"{item.bound} bound"] if item.bound != "central" else [])]
    about += _range(item)
    note = f"{kind.capitalize()}, {', '.join(about)}: {item.source or 'no source given'}"
    return Cell(fmt.cost_item(item), item.value, (notes.mark(note),))


def _range(item: CostItem) -> list[str]:
    """Its range as a factor, so that all steps of a lever share one footnote."""
    if not item.value or item.lo is None or item.hi is None or item.lo == item.hi:
        return []
    ends = sorted((item.lo / item.value, item.hi / item.value))
    return [f"90 % range {ends[0]:.1f} to {ends[1]:.1f} times the value"]


def in_words(cost: Cost | None, gain_per_cost: float | None, ranking_cost: str) -> str:
    """What a step costs, as the end of a sentence."""
    if cost is None:
        return "no cost is known for it"
    known = [i for i in (cost.area, cost.power, cost.money) if i.value is not None]
    if not known:
        return "no source gives its cost"
    charged = [_said(i) for i in known if i.value]
    text = f"it costs {join_words(charged)} per GPU" if charged else "it adds no cost"
    if gain_per_cost is not None:
        item = ranking_item(cost, ranking_cost)
        text += f", which is {per_cost_in_words(item, gain_per_cost, ranking_cost)}"
    missing = [k for k, i in (("area", cost.area), ("power", cost.power), ("money", cost.money))
               if i.value is None]  # fmt: skip
    if missing:
        text += f" (no source gives its {join_words(missing)})"
    return text + (", and it needs another die" if cost.note else "")


def _said(item: CostItem) -> str:
    text = fmt.cost_item(item).removeprefix("+")
    return text.replace("≤", "at most").replace("≥", "at least")


def is_bounded_above(cost: Cost | None, recs: Recommendations) -> bool:
    """Whether the ranking cost is an upper bound, so that what is divided by it is a floor."""
    return cost is not None and ranking_item(cost, recs.ranking_cost).bound == "upper"


def ranking_item(cost: Cost, ranking_cost: str) -> CostItem:
    """The kind of cost that ranks, found by its unit."""
    unit = fmt.cost_unit(ranking_cost)
    for item in (cost.money, cost.power, cost.area):
        if item.unit.partition(" per ")[0].strip() == unit:
            return item
    return cost.money


def ranking_value(cost: Cost | None, ranking_cost: str) -> float | None:
    """Its value, if it is known."""
    return None if cost is None else ranking_item(cost, ranking_cost).value
