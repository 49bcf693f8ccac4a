"""What changed and why, on the toy portfolio: every expected gain is worked out by hand.

``train`` is 3 s of tensor time and 1 s of links, ``serve`` 4 s of HBM time. HBM bandwidth x2
makes ``serve`` twice as fast and leaves ``train`` alone.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign._common.scores import Interval
from codesign.recommend.build import recommend
from codesign.recommend.change_records import Changes, LeverChange
from codesign.recommend.compare import Older
from codesign.recommend.jsonfile import json_schema, to_json
from codesign.recommend.portfolio import Portfolio, WorkloadEntry
from codesign.recommend.schema import LeverPoint, Recommendations
from codesign.workload.characterization import Characterization
from tests.projection.fakes import characterization, gemm
from tests.recommend.cases import BASE, IdentifiedModel, chars, portfolio, run


def weighted(train: float, **changes: Any) -> Portfolio:
    entries = (WorkloadEntry(weight=train, characterization="train.parquet"),
               WorkloadEntry(weight=1 - train, characterization="serve.parquet"))  # fmt: skip
    return portfolio(workloads=entries, **changes)


def serve_on_tensor() -> dict[str, Characterization]:
    """``serve`` measured anew: 2 s of HBM, 2 s of tensor time."""
    serve = characterization(
        [gemm(2.0, 1e14, 2e12, name="weights", phase="decode"),
         gemm(2.0, 2e15, 1e11, name="guess", phase="decode")],
        workload="serve", phase="decode",
    )  # fmt: skip
    return chars() | {"serve": serve}


def against(old: Recommendations, plan: Portfolio, data: Any = None, model: Any = None) -> Changes:
    made = recommend(plan, data or chars(), model or IdentifiedModel(), base=BASE,
                     older=Older(old, "old.json", "f" * 64))  # fmt: skip
    assert made.changes is not None
    return made.changes


def of(changes: Changes, lever: str) -> LeverChange:
    return next(x for x in changes.levers if x.lever == lever)


def names(changes: Changes) -> list[str]:
    return [c.name for c in changes.causes]


def test_the_same_inputs_change_nothing() -> None:
    changes = against(run(), portfolio())
    assert changes.summary == "Nothing that went in has changed, and nor has the list."
    assert (changes.causes, changes.stages, changes.first_by) == ((), (), ())
    assert all(x.rank_before == x.rank_after for x in changes.levers)
    # Of memory that was not studied and a rate that the part has not, nobody said a gain.
    silent = {x.lever for x in changes.levers if x.gain_before is None}
    assert silent == {x.lever for x in changes.levers if x.gain_after is None}
    assert silent == {"hbm_capacity", "fp4_throughput"}


def test_other_weights_are_laid_to_weights() -> None:
    changes = against(run(), weighted(0.9))
    assert names(changes) == ["weights"]
    assert changes.causes[0].what == ("train: 50 % -> 90 %", "serve: 50 % -> 10 %")
    assert changes.causes[0].how.startswith("recomputed")
    hbm = of(changes, "hbm_bandwidth")
    at = hbm.factor or 0.0
    # serve takes 1/f of its time: 1 / (w + (1 - w) / f).
    expected = (0.5 + 0.5 / at) / (0.9 + 0.1 / at)
    assert hbm.gains == {"weights": pytest.approx(expected, rel=1e-4)}
    assert (hbm.rank_before, hbm.rank_after, changes.first_by) == (1, 2, ("weights",))
    assert changes.first_after == "nvlink_bandwidth"
    assert "NVLink bandwidth is first now instead of HBM bandwidth, by weights" in changes.summary


def test_data_alone_are_told_by_elimination() -> None:
    changes = against(run(), portfolio(), serve_on_tensor())
    assert names(changes) == ["data"]
    assert changes.causes[0].what[0].startswith("workload serve: ")
    assert "elimination" in changes.causes[0].how
    hbm = of(changes, "hbm_bandwidth")
    at = hbm.factor or 0.0
    # serve was all HBM; now half of it is.
    expected = (0.5 + 0.5 / at) / (0.5 + 0.5 * (0.5 + 0.5 / at))
    assert hbm.gains == {"data": pytest.approx(expected, rel=1e-3)}


def test_data_and_weights_are_told_apart() -> None:
    changes = against(run(), weighted(0.2), serve_on_tensor())
    assert names(changes) == ["data", "weights"]
    assert changes.stages == ("data", "weights")
    hbm = of(changes, "hbm_bandwidth")
    at = hbm.factor or 0.0
    half = 0.5 + 0.5 / at
    data = (0.5 + 0.5 / at) / (0.5 + 0.5 * half)
    weights = (0.5 + 0.5 * half) / (0.2 + 0.8 * half)
    assert hbm.gains["data"] == pytest.approx(data, rel=1e-3)
    assert hbm.gains["weights"] == pytest.approx(weights, rel=1e-3)


class Doubting(IdentifiedModel):
    """Another model: it takes HBM time for half of what it is."""

    def _terms(self, ops: Any, system: Any) -> Any:
        terms = super()._terms(ops, system)
        return terms | {"hbm": terms["hbm"] / 2, "launch": terms["launch"] + terms["hbm"] / 2}


def with_hash(recs: Recommendations, digest: str) -> Recommendations:
    kept = msgspec.structs.replace(recs.provenance, model_sha256=digest, model=f"{digest}.json")
    return msgspec.structs.replace(recs, provenance=kept)


def test_model_and_data_are_told_apart_only_with_the_older_model() -> None:
    old = with_hash(run(), "old")
    together = against(old, portfolio(), serve_on_tensor(), Doubting())
    assert names(together) == ["data", "model"]
    assert together.stages == ("data and model",)
    assert "not told apart from model" in together.causes[0].how
    assert any("--compare-model" in note for note in together.notes)
    made = recommend(portfolio(), serve_on_tensor(), Doubting(), base=BASE,
                     older=Older(old, model=IdentifiedModel()))  # fmt: skip
    apart = made.changes
    assert apart is not None
    assert apart.stages == ("data", "model")
    assert all(c.how.startswith("recomputed") for c in apart.causes)
    for lever in apart.levers:
        if lever.gains:
            whole = of(together, lever.lever).gains["data and model"]
            assert math.prod(lever.gains.values()) == pytest.approx(whole, rel=1e-9)


def cheaper(recs: Recommendations, lever: str, by: float) -> Recommendations:
    """The file as it were if the lever's watts were divided by ``by``, and it first for that."""
    change = msgspec.structs.replace

    def point(p: LeverPoint) -> LeverPoint:
        assert p.cost is not None
        assert p.cost.power.value is not None
        power = change(p.cost.power, value=p.cost.power.value / by)
        return change(p, cost=change(p.cost, power=power))

    levers = tuple(
        change(x, points=tuple(point(p) for p in x.points)) if x.lever == lever else x
        for x in recs.levers
    )
    order = sorted(recs.recommendations, key=lambda r: r.lever != lever)
    ranks = tuple(change(r, rank=i) for i, r in enumerate(order, start=1))
    return change(recs, levers=levers, recommendations=ranks)


def test_older_costs_are_put_back_step_by_step() -> None:
    """Per watt NVLink is first; HBM bandwidth was, while it cost a hundredth of its watts."""
    plan = portfolio(levers={"hbm_bandwidth": (2.0,), "nvlink_bandwidth": (2.0,)})
    new = recommend(plan, chars(), IdentifiedModel(), base=BASE)
    assert new.recommendations[0].lever == "nvlink_bandwidth"
    changes = against(cheaper(new, "hbm_bandwidth", 100.0), plan)
    assert names(changes) == ["cost"]
    assert changes.causes[0].what[0].startswith("HBM bandwidth +100 %: power ")
    assert changes.first_before == "hbm_bandwidth"
    assert (changes.first_after, changes.first_by) == ("nvlink_bandwidth", ("cost",))
    assert all(gain == 1.0 for x in changes.levers for gain in x.gains.values())


def test_settings_come_last_and_are_named() -> None:
    changes = against(run(), portfolio(ranking="money", min_gain=0.3, seed=9))
    assert names(changes) == ["settings"]
    said = " | ".join(changes.causes[0].what)
    assert "per W per GPU -> per USD per GPU" in said
    assert "min_gain: 0.02 -> 0.3" in said
    assert "seed: 3 -> 9" in said
    # A point estimate does not depend on the draws.
    assert of(changes, "hbm_bandwidth").gains == {"settings": pytest.approx(1.0)}


def test_a_workload_that_is_gone_is_said_to_be() -> None:
    alone = portfolio(workloads=(WorkloadEntry(weight=1.0, characterization="serve.parquet"),))
    changes = against(run(), alone)
    assert names(changes)[0] == "workloads"
    assert changes.causes[0].what == ("train is gone (it weighed 50 %)",)
    assert any("What train carried cannot be recomputed" in note for note in changes.notes)


def test_a_list_that_differs_without_a_recorded_reason_says_so() -> None:
    old = run()
    swapped = [old.recommendations[1], old.recommendations[0], *old.recommendations[2:]]
    ranks = tuple(msgspec.structs.replace(r, rank=i) for i, r in enumerate(swapped, start=1))
    changes = against(msgspec.structs.replace(old, recommendations=ranks), portfolio())
    assert changes.stages == ("not explained",)
    assert changes.summary.startswith("No input is known to differ.")


def test_an_older_file_without_fingerprints_is_compared_by_what_it_has() -> None:
    old = run()
    bare = msgspec.structs.replace(old.provenance, fingerprints={}, settings={})
    changes = against(msgspec.structs.replace(old, provenance=bare), weighted(0.9))
    assert names(changes) == ["weights"]
    assert any("no fingerprints" in note for note in changes.notes)


@settings(max_examples=5)
@given(st.floats(0.05, 0.95), st.booleans())
def test_stages_multiply_to_the_whole_change(train: float, anew: bool) -> None:
    old = run()
    data = serve_on_tensor() if anew else chars()
    new = recommend(weighted(train), data, IdentifiedModel(), base=BASE, older=Older(old))
    changes = new.changes
    assert changes is not None
    for lever in changes.levers:
        if lever.factor is None:
            continue
        before, after = (
            next(p.gain.value for x in recs.levers if x.lever == lever.lever
                 for p in x.points if math.isclose(p.factor, lever.factor))
            for recs in (old, new)
        )  # fmt: skip
        assert math.prod(lever.gains.values()) == pytest.approx(after / before, rel=1e-9)


def test_a_comparison_stands_in_the_file_and_its_schema() -> None:
    import jsonschema

    new = recommend(weighted(0.9), chars(), IdentifiedModel(), base=BASE, older=Older(run()))
    content = msgspec.json.decode(to_json(new))
    jsonschema.Draft202012Validator(json_schema()).validate(content)
    assert content["changes"]["stages"] == ["weights"]
    assert isinstance(new.recommendations[0].gain, Interval)
