"""Cost cells: a value with the footnote of its source, or a dash that says why."""

from __future__ import annotations

from codesign.recommend.schema import Cost, CostItem
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Footnotes
from codesign.report.text import join_words

NO_COST = "No cost is known for this change, so it is ranked by its gain."

ASSUMED = (
    "Rests on an assumed value, often an upper bound. The sources of every cost stand in the "
    "section of its lever."
)


def columns(ranking_cost: str) -> list[Column]:
    """Area, power, money and gain per cost."""
    per = f"Gain, % per {fmt.cost_unit(ranking_cost)}"
    return [
        Column("Area", True, "silicon per GPU, mm²"),
        Column("Power", True, "watts per GPU at full rate"),
        Column("Money", True, "cost of components per GPU"),
        Column(per, True, "portfolio gain per unit of cost"),
    ]  # fmt: skip


def cells(
    cost: Cost | None, gain_per_cost: float | None, notes: Footnotes, brief: bool = False
) -> list[Cell]:
    """The cells of ``columns``.

    ``brief`` leaves the sources of known values to the section of the lever, and only
    marks those that are assumed.
    """
    if cost is None:
        dash = Cell(fmt.DASH, None, (notes.mark(NO_COST),))
        return [dash, dash, dash, Cell(fmt.DASH)]
    return [
        *(_item(i, kind, notes, brief) for i, kind in
          ((cost.area, "area"), (cost.power, "power"), (cost.money, "money"))),
        Cell(fmt.number(gain_per_cost), gain_per_cost),
    ]  # fmt: skip


def _item(item: CostItem, kind: str, notes: Footnotes, brief: bool) -> Cell:
    if item.value is None:
        why = f": {item.source}" if item.source else ""
        return Cell(fmt.DASH, None, (notes.mark(f"No sourced value for {kind}{why}"),))
    if brief:
        marks = (notes.mark(ASSUMED),) if item.evidence == "assumed" else ()
        return Cell(fmt.cost_item(item), item.value, marks)
    note = f"{kind.capitalize()}, {item.evidence}: {item.source or 'no source given'}"
    return Cell(fmt.cost_item(item), item.value, (notes.mark(note),))


def in_words(cost: Cost | None, gain_per_cost: float | None, ranking_cost: str) -> str:
    """What a step costs, as the end of a sentence."""
    if cost is None:
        return "no cost is known for it"
    known = [i for i in (cost.area, cost.power, cost.money) if i.value is not None]
    if not known:
        return "no source gives its cost"
    charged = [fmt.cost_item(i) for i in known if i.value]
    text = f"it costs {join_words(charged)} per GPU" if charged else "it adds no cost"
    if gain_per_cost is not None:
        text += f", which is {fmt.per_cost(gain_per_cost, ranking_cost)}"
    missing = [k for k, i in (("area", cost.area), ("power", cost.power), ("money", cost.money))
               if i.value is None]  # fmt: skip
    if missing:
        text += f" (no source gives its {join_words(missing)})"
    return text


def ranking_value(cost: Cost | None, ranking_cost: str) -> float | None:
    """The value of the kind of cost that ranks, found by its unit."""
    if cost is None:
        return None
    unit = fmt.cost_unit(ranking_cost)
    for item in (cost.money, cost.power, cost.area):
        if item.unit.partition(" per ")[0].strip() == unit:
            return item.value
    return cost.money.value
