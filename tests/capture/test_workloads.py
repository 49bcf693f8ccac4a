"""Built-in workloads at tiny size: their work by hand, their time by this process's own clock."""

from __future__ import annotations

import time
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import codesign
from codesign._common.errors import UsageError
from codesign.capture.workloads import WORKLOADS, command_of, sizes_of
from codesign.capture.workloads.__main__ import build
from codesign.workload.accounting import hardware_flops
from codesign.workload.characterization import Characterization
from tests.capture.conftest import CLOCKS, apart, between

# Tiny: 2 layers of 128 wide, 8 heads of 16 over 2 key-value heads, MLP 384, 512 tokens known,
# 2 sequences of 128.
LAYERS, BATCH, TOKENS, NEW = 2, 2, 128, 8
MATRICES = 128 * (128 + 2 * 32) + 128 * 128 + 3 * 128 * 384
HEAD = 128 * 512
WEIGHTS = LAYERS * MATRICES + HEAD
# Every query sees itself and all before it: 128 * 129 / 2 pairs; a multiply-add of 16 for QK^T
# and one for PV, 8 heads.
ATTENTION = BATCH * 8 * (TOKENS * (TOKENS + 1) // 2) * 2 * (16 + 16)
FORWARD = 2 * BATCH * TOKENS * WEIGHTS + LAYERS * ATTENTION
# Two products backward for one forward; five in attention for its two.
TRAIN = 3 * 2 * BATCH * TOKENS * WEIGHTS + LAYERS * ATTENTION * 7 // 2
# Token i of the answer sees the prompt, what was answered before, and itself.
DECODE = NEW * 2 * BATCH * WEIGHTS + sum(
    LAYERS * BATCH * 8 * (TOKENS + i) * 2 * (16 + 16) for i in range(1, NEW + 1)
)
# Top 2 of 8 experts, each a gated MLP of its own, and a router; 4 * 128 rows.
MOE_LAYER = 128 * (128 + 2 * 32) + 128 * 128 + 128 * 8 + 2 * 3 * 128 * 384
MOE = 3 * 2 * BATCH * TOKENS * (LAYERS * MOE_LAYER + HEAD) + LAYERS * ATTENTION * 7 // 2
# Four answers to each prompt: the reference forward, the policy forward and back.
GRPO = 4 * (FORWARD + TRAIN)
GEMMS = sum(2 * m * n * k for m, n, k in (
    (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512),
    (1, 512, 512), (16, 512, 512), (128, 512, 512),
))  # fmt: skip
BY_HAND = {
    "llama-train": TRAIN, "llama-sft": TRAIN, "moe-train": MOE,
    "fp8-linear": 3 * 2 * BATCH * TOKENS * LAYERS * 3 * 128 * 384,
    "rl-prefill": FORWARD, "rl-decode": DECODE, "rl-rollout": FORWARD + DECODE,
    "grpo-train": GRPO, "gemm-sweep": GEMMS, "copy-sweep": 0,
}  # fmt: skip


def captured(
    name: str, changes: tuple[str, ...] = ()
) -> tuple[Characterization, list[tuple[float, float]]]:
    """The characterization, and when this process began and ended each call that marks a step."""
    torch.manual_seed(0)
    program: Any = build(name, sizes_of(name, "tiny", changes), torch.device("cpu"))
    marks = []
    with codesign.capture(steps=5, warmup=2, baseline=2) as run:
        while not run.done:
            program.step()
            begin = time.perf_counter()
            run.step()
            marks.append((begin, time.perf_counter()))
    assert run.characterization is not None
    # Two warm up, two are the baseline, one lets the profiler settle, then five count.
    return run.characterization, marks[4:10]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_every_workload_but_the_one_of_several_ranks_is_counted_here() -> None:
    assert set(BY_HAND) == set(WORKLOADS) - {"collective-sweep"}


@pytest.mark.parametrize("name", BY_HAND)
def test_work_by_hand_and_time_by_the_clock(name: str) -> None:
    for _ in range(3):  # Another process may stall most steps, but hardly three times.
        char, marks = captured(name)
        header = char.header
        steps_s = [s.time_s for s in header.steps]
        least_s, most_s = between(marks, 0, 5)
        assert least_s * CLOCKS < sum(steps_s) < most_s / CLOCKS
        off = apart(steps_s, [begin for begin, _ in marks])
        known = header.quality.known_work_share
        assert known is not None
        if off < 0.1 and known > 0.8:
            break
    assert off < 0.1
    assert known > 0.8
    assert hardware_flops(char.ops) == pytest.approx(BY_HAND[name], rel=1e-9)
    assert header.quality.steps_found == 5
    by_class = char.ops.groupby("op_class")["exposed_s"].sum()
    assert float(by_class.sum()) + header.idle_s == pytest.approx(header.step_time_s, rel=1e-9)
    multiplies = char.ops["op_class"].isin(("attention", "gemm", "grouped_gemm"))
    assert char.ops.loc[multiplies, "flops"].notna().all()
    assert char.ops.loc[multiplies | char.ops["op_class"].eq("norm"), "bytes"].notna().all()


def test_bytes_of_a_copy_and_a_sum() -> None:
    char, _ = captured("copy-sweep")
    sizes = [4096 * 4**i for i in range(7)]
    moved = char.ops.set_index("name")["bytes"].groupby("name").sum()
    assert moved["aten::copy_"] == sum(2 * s for s in sizes)
    assert moved["aten::add"] >= sum(3 * s for s in sizes)


def test_sizes_scale_the_work() -> None:
    char, _ = captured("rl-prefill", ("layers=1", "batch=1", "sequence=64"))
    pairs = 64 * 65 // 2
    attention = 8 * pairs * 2 * (16 + 16)
    assert hardware_flops(char.ops) == 2 * 64 * (MATRICES + HEAD) + attention


def test_ranks_and_facts_through_the_command(codesign_cli: Any, tmp_path: Path) -> None:
    out = tmp_path / "sweep.parquet"
    result = codesign_cli(
        "-q", "-o", out, "--workload", "collective-sweep", "--size", "largest_bytes=65536"
    )
    assert result.returncode == 0, result.stderr
    char = Characterization.load(out)
    assert char.header.parallelism == {"dp": 2}
    assert char.header.ranks == (0, 1)
    talks = char.ops[char.ops["op_class"] == "collective"]
    # Gloo scatters a reduction by reducing for all: twice as many of those.
    assert set(talks["collective"]) == {"all_reduce", "all_gather", "all_to_all"}
    for kind, rows in talks.groupby("collective"):
        assert sorted(rows["message_bytes"]) == [4096, 16384, 65536], kind
        assert set(rows["count"]) == {2.0 if kind == "all_reduce" else 1.0}


def test_a_workload_says_its_tokens_and_model(codesign_cli: Any, tmp_path: Path) -> None:
    out = tmp_path / "decode.parquet"
    result = codesign_cli("-q", "-o", out, "--workload", "rl-decode", "--size", "layers=1")
    assert result.returncode == 0, result.stderr
    header = Characterization.load(out).header
    assert header.tokens_per_step == BATCH * NEW
    assert header.phase == "decode"
    assert header.model["num_hidden_layers"] == 1
    assert header.model["parameters"] == MATRICES + HEAD + 512 * 128 + 3 * 128


def test_gradients_of_accumulated_answers_are_reduced_once(
    codesign_cli: Any, tmp_path: Path
) -> None:
    out = tmp_path / "grpo.parquet"
    result = codesign_cli("-q", "-o", out, "--workload", "grpo-train", "--nproc", 2)
    assert result.returncode == 0, result.stderr
    char = Characterization.load(out)
    assert hardware_flops(char.ops) == GRPO
    talks = char.ops[char.ops["op_class"] == "collective"]
    parameters = WEIGHTS + 512 * 128 + (2 * LAYERS + 1) * 128
    assert (talks["message_bytes"] * talks["count"]).sum() == 4 * parameters


class Held(TorchDispatchMode):
    """Bytes of all tensors that live, and the most at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now_bytes = self.most_bytes = 0
        self._live: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._hold(tensor.untyped_storage())
        return result

    def _hold(self, storage: Any) -> None:
        key, size_bytes = id(storage), storage.nbytes()
        if key in self._live:
            return

        def gone(_: object) -> None:
            self.now_bytes -= size_bytes
            del self._live[key]

        self._live[key] = weakref.ref(storage, gone)
        self.now_bytes += size_bytes
        self.most_bytes = max(self.most_bytes, self.now_bytes)


@pytest.mark.parametrize("preset", ["small", "llama-8b", "llama-70b"])
@pytest.mark.parametrize("name", ["llama-train", "moe-train", "grpo-train", "rl-rollout"])
def test_presets_fit_on_one_gpu_of_80_gb(name: str, preset: str) -> None:
    sizes = sizes_of(name, preset, ["dtype=bf16"])
    with FakeTensorMode(allow_non_fake_inputs=True), Held() as held:
        program: Any = build(name, sizes, torch.device("cpu"))
        program.step()
        program.step()  # the first makes the optimizer's state
    assert 1e9 < held.most_bytes < 80e9
    # A rollout is a model that answers, and no more.
    assert name != "rl-rollout" or held.most_bytes < 20e9


def test_wrong_sizes_are_refused() -> None:
    for arguments, said in (
        (("llama-train", "huge"), "tiny"),
        (("llama", "tiny"), "llama-train"),
        (("llama-train", "tiny", ["depth=3"]), "layers"),
        (("llama-train", "tiny", ["layers=0"]), "whole number"),
        (("llama-train", "tiny", ["heads=7"]), "divide"),
        (("moe-train", "tiny", ["topk=9"]), "experts"),
        (("llama-train", "tiny", ["dtype=fp4"]), "bf16"),
    ):
        with pytest.raises(UsageError, match=said):
            sizes_of(*arguments)
    with pytest.raises(UsageError, match="--nproc 2"):
        command_of("collective-sweep", "tiny", [], 10, 1)
