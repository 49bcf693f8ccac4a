"""What is timed once for several must be what each would be by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from codesign.sensitivity.hardware_arrays import hardware_arrays
from codesign.sensitivity.op_model import ALL_QUANTITIES
from codesign.sensitivity.registry import MODELS
from tests.sensitivity.fakes import gemm_ops
from tests.sensitivity.laws import example_system
from tests.sensitivity.test_attention import attention
from tests.sensitivity.test_collective import collective
from tests.sensitivity.test_gemm import gemm
from tests.sensitivity.test_grouped_gemm import moe
from tests.sensitivity.test_memory import op

SAMPLES = {
    "gemm": pd.concat([gemm(4096, 4096, 512), gemm(8, 4096, 4096, "fp8_block")]),
    "grouped_gemm": pd.concat([moe(), moe(8, precision="fp8")]),
    "attention_prefill": pd.concat([attention(), attention(kv_precision="fp8")]),
    "attention_decode": pd.concat([attention(q_len=1), attention(q_len=1, kv_heads=1)]),
    "collective": pd.concat([
        collective("all_reduce", 2**20, 16), collective("all_gather", 2**28, 64),
        collective("dispatch", 2**24, 32, topk=8, name="ep.dispatch deepep"),
    ]),
    "memory": pd.concat([op(1e8), op(1e4)]),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_a_model_depends_on_nothing_but_what_it_says_it_reads(model) -> None:
    ops = SAMPLES[next(name for name in SAMPLES if model.name.startswith(name))]
    assert model.applies(ops).all()
    theta = np.array([p.initial for p in model.parameters(str(model.variant(ops)[0]))])
    hw, features = hardware_arrays([example_system()]), model.features(ops)
    before = model.times(theta, features, hw)
    for name in ALL_QUANTITIES - model.reads - {"architectures"}:
        value = getattr(hw, name)
        moved = replace(hw, **{name: ~value if value.dtype == bool else value * 1.7 + 1})
        np.testing.assert_array_equal(model.times(theta, features, moved), before, err_msg=name)


def levered(*steps: tuple[str, float]):
    return [apply_lever(load_system("hgx-h100"), name, factor) for name, factor in steps]


SYSTEMS = (
    load_system("hgx-h100"), load_system("hgx-a100"), load_system("hgx-b200"),
    *levered(("hbm_bandwidth", 1.5), ("nvlink_bandwidth", 2.0), ("bf16_throughput", 2.0),
             ("fp8_throughput", 2.0), ("sm_clock", 1.1), ("power", 1.25), ("sm_count", 1.1)),
)  # fmt: skip


def test_rows_and_systems_timed_together_have_the_times_that_each_has_alone(fake_model) -> None:
    ops = pd.concat([gemm_ops(6), gemm_ops(6), op(1e8), op(1e8)], ignore_index=True)
    ops["count"] = np.arange(len(ops)) + 1.0
    joint = fake_model.draws(7)
    together = fake_model.times(ops, SYSTEMS, joint)
    point = fake_model.times(ops, SYSTEMS)
    for s, system in enumerate(SYSTEMS):
        for row in range(len(ops)):
            one = ops.iloc[[row]]
            np.testing.assert_allclose(together[:, s, row],
                                       fake_model.times(one, [system], joint)[:, 0, 0],
                                       rtol=1e-12)  # fmt: skip
            np.testing.assert_allclose(
                point[s, row], fake_model.times(one, [system])[0, 0], rtol=1e-12
            )


def test_spans_of_draws_are_parts_of_the_whole(fake_model) -> None:
    ops, joint = gemm_ops(5), fake_model.draws(9)
    ready = fake_model.prepare(ops)
    parts = [ready.times(SYSTEMS, joint, span) for span in (slice(0, 4), slice(4, 9))]
    np.testing.assert_array_equal(np.concatenate(parts), fake_model.times(ops, SYSTEMS, joint))
