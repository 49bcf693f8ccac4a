"""Doubts and the gains that rest on them, on the toy portfolio whose answer is done by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from codesign.recommend.build import recommend
from codesign.recommend.schema import Recommendations
from codesign.workload.caveat import Caveat
from codesign.workload.characterization import Characterization, Quality, Reliability
from tests.projection.fakes import characterization, collective, gemm
from tests.recommend.cases import BASE, IdentifiedModel, chars, portfolio


def run(given: dict[str, Characterization], **changes: Any) -> Recommendations:
    return recommend(portfolio(**changes), given, IdentifiedModel(), base=BASE)


def with_caveats(*caveats: Caveat) -> dict[str, Characterization]:
    given = chars()
    given["train"] = given["train"].with_header(caveats=caveats)
    return given


def about(recs: Recommendations, lever: str) -> tuple[str, ...]:
    return next(r for r in recs.recommendations if r.lever == lever).caveats


def test_a_doubt_stands_at_the_head_and_beside_the_lever_that_rests_on_it() -> None:
    recs = run(with_caveats(Caveat("half of the exchange is a wait", ("tp.*",), 0.5)))
    # Links x2: train 4 s -> 3.5 s, 1 / (0.4375 + 0.5) = 1.067. With half of its second of links
    # gone it is 3.5 s -> 3.25 s: 1 / (0.5 x 3.25 / 3.5 + 0.5) = 1.037.
    (line,) = [w for w in recs.warnings if "half of the exchange" in w]
    assert line.startswith("train: half of the exchange is a wait. On it rests the gain of NVLink")
    assert "100 % of the time it saves; x1.037 instead of x1.067 if that time is not there" in line
    (beside,) = about(recs, "nvlink_bandwidth")
    assert "x1.037 instead of x1.067" in beside
    # HBM bandwidth gains on the other workload.
    assert about(recs, "hbm_bandwidth") == ()


def test_time_that_is_hidden_goes_first() -> None:
    """Two seconds of links behind a window of one: without 1.5 of them none is exposed."""
    given = chars()
    given["train"] = characterization(
        [
            gemm(3.0, 3e15, 1e11, name="qkv"),
            collective(2.0, 2e11, exposed_s=1.0, overlap_window_s=1.0),
        ],
        workload="train", phase="pretrain",
        caveats=(Caveat("most of it is a wait", ("tp.all_reduce",), 0.75),),
    )  # fmt: skip
    (line,) = about(run(given), "nvlink_bandwidth")
    assert "x1.000 instead of x1.143 if that time is not there" in line


def test_a_doubt_about_ops_that_no_gain_rests_on_is_left_out() -> None:
    recs = run(with_caveats(Caveat("nothing here is called so", ("moe.*",))))
    assert not any("nothing here" in w for w in recs.warnings)
    assert not any(r.caveats for r in recs.recommendations)


def test_what_a_lever_needs_and_the_capture_does_not_measure() -> None:
    given = chars()
    doubt = Quality(reliability={"exposed": Reliability(False, ("overlap is assumed",)),
                                 "launch": Reliability(False, ("never seen",))})  # fmt: skip
    # 0.2 s of the 3 s are launches: halving them gains train 2.6 %, the portfolio 1.3 %.
    rows = [gemm(3.0, 2.8e15, 1e11, name="qkv", count=2e5), collective(1.0, 1e11)]
    given["train"] = characterization(rows, workload="train", phase="pretrain", quality=doubt)
    recs = run(given)
    text = "not measured: how much communication is exposed (overlap is assumed)"
    (line,) = [w for w in recs.warnings if w.startswith(text)]
    assert "NVLink bandwidth (all of the time it saves)" in line
    assert about(recs, "nvlink_bandwidth")[0].startswith(text)
    # Too little for a warning at the head; their own section says it all the same.
    assert not any("launch times" in w for w in recs.warnings)
    assert any("launch times (never seen)" in c for c in about(recs, "launch_latency"))


def test_levers_that_nothing_measured_varies_are_named() -> None:
    class Guess(IdentifiedModel):
        def identifiability(self) -> dict[str, Any]:
            return {k: v for k, v in super().identifiability().items() if k != "nvlink_bandwidth"}

    recs = recommend(portfolio(), chars(), Guess(), base=BASE)
    (line,) = [w for w in recs.warnings if w.startswith("no measurement varies")]
    assert line.startswith(
        "no measurement varies NVLink bandwidth: what it gains is an assumption, so it ranks"
    )


def test_composed_workloads_say_what_was_never_run() -> None:
    given = chars()
    for name in given:
        given[name] = given[name].with_header(
            capture_method="composed", assumptions={"kernel times": "each run alone"}
        )
    (line,) = [w for w in run(given).warnings if "composed" in w]
    assert line.startswith("all 2 workloads are composed from kernel times, each run alone")
    assert "BF16 throughput would draw more power and is projected at the same clock" in line
    given["serve"] = chars()["serve"]
    assert any(w.startswith("1 of 2 workloads is composed") for w in run(given).warnings)


def test_a_model_that_misses_the_step_names_who_leans_on_it() -> None:
    given = chars()
    given["serve"] = characterization(
        [gemm(40.0, 1e14, 3.6e12, phase="decode")], workload="serve", phase="decode"
    )
    (line,) = [w for w in run(given).warnings if "the fitted model puts the step" in w]
    assert "of 40 s at 3.6 s (-91 %)" in line
    assert line.endswith("On it rests the gain of HBM bandwidth (100 % of the time it saves)")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"text": " "}, "text is empty"),
        ({"text": "x", "share": 0.0}, "share = 0.0"),
        ({"text": "x", "share": 1.5}, "share = 1.5"),
        ({"text": "x", "ops": [""]}, "empty pattern"),
        ({"text": "x", "op": ["a"]}, "op"),
    ],
)
def test_a_caveat_that_says_nothing_is_refused(content: dict[str, Any], told: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=told):
        msgspec.convert(content, Caveat)


def test_a_caveat_concerns_the_ops_that_it_names() -> None:
    some = Caveat("x", ("ep.*", "tp.all_gather"))
    assert [some.concerns(n) for n in ("ep.combine", "tp.all_gather", "tp.all_reduce")] == [
        True, True, False,
    ]  # fmt: skip
    assert Caveat("x").concerns("anything")
