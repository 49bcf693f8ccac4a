"""Workloads over many GPUs: best plan, scaling, levers re-planned, the NVLink domain."""

from __future__ import annotations

from dataclasses import dataclass

from codesign.cluster.records import AtScale, DomainAtScale, Placed
from codesign.hardware.model import PEAK_OF_PRECISION
from codesign.recommend.schema import Recommendations
from codesign.report import formatting as fmt
from codesign.report.table import Cell, Column, Table, make_table
from codesign.report.text import slug

_REPLANNED = 1.005
"""Gain that a new plan adds from which it is worth a sentence."""


@dataclass(frozen=True)
class AtScaleView:
    """One workload."""

    anchor: str
    title: str
    summary: str
    plans: Table
    levers: Table | None
    domains: Table | None
    neighbours: Table | None


def at_scale_views(recs: Recommendations, hrefs: dict[str, str]) -> tuple[AtScaleView, ...]:
    """A view for each workload whose entry says on how many GPUs it runs."""
    return tuple(_view(one, index, hrefs) for index, one in enumerate(recs.at_scale, 1))


def _view(one: AtScale, index: int, hrefs: dict[str, str]) -> AtScaleView:
    anchor = f"at-scale-{slug(one.workload, index)}"
    return AtScaleView(
        anchor, f"{one.workload} over {fmt.count(one.gpus)} GPUs", _summary(one),
        _plans(one, anchor), _levers(one, anchor, hrefs), _domains(one, anchor),
        _neighbours(one, anchor),
    )  # fmt: skip


def _summary(one: AtScale) -> str:
    best = one.best
    said = [
        f"Best plan of {fmt.count(one.tried)}: {best.plan}, {fmt.seconds_interval(best.step_s)} a "
        f"step of {fmt.count(one.global_batch)} sequences of {fmt.count(one.sequence_length)} "
        f"tokens in {one.precision}."
    ]
    if one.plan_in_use is not None:
        ratio = one.plan_in_use.step_s.value / best.step_s.value
        said.append(f"The plan in use ({one.plan_in_use.plan}) takes {ratio:.3f} times as long.")
    widest = one.domains[-1] if one.domains else None
    if widest is not None:
        said.append(
            f"An NVLink domain of {fmt.count(widest.gpus_in_domain)} GPUs gains "
            f"{fmt.speedup(widest.fixed)} at this plan and {fmt.speedup(widest.replanned)} with "
            "both re-planned."
        )
    moved = [x for x in one.levers if x.replanned.value > x.fixed.value * _REPLANNED]
    if moved:
        most = max(moved, key=lambda x: x.replanned.value / x.fixed.value)
        said.append(
            f"A new plan adds most to {most.title} ({most.label}): {fmt.speedup(most.fixed.value)} "
            f"becomes {fmt.speedup(most.replanned.value)}."
        )
    return " ".join(said)


def _plans(one: AtScale, anchor: str) -> Table:
    peak = f"of dense {PEAK_OF_PRECISION.get(one.precision, one.precision)}"
    columns = [
        Column("Plan"), Column("GPUs", True), Column("Step", True),
        Column("Tokens/s/GPU", True), Column(f"MFU {peak}", True, "without recomputed FLOPs"),
        Column(f"HFU {peak}", True, "with recomputed FLOPs"),
        Column("Where the step goes", wide=True), Column("Memory a GPU", True),
    ]  # fmt: skip
    rows = []
    if one.plan_in_use is not None:
        rows.append(_placed("in use", one.plan_in_use))
    rows.append(_placed("best", one.best))
    rows += [_placed("best", p) for p in one.scaling]
    caption = "Plans, and the best ones over other numbers of GPUs, the batch in proportion"
    return make_table(f"{anchor}-plans", caption, columns, rows)


def _placed(kind: str, p: Placed) -> list[Cell | str]:
    step = p.step_s.value
    parts = sorted(
        ((v / step, k) for k, v in p.breakdown.items() if v > 0.005 * step), reverse=True
    )
    where = ", ".join(f"{name} {fmt.share(part)}" for part, name in parts)
    memory = f"{p.needed_bytes / 1e9:.0f} GB" + ("" if p.fits else ", does not fit")
    return [
        Cell(f"{kind}: {p.plan}", sub=", ".join(
            f"{name} {size / 1e9:.0f} GB"
            for size, name in sorted(((v, k) for k, v in p.memory_bytes.items()), reverse=True)
            if size > 5e8)),
        Cell(fmt.count(p.gpus), p.gpus), Cell(fmt.seconds_interval(p.step_s), step),
        Cell(fmt.count(round(p.tokens_per_s_gpu)), p.tokens_per_s_gpu),
        Cell(fmt.optional_share(p.mfu), p.mfu), Cell(fmt.optional_share(p.hfu), p.hfu),
        Cell(where), Cell(memory, p.needed_bytes),
    ]  # fmt: skip


def _levers(one: AtScale, anchor: str, hrefs: dict[str, str]) -> Table | None:
    if not one.levers:
        return None
    columns = [
        Column("Lever"), Column("Step"), Column("Gain at the baseline's plan", True),
        Column("Gain, both re-planned", True), Column("Plan then", wide=True),
    ]  # fmt: skip
    rows = [
        [Cell(x.title, x.title.lower(), href=hrefs.get(x.lever, "")), Cell(x.label),
         Cell(fmt.gain(x.fixed), x.fixed.value), Cell(fmt.gain(x.replanned), x.replanned.value),
         Cell(x.plan + ("" if x.base_plan_fits else " (the baseline's does not fit)"))]
        for x in one.levers
    ]  # fmt: skip
    return make_table(f"{anchor}-levers", "Levers, the plan kept and re-planned", columns, rows)


def _domains(one: AtScale, anchor: str) -> Table | None:
    if not one.domains:
        return None
    columns = [
        Column("GPUs in a domain", True), Column("Gain at the baseline's plan", True),
        Column("Gain, both re-planned", True), Column("Plan then", wide=True),
        Column(f"Control: {one.control_job}", True),
    ]  # fmt: skip
    control = {c.gpus_in_domain: c for c in one.control}
    rows = [
        [Cell(fmt.count(d.gpus_in_domain), d.gpus_in_domain), _speed(d.fixed), _speed(d.replanned),
         Cell(d.plan), _control(control.get(d.gpus_in_domain))]
        for d in one.domains
    ]  # fmt: skip
    caption = "NVLink domains of other sizes, all else as it is"
    return make_table(f"{anchor}-domains", caption, columns, rows)


def _control(one: DomainAtScale | None) -> Cell:
    return Cell(fmt.DASH) if one is None else _speed(one.replanned)


def _speed(value: float) -> Cell:
    return Cell(fmt.speedup(value), value)


def _neighbours(one: AtScale, anchor: str) -> Table | None:
    if not one.neighbours:
        return None
    columns = [Column("Choice"), Column("Plan left aside"), Column("Loses", True),
               Column("To what", wide=True)]  # fmt: skip
    rows = [
        [Cell(n.changed), Cell(n.plan), Cell(fmt.optional_share(n.loss), n.loss), Cell(n.reason)]
        for n in one.neighbours
    ]
    caption = "The nearest plan left aside, by choice"
    return make_table(f"{anchor}-neighbours", caption, columns, rows)
