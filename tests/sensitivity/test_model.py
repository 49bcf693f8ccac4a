from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign.hardware import load_system, system_of_gpu
from codesign.hardware.levers import apply_lever
from codesign.sensitivity import LeakageError, fit, load_model
from codesign.sensitivity.collective import CollectiveModel
from codesign.sensitivity.gemm import GemmModel
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.workload.schema import ops_frame
from tests.sensitivity.fakes import GPUS, FakeDB, gemm_ops


def test_an_excluded_gpu_is_never_read() -> None:
    db = FakeDB()
    model = fit(db, exclude=["b200-sxm"], models=(GemmModel(),), rows_per_gpu=60)
    assert set(db.asked) == set(GPUS) - {"b200-sxm"}
    assert model.trained_on == ("a100-80gb-sxm", "h100-sxm", "h200-sxm")


def test_the_fit_finds_the_truth(fake_model) -> None:
    unit = fake_model.content.units[0]
    values = dict(zip(unit.parameters, unit.values, strict=True))
    assert values["tensor_efficiency"] == pytest.approx(0.8, rel=0.04)
    assert unit.score.median_ape < 0.04
    assert abs(unit.score.bias) < 0.01


def test_it_holds_on_a_gpu_it_has_not_seen(fake_model) -> None:
    ops = gemm_ops(seed=9)
    truth = FakeDB(noise=0.0).times(ops, "b200-sxm")
    out = fake_model.predict(ops, system_of_gpu("b200-sxm"))
    assert np.median(np.abs(out["time_s"] / truth - 1)) < 0.03
    inside = (out["time_lo_s"] <= truth) & (truth <= out["time_hi_s"])
    assert inside.mean() > 0.95


def test_intervals_cover_a_gpu_that_differs() -> None:
    # The silicon of each family is off by 10 %: a new one must be allowed to be as well.
    bias = {"a100-80gb-sxm": 0.1, "h100-sxm": -0.1, "h200-sxm": -0.1, "b200-sxm": 0.1}
    db = FakeDB(bias=bias)
    model = fit(db, exclude=["b200-sxm"], models=(GemmModel(),), rows_per_gpu=100)
    ops = gemm_ops(seed=9)
    out = model.predict(ops, system_of_gpu("b200-sxm"))
    truth = db.times(ops, "b200-sxm")
    assert ((out["time_lo_s"] <= truth) & (truth <= out["time_hi_s"])).mean() > 0.85


def test_a_family_that_was_seen_is_predicted_as_fast_as_its_parts_are() -> None:
    """Hopper 12 % slower than the law in everything, Ampere 12 % faster: H200 is like H100."""
    bias = {"a100-80gb-sxm": -0.12, "h100-sxm": 0.12, "h200-sxm": 0.12, "b200-sxm": 0.0}
    db = FakeDB(bias=bias, noise=0.0)
    model = fit(db, gpus=["a100-80gb-sxm", "h100-sxm"], models=(GemmModel(),), rows_per_gpu=100)
    ops = gemm_ops(seed=9)
    h200, b200 = system_of_gpu("h200-sxm"), system_of_gpu("b200-sxm")
    seen, new = (model.predict(ops, s) for s in (h200, b200))
    error = np.log((seen["time_s"] / db.times(ops, "h200-sxm")).to_numpy(float))
    assert abs(np.median(error)) < 0.04
    # What is known of a family narrows the intervals of its parts.
    widths = [np.median(np.log((p["time_hi_s"] / p["time_lo_s"]).to_numpy(float)))
              for p in (seen, new)]  # fmt: skip
    assert widths[0] < 0.9 * widths[1]
    # A lever stays in its family: what it gains is no matter of how fast that is.
    base = load_system("hgx-h100")
    moved = model.times(ops, [base, apply_lever(base, "hbm_bandwidth", 1.5)])
    even = fit(FakeDB(noise=0.0), gpus=db.gpus()[:2], models=(GemmModel(),), rows_per_gpu=100)
    plain = even.times(ops, [base, apply_lever(base, "hbm_bandwidth", 1.5)])
    assert np.abs(moved[1] / moved[0] / (plain[1] / plain[0]) - 1).max() < 0.15


def test_asking_about_a_trained_gpu_is_leakage(fake_model) -> None:
    system = load_system("hgx-h100")
    with pytest.raises(LeakageError, match="h100-sxm"):
        fake_model.predict(gemm_ops(5), system)
    assert len(fake_model.predict(gemm_ops(5), system, in_sample=True)) == 5


def test_transfer_keeps_the_measured_residual(fake_model) -> None:
    source = load_system("hgx-h100")
    ops = gemm_ops(40)
    ops["time_s"] = fake_model.times(ops, [source])[0] * 1.3
    same = fake_model.predict(ops, source, source=source, in_sample=True)
    np.testing.assert_allclose(same["time_s"], ops["time_s"].astype(float), rtol=1e-9)
    assert (same["tier"] == "transfer").all()
    lever = apply_lever(source, "hbm_bandwidth", 1.5)
    moved = fake_model.predict(ops, lever, source=source, in_sample=True)
    ratio = fake_model.times(ops, [lever])[0] / fake_model.times(ops, [source])[0]
    np.testing.assert_allclose(moved["time_s"] / ops["time_s"].astype(float), ratio, rtol=1e-9)


LEVERS = ("hbm_bandwidth", "sm_count", "sm_clock", "l2_capacity", "bf16_throughput", "power")


@pytest.mark.parametrize("lever", LEVERS)
def test_draws_keep_the_laws_of_levers(fake_model, lever: str) -> None:
    base = load_system("hgx-h100")
    systems = [base, *(apply_lever(base, lever, f) for f in (1.0, 1.3, 2.0))]
    times = fake_model.times(gemm_ops(50), systems, fake_model.draws(20))
    assert times.shape == (20, 4, 50)
    np.testing.assert_array_equal(times[:, 1], times[:, 0])
    assert (np.diff(times[:, 1:], axis=1) <= times[:, 1:-1] * 1e-9).all()


def test_lever_uncertainty_grows_with_distance(fake_model) -> None:
    base = load_system("hgx-h100")
    systems = [base, *(apply_lever(base, "hbm_bandwidth", f) for f in (1.0, 1.2, 2.0))]
    times = fake_model.times(gemm_ops(50), systems, fake_model.draws(40)).sum(axis=2)
    spread = np.std(times[:, 1:] / times[:, :1], axis=0)
    assert spread[0] == 0.0
    assert spread[0] < spread[1] < spread[2]


def test_a_tensor_bound_op_gains_between_none_and_all_of_a_clock(fake_model) -> None:
    """A power limit may take all of a higher clock: half is the estimate, 0 to 1 are drawn."""
    ops = gemm_ops(1)
    ops[["m", "n", "k"]] = [[16384, 16384, 16384]]
    systems = [load_system("hgx-h100"), apply_lever(load_system("hgx-h100"), "sm_clock", 1.21)]
    point = fake_model.times(ops, systems)[:, 0]
    assert point[0] / point[1] == pytest.approx(1.1, rel=0.02)
    drawn = fake_model.times(ops, systems, fake_model.draws(200))[:, :, 0]
    gains = np.sort(drawn[:, 0] / drawn[:, 1])
    assert 1.0 <= gains[0] < 1.03
    assert 1.18 < gains[-1] < 1.3


def test_fp8_rate_does_nothing_to_bf16(fake_model) -> None:
    base = load_system("hgx-h100")
    times = fake_model.times(gemm_ops(50), [base, apply_lever(base, "fp8_throughput", 2.0)])
    np.testing.assert_array_equal(times[0], times[1])


def test_draws_are_reproducible_and_gpus_differ(fake_model) -> None:
    ops = gemm_ops(5)
    systems = [system_of_gpu("b200-sxm"), system_of_gpu("gb200")]
    one, two = (fake_model.times(ops, systems, fake_model.draws(8, seed=3)) for _ in "ab")
    np.testing.assert_array_equal(one, two)
    effects = np.log(one[:, 0] / one[:, 1]).std(axis=0)
    assert (effects > 0).all()


def test_what_is_not_modelled_is_held(fake_model) -> None:
    ops = gemm_ops(3)
    ops.loc[1, "op_class"] = "other"
    ops.loc[2, "k"] = pd.NA
    ops["time_s"] = [1e-3, 2e-3, 3e-3]
    base = load_system("hgx-h100")
    times = fake_model.times(ops, [base, apply_lever(base, "sm_clock", 2.0)])
    np.testing.assert_array_equal(times[:, 1:], [[2e-3, 3e-3]] * 2)
    out = fake_model.predict(ops, system_of_gpu("b200-sxm"))
    assert out["evidence"].tolist() == ["modelled", "assumed", "assumed"]
    assert out["binding"].tolist()[1:] == ["held", "held"]
    assert fake_model.covered(ops).tolist() == [True, False, False]


def test_binding_names_the_resource(fake_model) -> None:
    ops = gemm_ops(3)
    ops[["m", "n", "k"]] = [[1, 16384, 16384], [8192, 8192, 8192], [1, 128, 128]]
    found = fake_model.binding(ops, load_system("hgx-h100")).tolist()
    assert found == ["hbm", "tensor", "launch"]


def test_saved_and_loaded_it_is_the_same(fake_model, tmp_path) -> None:
    path = tmp_path / "model.json"
    fake_model.save(path)
    again = load_model(path)
    ops, system = gemm_ops(20), system_of_gpu("b200-sxm")
    pd.testing.assert_frame_equal(again.predict(ops, system), fake_model.predict(ops, system))
    assert again.identifiability() == fake_model.identifiability()


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"schema_version": 99}'])
def test_a_file_that_is_no_model_says_so(tmp_path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"broken\.json"):
        load_model(path)


def test_requests_that_cannot_be_met() -> None:
    with pytest.raises(UsageError, match="known: "):
        fit(FakeDB(), exclude=["h100"], models=(GemmModel(),))
    with pytest.raises(InsufficientDataError):
        fit(FakeDB(), exclude=GPUS, models=(GemmModel(),))


def test_identifiability_names_what_the_data_tell(fake_model) -> None:
    found = fake_model.identifiability()
    assert found["hbm_bandwidth"]["gemm"].status == "identified"
    assert found["hbm_capacity"]["gemm"].status == "no_effect"
    assert found["nvlink_bandwidth"]["gemm"].status == "no_effect"
    assert found["power"]["gemm"].status == "assumed"
    for by_class in found.values():
        for verdict in by_class.values():
            assert (verdict.status == "alias") == (verdict.alias is not None)


def test_a_model_of_other_forms_is_refused(fake_model, tmp_path) -> None:
    path = tmp_path / "model.json"
    fake_model.save(path)
    renamed = path.read_text().replace('"tensor_efficiency"', '"tensor_share"')
    path.write_text(renamed)
    with pytest.raises(DataError, match="codesign fit"):
        load_model(path)


def test_a_lever_that_moved_only_where_it_does_not_act_is_assumed() -> None:
    """Two networks, but only one GPU has a collective that crosses it: nothing was seen to vary."""
    row = {"op_class": "collective", "collective": "all_to_all", "name": "x", "count": 1.0,
           "precision": "bf16", "evidence": "measured"}  # fmt: skip
    sizes = [2.0**k for k in range(12, 30)]

    class Db:
        name = "two networks"

        def __init__(self, crossing: tuple[str, ...]) -> None:
            self.crossing = crossing

        def gpus(self) -> list[str]:
            return ["a100-80gb-sxm", "h100-sxm"]

        def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
            groups = (4, 8, 16, 32) if gpu in self.crossing else (2, 3, 4, 8)
            ops = ops_frame([
                {**row, "message_bytes": int(s), "group_size": g} for g in groups for s in sizes
            ])  # fmt: skip
            model = CollectiveModel()
            theta = np.array([p.initial for p in model.parameters("all_to_all")])
            hw = hardware_arrays([system_of_gpu(gpu)])
            ops["time_s"] = model.times(theta, model.features(ops), hw)[0]
            return ops

    one = fit(Db(("h100-sxm",)), models=(CollectiveModel(),)).identifiability()
    both = fit(Db(("a100-80gb-sxm", "h100-sxm")), models=(CollectiveModel(),)).identifiability()
    verdict = one["scaleout_bandwidth"]["collective"]
    assert verdict.status == "assumed"
    assert "(h100-sxm)" in verdict.reason
    # 200 Gb/s on the A100 and 400 on the H100, both seen at work: no longer the same everywhere.
    assert "is the same" not in both["scaleout_bandwidth"]["collective"].reason
