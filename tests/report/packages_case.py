"""A small study of packages with what stands beside it; every number is invented."""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from codesign.recommend.schema import (
    Cost,
    CostItem,
    FirstMoved,
    Interval,
    Ledger,
    LedgerRow,
    MarginalGain,
    Package,
    PackageStep,
    PackageStudy,
    RankSensitivity,
    RankSpread,
    Recommendations,
    SoftwareResult,
)
from tests.report.factory import recommendations

HBM = PackageStep("hbm_bandwidth", "HBM bandwidth", 1.5, "+50 %: 5.03 TB/s", "identified")
SMS = PackageStep("sm_count", "SM count", 1.25, "+25 %: 165 SMs", "identified")


def priced(watts: float) -> Cost:
    none = CostItem(None, "mm2", "no source", "assumed")
    return Cost(none, CostItem(watts, "W", "a table", "modelled"),
                CostItem(None, "USD", "no source", "assumed"))  # fmt: skip


def package(steps: tuple[PackageStep, ...], gain: float, watts: float, p_best: float) -> Package:
    # Gain of the fleet by hand: 700 W a GPU today.
    fleet = gain * 700 / (700 + watts)
    return Package(
        steps, Interval(gain, gain - 0.01, gain + 0.01), priced(watts) if steps else None,
        100 * (gain - 1) / watts if watts else None,
        Interval(fleet, fleet - 0.01, fleet + 0.01), p_best,
    )  # fmt: skip


def study(**changes: object) -> PackageStudy:
    front = (package((), 1.0, 0.0, 0.1), package((HBM,), 1.12, 20.0, 0.3),
             package((HBM, SMS), 1.2, 140.0, 0.6))  # fmt: skip
    marginal = (
        MarginalGain("hbm_bandwidth", "HBM bandwidth", HBM.label, "identified", True,
                     Interval(1.12, 1.11, 1.13), Interval(1.12, 1.11, 1.13), priced(20.0).power,
                     0.6),
        MarginalGain("sm_count", "SM count", SMS.label, "identified", False,
                     Interval(1.05, 1.04, 1.06), Interval(1.07, 1.06, 1.08), priced(120.0).power,
                     0.058),
    )  # fmt: skip
    made = PackageStudy(
        "power", "W per GPU", 700.0, "power limit of the GPU", None, front, 1, 2, 1, marginal, {},
        12, True, {"L2 capacity": "the data cannot identify it"},
    )  # fmt: skip
    return replace(made, **changes)


def spread(lo: int, hi: int, first: float) -> RankSpread:
    return RankSpread(first, lo, hi)


@cache
def recs() -> Recommendations:
    base = recommendations()
    names = [w.name for w in base.workloads]
    return replace(
        base, packages=(study(),),
        rank_sensitivity=(
            RankSensitivity("sm_clock", 1, spread(1, 1, 1.0), spread(1, 2, 0.9), spread(1, 3, 0.8),
                            spread(1, 3, 0.75)),
            RankSensitivity("hbm_bandwidth", 2, spread(2, 2, 0.0), spread(1, 2, 0.1),
                            spread(1, 3, 0.2), spread(1, 3, 0.25)),
        ),
        first_moved=(FirstMoved("HBM energy at 3.9 pJ/bit (now 5.9)", "cost", "hbm_bandwidth",
                                "HBM bandwidth"),),
        first_changes_tried=51,
        ledger=Ledger("h100-sxm", False, (
            *(LedgerRow(n, "", {"measured": 0.6, "other_op": 0.4}, 0.1) for n in names),
            LedgerRow(names[0], "hbm_bandwidth", {"measured": 0.5, "interpolated": 0.2,
                                                  "other_precision": 0.3}),
            LedgerRow(names[1], "hbm_bandwidth", {}),
        )),
        software=(SoftwareResult(
            "fp8_gemms", "Multiply in FP8", "Switch.", Interval(1.07, 1.04, 1.09), {},
            (0.5, 0.8, 1.0), "an assumption", "medium", "why", "high", "why", "Time both.", (),
        ),),
    )  # fmt: skip
