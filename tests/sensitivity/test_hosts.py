"""Effects of hosts, nested in those of a silicon family: found again, shrunk, unsure if unseen."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from codesign._common.errors import DataError
from codesign.hardware import load_system, system_of_gpu
from codesign.sensitivity import SensitivityModel, fit, load_model
from codesign.sensitivity.collective import CollectiveModel
from codesign.sensitivity.effects import Effect, FamilyFit, OfHost, doubts_of, spread_of_hosts
from codesign.sensitivity.hardware_arrays import Kin, hardware_arrays
from codesign.sensitivity.training import TrainingSource
from tests.sensitivity.test_family_model import MODEL, ops, small

WAIT = {"h100-sxm": 0.9, "b200-sxm": 0.7, "b300-sxm": 0.7, "gb200": 1.6, "gb300": 1.6}
"""Latency of each part's exchanges against the law: Grace takes 2.3 times as long as x86."""
X86, GRACE = Kin("blackwell", "x86"), Kin("blackwell", "grace")


def times(gpu: str) -> np.ndarray:
    theta = np.array([p.initial for p in MODEL.parameters("")])
    theta[1:4] *= WAIT[gpu]
    return MODEL.times(theta, MODEL.features(ops()), hardware_arrays([system_of_gpu(gpu)]))[0]


class FakeDB:
    name = "fake"

    def gpus(self) -> list[str]:
        return list(WAIT)

    def training_ops(self, gpu: str, op_class: str, framework: str = "trtllm"):
        return ops().assign(time_s=times(gpu))


def fitted(*gpus: str) -> SensitivityModel:
    db: TrainingSource = FakeDB()
    return fit(db, gpus=gpus, models=(CollectiveModel(),))


@pytest.fixture(scope="module")
def both() -> SensitivityModel:
    """Trained on both hosts of Blackwell."""
    return fitted("h100-sxm", "b300-sxm", "gb300")


def middle_error(model: SensitivityModel, gpu: str) -> float:
    out = model.predict(ops()[small()], system_of_gpu(gpu))
    return float(np.median(out["time_s"].to_numpy(float) / times(gpu)[small()] - 1))


def width(model: SensitivityModel, system) -> float:
    out = model.predict(ops()[small()], system)
    return float(np.median(np.log(out["time_hi_s"] / out["time_lo_s"]).to_numpy(float)))


@pytest.mark.parametrize("gpu", ["b200-sxm", "gb200"])
def test_a_part_left_out_has_the_latency_of_its_own_host(both, gpu: str) -> None:
    """Either way a factor of 2.3 lies between the two."""
    assert abs(middle_error(both, gpu)) < 0.06


def test_a_host_not_said_is_the_mean_of_its_familys_and_less_sure(both) -> None:
    """sqrt(0.7 x 1.6) = 1.06 of the law's latency, between the two."""
    unsaid = replace(load_system("hgx-b200"), host="")
    hosts = [load_system("hgx-b200"), load_system("gb200-nvl72")]
    low, high = (both.predict(ops()[small()], s)["time_s"].median() for s in hosts)
    assert 1.2 * low < both.predict(ops()[small()], unsaid)["time_s"].median() < high / 1.2
    assert width(both, unsaid) > 1.5 * width(both, hosts[0])


def test_a_host_that_no_part_was_on_makes_its_family_less_sure() -> None:
    """Blackwell seen on x86 alone: Grace is expected to be no other, with a wider interval."""
    model = fitted("h100-sxm", "b300-sxm")
    grace = replace(load_system("hgx-b200"), host="grace")
    x86 = model.predict(ops(), load_system("hgx-b200"))["time_s"]
    np.testing.assert_allclose(model.predict(ops(), grace)["time_s"], x86)
    assert width(model, grace) > 1.1 * width(model, load_system("hgx-b200"))


def test_what_was_measured_on_one_host_carries_to_the_other(both) -> None:
    """B200 measured, GB200 asked: the ratio of the two hosts is known from B300 and GB300."""
    asked = ops()[small()].assign(time_s=times("b200-sxm")[small()])
    out = both.predict(asked, system_of_gpu("gb200"), source=system_of_gpu("b200-sxm"))
    error = out["time_s"].to_numpy(float) / times("gb200")[small()] - 1
    assert abs(np.median(error)) < 0.06


def effect(hosts: dict[str, dict[str, OfHost]], families: dict[str, float]) -> Effect:
    return Effect(
        name="latency", sd=0.4, degrees=5.0, moves=(1.0,), families=families,
        family_sd=dict.fromkeys(families, 0.03), hosts=hosts, host_spread_sd=0.2, host_degrees=4.0,
    )  # fmt: skip


SEEN = {"blackwell": {"x86": OfHost(-0.5, 0.05)}, "hopper": {"x86": OfHost(0.1, 0.04)}}


def test_doubts_by_hand() -> None:
    """95 % points: t of 4 degrees 2.132, of 5 2.015, normal 1.645."""
    one = effect(SEEN, {"blackwell": -0.5, "hopper": 0.1})
    assert (one.value(X86), one.value(GRACE), one.value(Kin("rubin", "x86"))) == (-0.5, -0.5, 0.0)
    t4, t5 = 2.132 / 1.645, 2.015 / 1.645
    expected = {
        X86: (0.0, 0.05), GRACE: (0.03, 0.2 * t4),
        # A host that others were seen on adds nothing to a new family's spread.
        Kin("rubin", "x86"): (0.4 * t5, 0.0), Kin("rubin", "vera"): (0.4 * t5, 0.2 * t4),
    }  # fmt: skip
    for kin, wanted in expected.items():
        found = [d.wide_sd for d in one.doubts(kin)]
        assert found == pytest.approx(wanted, rel=1e-3), kin


def test_systems_of_a_family_share_its_doubt_and_hosts_keep_their_own() -> None:
    one = effect({"hopper": SEEN["hopper"]}, {"hopper": 0.1})
    found = doubts_of([one], [X86, GRACE])
    assert [set(doubt) for doubt in found] == [{X86, GRACE}, {GRACE}]
    seen = doubts_of([effect(SEEN, {"blackwell": -0.5})], [X86, X86])
    assert seen == [{X86: pytest.approx([0.05])}]


def test_spread_of_hosts_by_hand() -> None:
    """+0.5 and -0.5 have a square of 0.5 on one degree; the prior's 0.1 on three: 0.53 / 4."""
    hosts = {"a": {"x86": ((1.0,), (0.0,)), "grace": ((0.0,), (0.0,))},
             "b": {"x86": ((3.0,), (0.0,))}}  # fmt: skip
    several = FamilyFit(("only",), {"a": (0.5,), "b": (3.0,)}, {}, {}, hosts)
    spread, degrees = spread_of_hosts(several)
    assert (spread[0] ** 2, degrees) == (pytest.approx(0.53 / 4), 4.0)
    alone = FamilyFit(("only",), {"b": (3.0,)}, {}, {}, {"b": hosts["b"]})
    assert spread_of_hosts(alone) == (pytest.approx([0.1]), 3.0)


def test_draws_of_a_host_spread_as_its_interval(both) -> None:
    """The 5 and 95 % points of latency-bound times, drawn and predicted."""
    for system in (load_system("hgx-b200"), replace(load_system("hgx-b200"), host="")):
        out = both.predict(ops()[small()], system)
        drawn = both.times(ops()[small()], [system], both.draws(2000, 1))[:, 0]
        lo, hi = np.log(np.quantile(drawn, [0.05, 0.95], axis=0))
        wanted = np.log(out["time_hi_s"] / out["time_lo_s"]).to_numpy(float)
        # An op's own spread is no part of the draws.
        assert 0.5 < np.median((hi - lo) / wanted) < 1.15


def test_hosts_survive_the_file_and_those_of_other_families_are_refused(both, tmp_path) -> None:
    path = tmp_path / "m.json"
    both.save(path)
    assert load_model(path).content == both.content
    content = json.loads(path.read_text())
    one = content["units"][0]["between"]["effects"][0]
    one["hosts"]["tesla"] = one["hosts"].pop("hopper")
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"m\.json.*latency.*different families"):
        load_model(path)
