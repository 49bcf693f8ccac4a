"""A measured rank placed anew: what stays, and what its collectives do."""

from __future__ import annotations

import pandas as pd
import pytest

from codesign._common.errors import InsufficientDataError, UsageError
from codesign.cluster.measured import replace_collectives
from codesign.hardware import load_system
from codesign.hardware.levers import apply_lever
from codesign.workload.characterization import Characterization, Header
from codesign.workload.schema import ops_frame
from tests.cluster.fakes import Roofline

BASE = load_system("hgx-b200")
GB = 10**9


def _char(**header: object) -> Characterization:
    rows: list[dict[str, object]] = [
        {"op_class": "gemm", "name": "mlp", "precision": "bf16", "m": 4096, "n": 4096, "k": 4096,
         "count": 1.0, "time_s": 0.6, "exposed_s": 0.6, "evidence": "measured"},
        {"op_class": "collective", "name": "ep.dispatch", "collective": "dispatch", "count": 1.0,
         "message_bytes": GB, "group_size": 32, "group_stride": 1, "topk": 8, "time_s": 0.2,
         "exposed_s": 0.2, "evidence": "measured"},
        {"op_class": "collective", "name": "dp_gradients.reduce_scatter", "count": 1.0,
         "collective": "reduce_scatter", "message_bytes": GB, "group_size": 16, "group_stride": 8,
         "time_s": 0.3, "exposed_s": 0.1, "overlap_window_s": 0.2, "evidence": "measured"},
    ]  # fmt: skip
    values: dict[str, object] = {"workload": "rank", "system": "hgx-b200", "step_time_s": 1.0,
                                 "idle_s": 0.1, "gpus": 128, **header}  # fmt: skip
    return Characterization(Header(**values), ops_frame(pd.DataFrame(rows)))  # type: ignore[arg-type]


def test_the_same_place_gives_the_measured_step() -> None:
    found = replace_collectives(_char(), Roofline(), BASE, [BASE])
    assert found.step_s[0] == pytest.approx(1.0)
    # Compute and idle time: 1 s less what is exposed of the collectives.
    assert found.compute_s == pytest.approx(0.7)


def test_a_larger_domain_moves_only_what_it_takes_in() -> None:
    """The exchange over 32 ranks goes from the NIC to NVLink; the group of stride 8 stays out."""
    wide = apply_lever(BASE, "nvlink_domain", 4.0)
    found = replace_collectives(_char(), Roofline(), BASE, [wide])
    faster = BASE.nvlink_bandwidth_bytes_per_s / BASE.scaleout_bandwidth_bytes_per_s
    assert found.exposed_s[0].tolist() == pytest.approx([0.2 / faster, 0.1])


def test_more_replicas_grow_the_groups_of_data_parallelism() -> None:
    found = replace_collectives(_char(), Roofline(), BASE, [BASE], replicas=4)
    assert found.collectives["group_size"].tolist() == [32, 64]
    # A reduce-scatter sends (n - 1) / n: 0.3 s x (63 / 64) / (15 / 16), 0.2 s of it hidden.
    assert found.exposed_s[0, 1] == pytest.approx(0.3 * (63 / 64) / (15 / 16) - 0.2)


def test_a_trace_without_names_goes_by_its_dp_size() -> None:
    char = _char(parallelism={"dp": 16})
    ops = char.ops.assign(name="nccl")
    found = replace_collectives(
        Characterization(char.header, ops), Roofline(), BASE, [BASE], replicas=2
    )
    assert found.collectives["group_size"].tolist() == [32, 32]


def test_what_is_not_known_is_refused() -> None:
    char = _char()
    with pytest.raises(UsageError, match="another GPU"):
        replace_collectives(char, Roofline(), BASE, [load_system("hgx-h100")])
    unnamed = Characterization(char.header, char.ops.assign(name="nccl"))
    with pytest.raises(UsageError, match="groups="):
        replace_collectives(unnamed, Roofline(), BASE, [BASE], replicas=2)
    with pytest.raises(UsageError, match="whole"):
        replace_collectives(char, Roofline(), BASE, [BASE], replicas=1 / 3)
    with pytest.raises(InsufficientDataError):
        replace_collectives(_char(step_time_s=None), Roofline(), BASE, [BASE])


def test_groups_can_be_given() -> None:
    found = replace_collectives(_char(), Roofline(), BASE, [BASE], groups={32: 8})
    assert found.collectives["group_size"].tolist() == [8, 16]
    assert found.exposed_s[0, 0] < 0.2
