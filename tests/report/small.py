"""A short report, so that a PDF of it takes a second; and parts that other files lack."""

from __future__ import annotations

import msgspec

from codesign.recommend.change_records import (
    ChangeCause,
    Changes,
    LeverChange,
    Scenario,
    ScenarioRank,
)
from codesign.recommend.schema import Recommendations
from tests.report.factory import recommendations


def short() -> Recommendations:
    """The file of the factory, cut down."""
    recs = recommendations()
    bench = msgspec.structs.replace(
        recs.backtest, ops=recs.backtest.ops[:2], workloads=recs.backtest.workloads[:2]
    )
    return with_all(msgspec.structs.replace(
        recs, levers=recs.levers[:2], workloads=recs.workloads[:1], backtest=bench,
        recommendations=recs.recommendations[:3],
    ))  # fmt: skip


def changed(recs: Recommendations, name: str = "old.json") -> Changes:
    """A comparison of ``recs`` with a list in which its first two stood the other way round."""
    first, second = recs.recommendations[:2]
    rows = tuple(
        LeverChange(
            lever=now.lever, title=now.headline, rank_before=then.rank, rank_after=now.rank,
            label_before=now.label, label_after=now.label, gain_before=then.gain,
            gain_after=now.gain, factor=now.factor,
            ranks={"data and model": then.rank, "weights": now.rank},
            gains={"data and model": 1.02, "weights": 0.97},
        )
        for now, then in ((first, second), (second, first))
    )  # fmt: skip
    return Changes(
        old=name, old_sha256="ab" * 32, old_made="2025-12-01T00:00:00Z",
        summary=f"{first.headline} is first now instead of {second.headline}, by weights.",
        first_before=second.lever, first_after=first.lever, first_by=("weights",),
        stages=("data and model", "weights"),
        causes=(
            ChangeCause("data", (f"workload {name}: 12 -> 34",), "not told apart from model"),
            ChangeCause("weights", (f"{name}: 50 % -> 90 %",), "recomputed"),
        ),
        levers=rows, notes=(f"What {name} carried cannot be recomputed",),
    )  # fmt: skip


def scenarios(recs: Recommendations, name: str = "2028: more MoE and RL") -> tuple[Scenario, ...]:
    """The list, and under other weights the list the other way round."""
    hardware = recs.recommendations
    loads = {w.name: w.weight for w in recs.workloads}
    turned = list(reversed(hardware))
    return tuple(
        Scenario(
            title, loads,
            tuple(ScenarioRank(r.lever, r.headline, i, r.factor, r.label, r.gain, "strong")
                  for i, r in enumerate(order, start=1)),
        )
        for title, order in (("as weighted", list(hardware)), (name, turned))
    )  # fmt: skip


def with_all(recs: Recommendations, name: str = "2028: more MoE and RL") -> Recommendations:
    """``recs`` with a comparison and scenarios."""
    return msgspec.structs.replace(
        recs, changes=changed(recs, name), scenarios=scenarios(recs, name)
    )  # fmt: skip
