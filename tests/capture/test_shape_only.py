"""Work counted from shapes alone, against published and hand-derived numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
SDPA = F.scaled_dot_product_attention

from codesign import capture
from codesign._common.errors import DataError, InsufficientDataError, UsageError
from codesign.capture.workloads import sizes_of
from codesign.capture.workloads.__main__ import build
from codesign.capture.workloads.transformer import Moe, SwiGlu, Transformer
from codesign.cli.characterize import command
from codesign.workload.accounting import hardware_flops
from codesign.workload.characterization import Characterization
from tests.capture.test_workloads import BY_HAND


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16, grad: bool = False) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype, requires_grad=grad)


def flops(step: Any) -> float:
    return hardware_flops(capture.shapes(step).ops)


@pytest.mark.parametrize("name", BY_HAND)
def test_every_workload_counts_the_same_as_by_hand(name: str) -> None:
    with torch.device("meta"):
        program: Any = build(name, sizes_of(name), torch.device("meta"))
    char = capture.shapes(program.step)
    assert hardware_flops(char.ops) == BY_HAND[name]
    assert set(char.ops["evidence"]) == {"modelled"}
    assert bool(char.ops["time_s"].isna().all())


def test_attention_without_a_mask() -> None:
    q = meta(1, 12, 64, 64)
    assert flops(lambda: F.scaled_dot_product_attention(q, q, q)) == 12_582_912


def test_grouped_queries_cost_by_query_heads_and_read_by_key_heads() -> None:
    q, k = meta(1, 32, 4096, 128), meta(1, 8, 4096, 128)
    char = capture.shapes(lambda: F.scaled_dot_product_attention(q, k, k, enable_gqa=True))
    assert hardware_flops(char.ops) == 274_877_906_944
    assert char.ops["bytes"].sum() == 2 * 4096 * 128 * 2 * (32 + 8)


def test_pytorchs_causal_flag_counts_from_the_first_key() -> None:
    from torch.nn.attention.bias import causal_lower_right

    # 64 queries on 128 keys: query i sees keys 0 to i, and nobody the last 64.
    q, k = meta(2, 4, 64, 16), meta(2, 4, 128, 16)
    first = 2 * 2 * 4 * (64 * 65 // 2) * (16 + 16)
    assert flops(lambda: F.scaled_dot_product_attention(q, k, k, is_causal=True)) == first
    # As with a cache of 64 tokens: each query sees those too.
    late = 2 * 2 * 4 * (64 * 64 + 64 * 65 // 2) * (16 + 16)
    bias = causal_lower_right(64, 128)
    assert flops(lambda: F.scaled_dot_product_attention(q, k, k, attn_mask=bias)) == late

    def said() -> None:
        with capture.masked(causal=True):
            F.scaled_dot_product_attention(q, k, k, is_causal=True)

    assert flops(said) == late
    # More queries than keys: what the flag leaves then has no row in the table.
    unknown = capture.shapes(lambda: F.scaled_dot_product_attention(k, q, q, is_causal=True))
    assert bool(unknown.ops["flops"].isna().all())


@pytest.mark.parametrize("causal", [False, True])
def test_attention_inside_pytorchs_own_layers(causal: bool) -> None:
    with torch.device("meta"):
        layer = torch.nn.MultiheadAttention(64, 4, batch_first=True, dtype=torch.bfloat16)
    x, mask = meta(2, 16, 64), meta(16, 16, dtype=torch.bool) if causal else None
    pairs = 16 * 17 // 2 if causal else 16 * 16
    char = capture.shapes(
        lambda: layer(x, x, x, need_weights=False, attn_mask=mask, is_causal=causal)
    )
    (row,) = char.ops[char.ops["op_class"] == "attention"].to_dict("records")
    assert row["flops"] == 2 * 4 * pairs * 2 * (16 + 16)
    assert hardware_flops(char.ops) == 2 * 32 * 64 * (192 + 64) + row["flops"]
    assert torch.nn.functional.scaled_dot_product_attention is SDPA  # nothing stays behind


def test_fake_tensors_count_as_meta_ones_do() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        layer, x = torch.nn.Linear(64, 32, bias=False), torch.empty(16, 64, requires_grad=True)
        q = torch.empty(2, 4, 64, 16, requires_grad=True)

        def step() -> None:
            layer(x).sum().backward()
            F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

        attention = 2 * 2 * 4 * (64 * 65 // 2) * (16 + 16)
        assert flops(step) == 3 * 2 * 16 * 64 * 32 + attention * 7 // 2


def test_recomputed_forwards_count_again() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(64, 64, bias=False, device="meta")
    x = meta(8, 64, dtype=torch.float32, grad=True)
    once = 2 * 8 * 64 * 64

    def step() -> None:
        checkpoint(lambda y: layer(layer(y)), x, use_reentrant=False).sum().backward()

    # Two forward, the first of them again (the second's result is not needed), four backward.
    assert flops(step) == 7 * once


@pytest.mark.parametrize(
    ("step", "by_hand"),
    [
        (lambda: torch.mv(meta(64, 128), meta(128)), 2 * 64 * 128),
        (lambda: torch.addmv(meta(64), meta(64, 128), meta(128)), 2 * 64 * 128),
        (lambda: torch.dot(meta(128), meta(128)), 2 * 128),
        (lambda: torch.einsum("bij,bjk->bik", meta(4, 8, 16), meta(4, 16, 32)), 2 * 32 * 16 * 32),
        (lambda: torch._grouped_mm(meta(4, 8, 16), meta(4, 16, 32)), 2 * 4 * 8 * 16 * 32),
        # A weight gradient of 4 groups: every row meets its own group's columns once.
        (lambda: torch._grouped_mm(meta(16, 104), meta(104, 32), offs=meta(4, dtype=torch.int32)),
         2 * 104 * 16 * 32),
        (lambda: torch._scaled_mm(
            meta(64, 128, dtype=torch.float8_e4m3fn), meta(32, 128, dtype=torch.float8_e4m3fn).t(),
            scale_a=meta(dtype=torch.float32), scale_b=meta(dtype=torch.float32),
            out_dtype=torch.bfloat16), 2 * 64 * 128 * 32),
        (lambda: F.conv_transpose1d(meta(2, 4, 16), meta(4, 8, 3)), 2 * 2 * 16 * 4 * 8 * 3),
        (lambda: F.conv2d(meta(2, 8, 16, 16), meta(8, 1, 3, 3), groups=8), 2 * 2 * 8 * 14 * 14 * 9),
    ],
)  # fmt: skip
def test_products_of_every_kind(step: Any, by_hand: float) -> None:
    assert flops(step) == by_hand


def test_a_sliding_window_is_said_by_the_program() -> None:
    q = meta(1, 1, 8192, 128)
    band = meta(8192, 8192, dtype=torch.bool)

    def step() -> None:
        with capture.masked(window=4096):
            F.scaled_dot_product_attention(q, q, q, attn_mask=band)

    assert flops(step) == 12_885_950_464
    unsaid = capture.shapes(lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=band))
    assert bool(unsaid.ops["flops"].isna().all())


def test_uneven_groups_of_a_grouped_gemm() -> None:
    rows, weights = meta(1000, 1000), meta(3, 1000, 1000)
    ends = meta(3, dtype=torch.int32)  # 100, 200 and 700 rows
    assert flops(lambda: torch._grouped_mm(rows, weights, offs=ends)) == 2.0e9


def test_a_weight_gradient_reads_every_token_once() -> None:
    rows, errors = meta(64, 1000), meta(1000, 32)
    ends = meta(3, dtype=torch.int32)
    char = capture.shapes(lambda: torch._grouped_mm(rows, errors, offs=ends))
    (op,) = char.ops[char.ops["op_class"] == "grouped_gemm"].to_dict("records")
    assert op["flops"] == 2 * 64 * 32 * 1000
    # Nothing ran, so nobody knows which expert a token goes to.
    assert "drawn evenly" in char.header.assumptions["expert routing"]
    # 1000 tokens of 64 and 32 numbers in, three gradients of 64 x 32 out, all of two bytes.
    assert op["bytes"] == pytest.approx(2 * (1000 * (64 + 32) + 3 * 64 * 32))


def test_only_the_experts_that_a_token_meets_count() -> None:
    sizes = replace(sizes_of("moe-train"), hidden=1024, ffn=4096, experts=8, topk=2)
    with torch.device("meta"):
        layer = Moe(sizes).bfloat16()
    router = 2 * 1024 * 1024 * 8
    assert flops(lambda: layer(meta(1024, 1024))) == 51_539_607_552 + router


def test_a_gated_mlp_has_three_matrices() -> None:
    with torch.device("meta"):
        layer = SwiGlu(replace(sizes_of("llama-train"), hidden=4096, ffn=14336))
    assert flops(lambda: layer(meta(1, 4096, dtype=torch.float32))) == 352_321_536


def test_forward_and_backward_of_a_large_layer_without_its_memory() -> None:
    layer = torch.nn.Linear(16384, 65536, bias=False, device="meta")
    x = meta(8192, 16384, dtype=torch.float32, grad=True)
    char = capture.shapes(lambda: layer(x).backward(meta(8192, 65536, dtype=torch.float32)))
    assert hardware_flops(char.ops) == 52_776_558_133_248
    assert char.ops.groupby("phase")["flops"].sum().to_dict() == {
        "forward": 52_776_558_133_248 / 3, "backward": 2 * 52_776_558_133_248 / 3,
    }  # fmt: skip


def test_a_convolution_by_the_places_of_its_output() -> None:
    # 7 x 7, stride 2, padding 3 on 224 x 224: 112 x 112 places, 3 channels to 64.
    layer = torch.nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False, device="meta")
    x = meta(8, 3, 224, 224, dtype=torch.float32)
    one = 2 * 8 * 112 * 112 * 64 * 3 * 49
    assert flops(lambda: layer(x)) == one
    assert flops(lambda: layer(x).sum().backward()) == 2 * one  # no gradient of the input


def test_llama_8b_has_the_published_parameters() -> None:
    sizes = replace(sizes_of("llama-train", "llama-8b"), layers=32)
    with torch.device("meta"):
        model = Transformer(sizes, 8)
    # Llama 3.1 8B: 8,030,261,248 parameters.
    assert model.parameter_count() == 8_030_261_248


def test_memory_bound_ops_move_their_tensors() -> None:
    a, b = meta(1000, 500), meta(500)
    char = capture.shapes(lambda: (a + b).float().softmax(dim=-1))
    bytes_of = char.ops.set_index("name")["bytes"].to_dict()
    assert bytes_of["aten::add"] == 2 * (2 * 500_000 + 500)
    assert bytes_of["aten::_to_copy"] == (2 + 4) * 500_000
    assert bytes_of["aten::_softmax"] == 2 * 4 * 500_000


def test_an_optimizer_step_is_one_op_of_seven_passes() -> None:
    layer = torch.nn.Linear(100, 100, bias=False, device="meta")
    optimizer = torch.optim.AdamW(layer.parameters())

    def step() -> None:
        layer(meta(4, 100, dtype=torch.float32)).sum().backward()
        optimizer.step()

    ops = capture.shapes(step).ops
    (row,) = ops[ops["op_class"] == "optimizer"].to_dict("records")
    assert (row["m"], row["bytes"], row["phase"]) == (10_000, 7 * 4 * 10_000, "optimizer")


def test_times_are_the_speed_of_light() -> None:
    a = meta(8192, 8192)
    char = capture.shapes(lambda: (a @ a, a[:1] @ a), system="hgx-h100")
    times = char.ops.set_index("m")["time_s"]
    assert times[8192] == pytest.approx(2 * 8192**3 / 989.4e12, rel=1e-3)
    assert times[1] == pytest.approx(2 * (8192**2 + 2 * 8192) / 3.35e12, rel=1e-3)
    assert char.header.step_time_s == pytest.approx(times.sum())
    assert char.header.system == "hgx-h100"
    assert not char.header.quality.reliable("step_time")


def test_what_shapes_cannot_tell_is_said() -> None:
    with pytest.raises(InsufficientDataError, match="nothing"):
        capture.shapes(lambda: None)
    with pytest.raises(DataError, match="asks for values"):
        capture.shapes(lambda: meta(3).sum().item())


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def build():\n"
        "    layer, x = torch.nn.Linear(64, 32, bias=False), torch.empty(16, 64)\n"
        "    return lambda: layer(x)\n"
    )
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "s.parquet"
    run = ["--shapes", "-q", "--force", "-o", str(out), "--workload"]
    command.main([*run, "mine:build"], standalone_mode=False)
    assert hardware_flops(Characterization.load(out).ops) == 2 * 16 * 64 * 32
    command.main([*run, "rl-decode", "--size", "layers=1"], standalone_mode=False)
    assert Characterization.load(out).header.phase == "decode"
    (tmp_path / "broken.py").write_text(
        "def step():\n    raise ValueError('no such\\nlayer')\ndef build():\n    return step\n"
    )
    with pytest.raises(DataError, match=r"--workload broken:build: ValueError: no such$"):
        command.main([*run, "broken:build"], standalone_mode=False)
    for arguments, said in (
        (["mine:nothing"], "MODULE:FUNCTION"),
        (["llama-train", "--model", __file__], "--model needs --system"),
    ):
        with pytest.raises(UsageError, match=said):
            command.main([*run, *arguments], standalone_mode=False)


def test_a_sensitivity_model_gives_the_times_that_it_covers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model:
        def predict(self, ops: pd.DataFrame, system: Any, in_sample: bool) -> pd.DataFrame:
            assert in_sample
            assert system.name == "hgx-h100"
            gemm = ops["op_class"] == "gemm"
            times = ops["time_s"].astype(float).where(~gemm, 1.0)
            return pd.DataFrame(
                {"time_s": times, "tier": ["spec-only" if g else "held" for g in gemm]}
            )

    monkeypatch.setattr("codesign.sensitivity.load_model", lambda _: Model())
    out = tmp_path / "s.parquet"
    command.main(
        ["--shapes", "-q", "-o", str(out), "--workload", "gemm-sweep", "--system", "hgx-h100",
         "--model", __file__], standalone_mode=False,
    )  # fmt: skip
    char = Characterization.load(out)
    assert char.header.step_time_s == 7.0
    assert set(char.ops["source"]) == {"sensitivity model test_shape_only.py"}
