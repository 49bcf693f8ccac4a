"""What the rules say of real traces, held against the events of the traces themselves."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codesign
from codesign.hardware import load_system
from codesign.recommend.schema import SoftwareFinding
from codesign.recommend.software import RULES, Look, assess
from codesign.recommend.software.gemm import causes
from tests.projection.fakes import FakeModel

LOADED = "worker0.1623143089861.pt.trace.json.gz"
"""ResNet-50 on V100; its input comes from a data loader without workers."""
DDP = "nccl_data.json.gz"
VIDEO = "h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz"
TINY = "h100_gaunernst_bert-small-uncased__1016001.json.gz"


@lru_cache(maxsize=8)
def raw(path: Path) -> list[dict[str, Any]]:
    """Complete events of a trace."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    return [e for e in events if e.get("ph") == "X"]


class Roofline(FakeModel):
    """The roofline of an H100 and a launch: enough for a bound that holds."""

    trained_on = ()


def say(path: Path, base: str) -> dict[str, SoftwareFinding | str]:
    look = Look(codesign.read(path), load_system(base), Roofline())
    said = {rule.key: assess(look, rule) for rule in RULES}
    return {key: result for key, result in said.items() if result is not None}


def findings(said: dict[str, SoftwareFinding | str]) -> dict[str, SoftwareFinding]:
    return {key: value for key, value in said.items() if isinstance(value, SoftwareFinding)}


def test_a_slow_data_loader_is_a_stall_and_not_launch_overhead(shared_data: Path) -> None:
    path = shared_data / "kineto" / LOADED
    found = findings(say(path, "dgx-v100"))
    loads = [e["dur"] / 1e6 for e in raw(path) if "DataLoader" in e["name"]]
    assert len(loads) == 6
    stall, launches = found["host_stall"], found["launch_bound"]
    # The loader takes 63 to 73 ms a step; the stall cannot be longer, and is most of it.
    assert 0.5 * np.mean(loads) < stall.at_stake_s < np.mean(loads)
    assert launches.at_stake_s < 0.3 * stall.at_stake_s
    assert stall.gain.value > launches.gain.value


def test_a_faster_loader_stalls_less(shared_data: Path) -> None:
    slow = findings(say(shared_data / "kineto" / LOADED, "dgx-v100"))["host_stall"]
    fast = findings(
        say(shared_data / "kineto" / "worker0.1623143566756.pt.trace.json.gz", "dgx-v100")
    )["host_stall"]
    assert fast.at_stake_s < slow.at_stake_s


def test_many_short_gaps_are_launch_overhead(shared_data: Path) -> None:
    path = shared_data / "kineto" / DDP
    said = say(path, "hgx-a100-40gb")
    steps = [e for e in raw(path) if e["name"].startswith("ProfilerStep")]
    work = sorted((e["ts"], e["ts"] + e["dur"]) for e in raw(path)
                  if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))  # fmt: skip
    short = []
    for step in steps:
        at, end = step["ts"], step["ts"] + step["dur"]
        gaps = []
        for start, stop in work:
            if step["ts"] <= start < end:
                gaps.append(start - at)
                at = max(at, stop)
        short.append(sum(g for g in gaps if 0 < g < 1000) / 1e6)
    finding = findings(said)["launch_bound"]
    # Never more than all short gaps together, and most of them.
    assert 0.7 * np.mean(short) < finding.at_stake_s <= np.mean(short) * 1.05
    # Communication is exposed while the host lags behind: hiding it would save nothing.
    assert "waits for launches" in str(said["overlap_communication"])


def test_attention_in_parts_is_seen_with_its_unaligned_gemms(shared_data: Path) -> None:
    path = shared_data / "kineto" / VIDEO
    found = findings(say(path, "hgx-h100"))
    kernels = [e for e in raw(path) if e.get("cat") == "kernel"]
    unaligned = sum(e["dur"] for e in kernels if "align1>" in e["name"]) / 1e6
    chain = unaligned + sum(e["dur"] for e in kernels if "cunn_SoftMax" in e["name"]) / 1e6
    attention = found["unfused_attention"]
    assert attention.at_stake_s > chain  # the scaling of the scores is in it, too
    assert {op.name for op in attention.ops} == {"aten::bmm", "aten::_softmax", "aten::mul"}
    gemms = found["slow_gemms"]
    assert gemms.at_stake_s >= unaligned * 0.999
    assert "align1; 3137 is no multiple of 8" in gemms.evidence
    assert attention.gain.value > gemms.gain.value
    look = Look(codesign.read(path), load_system("hgx-h100"), None)
    slow = int(np.flatnonzero(look.named("bmm"))[0])
    assert "kernels of an older architecture" in causes(look, slow)


def test_the_pageable_copy_of_the_video_is_seen(shared_data: Path) -> None:
    path = shared_data / "kineto" / VIDEO
    copies = sum(e["dur"] for e in raw(path) if "Pageable" in e["name"]) / 1e6
    finding = findings(say(path, "hgx-h100"))["unhidden_copies"]
    assert finding.at_stake_s == pytest.approx(copies, rel=1e-3)


def test_a_capture_with_python_stacks_gets_no_advice_about_gaps(shared_data: Path) -> None:
    for name in (TINY, VIDEO):
        said = say(shared_data / "kineto" / name, "hgx-h100")
        assert "Python call stacks" in str(said["launch_bound"])
        assert "Python call stacks" in str(said["host_stall"])
    # 92 % idle between launches: faster kernels would only wait.
    assert findings(said := say(shared_data / "kineto" / TINY, "hgx-h100")) == {}
    assert said


def test_a_capture_without_steps_gets_no_advice_at_all(shared_data: Path) -> None:
    said = say(shared_data / "nsys" / "h100_matmul.sqlite", "hgx-h100")
    assert set(said) == {rule.key for rule in RULES}
    assert findings(said) == {}


def test_graphs_that_run_without_gaps_are_not_launch_bound(shared_data: Path) -> None:
    said = say(shared_data / "kineto" / "graph_execution.json.gz", "mi300x-platform")
    assert findings(said) == {}


def test_an_xspace_whose_python_was_traced_gets_no_advice(shared_data: Path) -> None:
    assert findings(say(shared_data / "xplane" / "tw003.xplane.pb", "mi300x-platform")) == {}


def test_waits_of_two_ranks_of_128_carry_no_finding(shared_data: Path) -> None:
    ranks = [shared_data / "kineto" / f"sampled_rank-{i}.json.gz" for i in (0, 1)]
    look = Look(codesign.read(ranks), load_system("hgx-a100"), Roofline())
    stragglers = next(r for r in RULES if r.key == "stragglers")
    said = assess(look, stragglers)
    assert isinstance(said, str)
    assert "not captured" in said
