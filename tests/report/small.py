"""A short report: two levers and one workload, so that a PDF of it takes a second."""

from __future__ import annotations

import msgspec

from codesign.recommend.schema import Recommendations
from tests.report.factory import recommendations


def short() -> Recommendations:
    """The file of the factory, cut down."""
    recs = recommendations()
    bench = msgspec.structs.replace(
        recs.backtest, ops=recs.backtest.ops[:2], workloads=recs.backtest.workloads[:2]
    )
    return msgspec.structs.replace(
        recs, levers=recs.levers[:2], workloads=recs.workloads[:1], backtest=bench,
        recommendations=recs.recommendations[:3],
    )  # fmt: skip
