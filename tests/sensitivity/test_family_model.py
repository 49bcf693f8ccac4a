"""A fitted model with effects of families: seen families, new ones, and levers in every draw."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from codesign._common.errors import DataError, UsageError
from codesign.hardware import load_system, system_of_gpu
from codesign.hardware.levers import apply_lever
from codesign.sensitivity import SensitivityModel, fit, load_model
from codesign.sensitivity.collective import CollectiveModel
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.workload.schema import ops_frame

MODEL = CollectiveModel()
LATENCY = {"a100-80gb-sxm": 1.3, "h100-sxm": 0.7, "h200-sxm": 0.7, "b200-sxm": 1.3}
"""Of each part's links against the law, as measured floors have it."""


def ops() -> pd.DataFrame:
    """all_gather and all_reduce of 512 bytes to 256 MB."""
    return ops_frame([
        {"op_class": "collective", "name": "nccl", "collective": kind, "count": 1.0,
         "message_bytes": 2**power, "group_size": ranks, "evidence": "measured"}
        for kind in ("all_gather", "all_reduce") for power in range(9, 29) for ranks in (2, 4, 8)
    ])  # fmt: skip


def times(gpu: str) -> np.ndarray:
    """Seconds by the model's law with the latency of the part's links."""
    theta = np.array([p.initial for p in MODEL.parameters("")])
    theta[1:3] *= LATENCY[gpu]
    theta[3] *= LATENCY[gpu]
    return MODEL.times(theta, MODEL.features(ops()), hardware_arrays([system_of_gpu(gpu)]))[0]


class FakeDB:
    name = "fake"

    def gpus(self) -> list[str]:
        return list(LATENCY)

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm") -> pd.DataFrame:
        if op_class != "collective":
            raise UsageError("no such table")
        return ops().assign(time_s=times(gpu))


@pytest.fixture(scope="module")
def model() -> SensitivityModel:
    return fit(FakeDB(), gpus=["a100-80gb-sxm", "h100-sxm"], models=(MODEL,))


def small() -> np.ndarray:
    return ops()["message_bytes"].to_numpy(float) < 2**15


def test_a_seen_family_is_predicted_with_its_own_latency(model) -> None:
    out = model.predict(ops(), system_of_gpu("h200-sxm"))
    error = out["time_s"].to_numpy(float) / times("h200-sxm") - 1
    assert abs(np.median(error[small()])) < 0.05
    assert np.median(np.abs(error)) < 0.05


def test_a_new_family_is_expected_between_and_may_be_on_either_side(model) -> None:
    out = model.predict(ops(), system_of_gpu("b200-sxm"))
    truth = times("b200-sxm")
    error = out["time_s"].to_numpy(float) / truth - 1
    # Between 0.7 and 1.3 of the law, where 1.3 is true.
    assert -0.40 < np.median(error[small()]) < -0.05
    inside = (out["time_lo_s"] <= truth) & (truth <= out["time_hi_s"])
    assert inside.mean() > 0.85
    width = np.log(out["time_hi_s"] / out["time_lo_s"]).to_numpy(float)
    seen = model.predict(ops(), system_of_gpu("h200-sxm"))
    known = np.log(seen["time_hi_s"] / seen["time_lo_s"]).to_numpy(float)
    # The latency of new links is what is unsure.
    assert np.median(width[small()]) > 1.5 * np.median(known[small()])
    large = ops()["message_bytes"].to_numpy(float) >= 2**27
    assert np.median(width[large]) < 0.9 * np.median(width[small()])


def test_what_a_new_family_has_of_its_own_carries_over_inside_it(model) -> None:
    """B200 measured, B300 asked: the latency that no one trained on comes with the source."""
    source, target = system_of_gpu("b200-sxm"), system_of_gpu("b300-sxm")
    asked = ops().assign(time_s=times("b200-sxm"))
    out = model.predict(asked, target, source=source)
    law = model.times(ops(), [source, target])
    expected = times("b200-sxm") * law[1] / law[0]
    # On either side of 90 %: most of log(1.3) is kept, where the law alone would lose it.
    kept = np.log(out["time_s"].to_numpy(float) / law[1]) / np.log(expected / law[1])
    assert np.median(kept[small()]) > 0.85


@pytest.mark.parametrize("lever", ["nvlink_bandwidth", "sm_clock", "launch_latency"])
def test_levers_are_monotone_in_every_draw_and_none_is_exactly_one(model, lever: str) -> None:
    base = load_system("hgx-b200")
    factors = (1.0, 1.3, 2.0) if lever != "launch_latency" else (1.0, 0.7, 0.4)
    systems = [base, *(apply_lever(base, lever, f) for f in factors)]
    drawn = model.times(ops(), systems, model.draws(30, 3))
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (np.diff(drawn[:, 1:], axis=1) <= 1e-12 * drawn[:, 2:]).all()


def test_systems_of_two_families_get_each_their_own(model) -> None:
    systems = [system_of_gpu("h100-sxm"), system_of_gpu("a100-80gb-sxm")]
    together = model.times(ops(), systems)
    apart = [model.times(ops(), [s])[0] for s in systems]
    np.testing.assert_allclose(together, np.stack(apart), rtol=1e-12)


def test_effects_survive_the_file(model, tmp_path) -> None:
    model.save(tmp_path / "m.json")
    again = load_model(tmp_path / "m.json")
    assert again.content == model.content
    effects = again.content.units[0].between.effects
    assert [e.name for e in effects] == ["latency", "bandwidth"]
    assert effects[0].families["hopper"] < 0 < effects[0].families["ampere"]


def test_a_file_whose_effects_name_other_families_than_their_sds_is_refused(
    model, tmp_path
) -> None:
    path = tmp_path / "m.json"
    model.save(path)
    content = json.loads(path.read_text())
    effect = content["units"][0]["between"]["effects"][0]
    effect["family_sd"] = {"tesla": next(iter(effect["family_sd"].values()))}
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"m\.json.*latency.*different families"):
        load_model(path)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("sd", -0.1, "effects"),
        ("degrees", 0.0, "degrees"),
        ("host_spread_sd", -1.0, "host_spread_sd"),
        ("host_degrees", -3.0, "host_degrees"),
        ("family_sd", {"hopper": -0.1}, "family_sd"),
        ("moves", [0.0], "sizes disagree"),
        ("name", "bandwidth", "an effect stands twice"),
    ],
)
def test_a_file_whose_effects_make_no_sense_is_refused(
    model, tmp_path, field: str, value: object, told: str
) -> None:
    path = tmp_path / "m.json"
    model.save(path)
    content = json.loads(path.read_text())
    content["units"][0]["between"]["effects"][0][field] = value
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"m\.json.*{told}.*codesign fit"):
        load_model(path)
