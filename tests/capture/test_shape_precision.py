"""Mixed precision and partly touched tensors, when only shapes are known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

F = nn.functional

from codesign import capture
from codesign._common.errors import DataError, UsageError
from codesign.capture.shape_only import on_meta
from codesign.cli.characterize import command
from codesign.workload.accounting import hardware_flops

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution")


def meta(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype, requires_grad=grad)


class Block(nn.Module):
    """Every way to multiply that a model has: layers, functions, an operator, PyTorch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.conv = nn.Conv1d(64, 32, 3, padding=1)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm = nn.LayerNorm(32)
        self.last = nn.Parameter(torch.ones(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(self.first(x).transpose(1, 2)).transpose(1, 2)
        x = self.norm(self.attention(x, x, x)[0])
        x = torch.einsum("bij,jk->bik", x, self.last) @ self.last.t()
        return x.softmax(dim=-1)


class Seen(TorchDispatchMode):
    """Products by what they multiply, as PyTorch itself runs them."""

    def __init__(self) -> None:
        super().__init__()
        self.products: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in _PRODUCTS:
            kind = {torch.bfloat16: "bf16", torch.float32: "fp32"}[args[1].dtype]
            self.products[name, kind] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backward", [False, True])
def test_products_under_autocast_are_as_narrow_as_pytorchs_own(backward: bool) -> None:
    def step(model: nn.Module, x: torch.Tensor, device: str) -> None:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(x).sum()
        if backward:
            loss.backward()

    torch.manual_seed(0)
    with Seen() as seen:
        step(Block(), torch.randn(2, 8, 32), "cpu")
    char = capture.shapes(step, on_meta(lambda _: Block()), meta(2, 8, 32), "cuda")
    found: Counter[tuple[str, str]] = Counter()
    for row in char.ops.to_dict("records"):
        name = str(row["name"]).removeprefix("aten::")
        if name in _PRODUCTS:
            found[name, row["precision"]] += int(row["count"])
    assert found == seen.products
    assert {kind for _, kind in found} == {"bf16"}


def test_what_autocast_keeps_wide_and_leaves_alone() -> None:
    x = meta(8, 64, dtype=torch.bfloat16)
    answers: dict[str, Any] = {}

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            answers["softmax"] = x.softmax(dim=-1).dtype
            answers["norm"] = F.layer_norm(x, (64,)).dtype
            answers["relu"] = x.relu().dtype
            answers["fp64"] = (meta(4, 4, dtype=torch.float64) @ meta(4, 4).double()).dtype
            with torch.autocast("cuda", enabled=False):
                answers["off"] = (meta(4, 8) @ meta(8, 4)).dtype
        answers["outside"] = (meta(4, 8) @ meta(8, 4)).dtype

    capture.shapes(step)
    wide, narrow, double = torch.float32, torch.bfloat16, torch.float64
    assert answers == {
        "softmax": wide, "norm": wide, "relu": narrow, "fp64": double, "off": wide, "outside": wide,
    }  # fmt: skip


def test_autocast_is_its_own_again_afterwards() -> None:
    functions = F.linear, torch.cuda.is_bf16_supported
    capture.shapes(lambda: F.linear(meta(2, 4), meta(3, 4)))
    assert (F.linear, torch.cuda.is_bf16_supported) == functions
    if not torch.cuda.is_available():
        with pytest.warns(UserWarning, match="not available"):
            torch.autocast("cuda")


@pytest.mark.parametrize(
    ("step", "name", "moved"),
    [
        # 128 of 128,000 values are read, by an index of 8 bytes; a loss and a weight come out.
        (lambda: F.cross_entropy(meta(128, 1000), meta(128, dtype=torch.long)),
         "aten::nll_loss_forward", 128 * (4 + 8) + 2 * 4),
        # Of the table only the rows that are asked for; a gradient meets only its places.
        (lambda: meta(1000, 64).scatter_add_(0, meta(2, 64, dtype=torch.long), meta(2, 64)),
         "aten::scatter_add_", 2 * 64 * (8 + 4 + 2 * 4)),
        (lambda: meta(1000, 64).index_copy_(0, meta(2, dtype=torch.long), meta(2, 64)),
         "aten::index_copy_", 2 * 8 + 2 * 64 * 2 * 4),
    ],
)  # fmt: skip
def test_what_is_touched_in_part_is_not_moved_whole(step: Any, name: str, moved: int) -> None:
    assert capture.shapes(step).ops.set_index("name")["bytes"][name] == moved


def test_a_scaled_product_by_the_newer_function() -> None:
    kind = torch.float8_e4m3fn
    if not hasattr(F, "scaled_mm"):
        pytest.skip("this PyTorch has no scaled_mm")
    scale, recipe = meta(1), F.ScalingType.TensorWise
    char = capture.shapes(lambda: F.scaled_mm(
        meta(64, 128, dtype=kind), meta(32, 128, dtype=kind).t(), scale, recipe, scale, recipe,
        output_dtype=torch.bfloat16,
    ))  # fmt: skip
    assert hardware_flops(char.ops) == 2 * 64 * 128 * 32
    assert set(char.ops["precision"]) == {"fp8"}


def test_work_that_is_not_known_is_named() -> None:
    q = meta(1, 4, 16, 8)
    mask = meta(16, 16, dtype=torch.bool)
    char = capture.shapes(
        lambda: [F.scaled_dot_product_attention(q, q, q, attn_mask=mask) for _ in range(2)]
    )
    (said,) = [w for w in char.header.quality.warnings if "not known" in w]
    assert "scaled_dot_product_attention (2)" in said
    assert "masked" in said
    known = capture.shapes(lambda: F.scaled_dot_product_attention(q, q, q))
    assert not [w for w in known.header.quality.warnings if "not known" in w]


def test_layers_that_only_cut_and_turn_are_no_unknown_work() -> None:
    layer = nn.LSTM(32, 64, batch_first=True, device="meta")
    char = capture.shapes(lambda: layer(meta(4, 10, 32))[0].sum().backward())
    assert not [w for w in char.header.quality.warnings if "not known" in w]
    # Four gates from the input of each token and from the state before it; two products back
    # for each, but for the input's own gradient, and that of the state before the first.
    forward = 2 * 40 * 4 * 64 * (32 + 64)
    backward = forward + 2 * 40 * 4 * 64 * 64 - 2 * 4 * 4 * 64 * 64
    assert hardware_flops(char.ops) == forward + backward


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("def build():\n    return lambda: None.layers\n", DataError, "'NoneType' object"),
        ("def build():\n    return None.layers\n", DataError, "'NoneType' object"),
        ("def other():\n    pass\n", UsageError, "has no 'build'"),
    ],
)
def test_errors_of_the_users_own_code_are_no_internal_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: type, said: str
) -> None:
    module = f"theirs_{abs(hash(text))}"
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    run = ["--shapes", "-q", "-o", str(tmp_path / "s.parquet"), "--workload", f"{module}:build"]
    with pytest.raises(error, match=said):
        command.main(run, standalone_mode=False)
