from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.projection.fakes import FakeModel, collective
from tests.recommend.software.cases import (
    compute,
    found,
    look,
    nothing,
    silence,
    unreliable,
    without_model,
)

KEY = "crosses_domain"


def test_a_group_of_one_domain_spread_over_eight_moves_at_a_tenth_of_the_rate() -> None:
    rows = [compute(4.0), collective(1.0, 1e9, group_stride=8)]
    finding = found(KEY, without_model(rows))
    # The network has a tenth of NVLink's bandwidth: 0.9 s can go, 70 % of it does.
    assert finding.bound_s == pytest.approx(0.1)
    assert finding.gain.value == pytest.approx(5 / (5 - 0.63))


def test_the_model_sets_the_bound_where_it_is_there() -> None:
    class Fabric(FakeModel):
        def times(self, ops: Any, systems: Any, draws: Any = None) -> Any:
            inside = ops["domain_span"].eq(ops["group_size"]).fillna(False).to_numpy(dtype=bool)
            return np.where(inside, 1.0, 4.0)[None, :] * np.ones((len(systems), 1))

    rows = [compute(4.0), collective(1.0, 1e9, domain_span=1)]
    assert found(KEY, look(rows, model=Fabric())).bound_s == pytest.approx(0.25)


@pytest.mark.parametrize(
    "dims",
    [{"group_stride": 1}, {"domain_span": 8}, {"group_size": 16, "group_stride": 8},
     {"group_size": 2, "group_stride": 4}],
    ids=["neighbours", "inside", "larger than a domain", "pairs inside"],
)  # fmt: skip
def test_groups_that_are_inside_or_cannot_be(dims: dict[str, int]) -> None:
    rows = [compute(4.0), {**collective(1.0, 1e9), **dims}]
    assert nothing(KEY, without_model(rows))


def test_hidden_or_unreliable_collectives_are_no_evidence() -> None:
    hidden = collective(1.0, 1e9, group_stride=8, exposed_s=0.0)
    assert nothing(KEY, without_model([compute(4.0), hidden]))
    rows = [compute(4.0), collective(1.0, 1e9, group_stride=8)]
    assert silence(KEY, without_model(rows, quality=unreliable("exposed")))
