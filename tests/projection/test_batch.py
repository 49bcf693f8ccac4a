from __future__ import annotations

import numpy as np
import pytest

from codesign._common.errors import InsufficientDataError
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from codesign.projection import project
from codesign.projection.batch import Batch
from codesign.sensitivity import fit
from codesign.sensitivity.gemm import GemmModel
from codesign.sensitivity.memory import MemoryBoundModel
from tests.projection.fakes import FakeModel, characterization, collective, gemm
from tests.sensitivity.fakes import FakeDB

BASE = load_system("hgx-h100")
SYSTEMS = [apply_lever(BASE, "hbm_bandwidth", f) for f in (1.1, 2.0)] + [
    apply_lever(BASE, "bf16_throughput", 1.5)
]


@pytest.fixture(scope="module")
def model():
    return fit(FakeDB(), exclude=["b200-sxm"], models=(GemmModel(), MemoryBoundModel()),
               rows_per_gpu=60)  # fmt: skip


def workloads():
    big = gemm(3e-3, 3e12, 1e9, m=4096, n=4096, k=4096)
    thin = gemm(1e-4, 3e10, 1e8, m=16, n=8192, k=4096)
    hidden = collective(1e-3, 1e8, exposed_s=2e-4, overlap_window_s=8e-4)
    return {
        "a": characterization([big, thin, hidden], workload="a", system="hgx-h100", idle_s=1e-4),
        "b": characterization([thin, {"op_class": "norm", "name": "n", "time_s": 2e-4,
                                      "bytes": 1e8}], workload="b", system="hgx-h100"),
    }  # fmt: skip


def test_workloads_together_project_as_each_alone(model) -> None:
    chars, joint = workloads(), model.draws(25)
    together = Batch(chars, model, BASE).project(SYSTEMS, joint)
    for name, char in chars.items():
        alone = project(char, model, SYSTEMS, joint, base=BASE)
        np.testing.assert_allclose(together[name].step_time_s, alone.step_time_s, rtol=1e-12)
        np.testing.assert_allclose(together[name].exposed_s, alone.exposed_s, rtol=1e-12)
        assert together[name].base_step_time_s == alone.base_step_time_s
        np.testing.assert_array_equal(together[name].held, alone.held)


def test_another_gpu_goes_by_transfer_as_ever(model) -> None:
    chars = workloads()
    there = Batch(chars, model, BASE).project([load_system("hgx-b200")])
    alone = project(chars["b"], model, [load_system("hgx-b200")], None, base=BASE)
    np.testing.assert_array_equal(there["b"].step_time_s, alone.step_time_s)


def test_a_model_that_prepares_nothing_is_asked_workload_by_workload() -> None:
    chars = {"a": characterization([gemm(1.0, 1e15, 1e11)])}
    assert Batch(chars, FakeModel(), BASE).project([])["a"].step_time_s.shape == (1, 0)


def test_a_workload_that_nothing_covers_is_named(model) -> None:
    lost = characterization([collective(1.0, 1e9)], workload="lost", system="hgx-h100")
    with pytest.raises(InsufficientDataError, match="lost"):
        Batch({"lost": lost}, model, BASE).project(SYSTEMS)
