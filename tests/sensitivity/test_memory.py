from __future__ import annotations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from codesign.sensitivity.memory import MemoryBoundModel
from codesign.workload.schema import MEMORY_BOUND_CLASSES, ops_frame
from tests.sensitivity.laws import (
    CAPABILITIES,
    assert_monotone,
    assert_terms_agree,
    example_system,
)


def op(size: float, op_class: str = "elementwise", name: str = "x") -> pd.DataFrame:
    return ops_frame([{"op_class": op_class, "name": name, "bytes": size, "count": 1.0,
                       "evidence": "assumed"}])  # fmt: skip


@settings(max_examples=40)
@given(st.floats(1, 1e11), st.sampled_from(MEMORY_BOUND_CLASSES), st.sampled_from(CAPABILITIES),
       st.lists(st.floats(0.25, 4.0), min_size=2, max_size=4))  # fmt: skip
def test_time_never_rises_with_a_capability(size, op_class, capability, steps) -> None:
    assert_monotone(MemoryBoundModel(), op(size, op_class), example_system(), capability, steps)


def test_terms_agree() -> None:
    assert_terms_agree(MemoryBoundModel(), op(1e8), example_system())


def test_finding_a_scale_is_not_a_cast() -> None:
    model = MemoryBoundModel()
    assert model.variant(op(1e6, "quantize", "compute_scale")).tolist() == ["amax"]
    assert model.variant(op(1e6, "quantize", "scale_matrix")).tolist() == ["quantize"]


def test_unknown_bytes_are_not_covered() -> None:
    ops = op(1.0)
    ops["bytes"] = pd.NA
    assert not MemoryBoundModel().applies(ops).any()
