"""Op shapes and steps as an architect says them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codesign._common.units import format_si
from codesign.hardware.lever_specs import shipped_levers

if TYPE_CHECKING:
    from codesign.recommend.schema import PackageStep

NAMES = {
    "gemm": "GEMM", "grouped_gemm": "grouped GEMM", "conv": "convolution", "hbm": "HBM",
    "nvlink": "NVLink", "scaleout": "scale-out", "l2": "L2", "sm": "SM clock",
    "fixed": "no single resource", "held": "not modelled", "sfu": "special functions",
    "wave": "wave quantization", "bubble": "pipeline bubble", "tensor": "tensor cores",
}  # fmt: skip
"""Op classes and binding resources as a reader calls them, where their keys differ."""


def name_of(key: str) -> str:
    """An op class or binding resource for a reader: ``grouped GEMM``."""
    return NAMES.get(key, key)


def readable(text: str) -> str:
    """``text`` with titles for the keys of levers, peaks and op classes, and with real signs."""
    text = re.sub(r"\bpeak_dense\.(\w+)", lambda m: f"dense {m[1].upper()} peak", text)
    text = text.replace("+-", "±")
    for key, title in (
        *((name, inside(lever.title)) for name, lever in shipped_levers().items() if "_" in name),
        ("grouped_gemm", "grouped GEMM"), ("gemm", "GEMM"),
    ):  # fmt: skip
        text = re.sub(rf"(?<![\w.-]){key}(?![\w.-])", title, text)
    return text


def inside(title: str) -> str:
    """A title inside a sentence: ``scale-out bandwidth``, but ``HBM bandwidth``."""
    return title[0].lower() + title[1:] if title[1:2].islower() else title


def joined(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def percent(fraction: float) -> str:
    """``12 %``; under ten per cent with one decimal, and never a rounded-away ``0 %``."""
    value = fraction * 100
    if value == 0 or abs(value) >= 9.95:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if abs(value) >= 0.05 else "under 0.1 %"


def amount(value: float) -> str:
    """A cost to three significant digits, never in powers of ten: ``1,260``."""
    return f"{float(f'{value:.3g}'):,.10g}"


def package_label(steps: Sequence[PackageStep]) -> str:
    """``HBM bandwidth +25 % and SM count +10 %``; of no step, the baseline as it is."""
    words = [f"{step.title} {step.label.partition(':')[0]}" for step in steps]
    return joined(words) if words else "the baseline as it is"


def listing(shares: Mapping[str, float], limit: int = 3) -> str:
    """``GEMM 62 %, attention 30 %``: the first entries."""
    first = list(shares.items())[:limit]
    return ", ".join(f"{name_of(key)} {percent(value)}" for key, value in first)


def shape_of(row: Mapping[str, Any]) -> str:
    """Dims of an op on one line; empty where none is known."""
    parts: list[str] = []
    number = {k: int(v) for k, v in row.items() if k in _DIMS and _known(v)}
    if row.get("collective") is not None and _known(row["collective"]):
        size = number.get("message_bytes")
        parts.append(str(row["collective"]) + (f" {format_si(size, 'B')}" if size else ""))
        if "group_size" in number:
            parts.append(f"over {number['group_size']} GPUs")
        return " ".join(parts)
    if "heads" in number:
        parts.append(f"{number['heads']} heads of {number.get('head_dim', 0)}")
        if "kv_heads" in number:
            parts.append(f"{number['kv_heads']} kv")
        parts += [f"{k} {number[k]}" for k in ("batch", "q_len", "kv_len") if k in number]
        return ", ".join(parts)
    if {"m", "n", "k"} <= number.keys():
        parts.append(f"{number['m']}x{number['n']}x{number['k']}")
        parts += [f"{k} {number[k]}" for k in ("batch", "experts", "topk") if k in number]
    elif "m" in number or "n" in number:
        parts.append("x".join(str(number[k]) for k in ("m", "n") if k in number))
    return ", ".join(parts)


_DIMS = ("m", "n", "k", "batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "experts",
         "topk", "message_bytes", "group_size")  # fmt: skip


def _known(value: Any) -> bool:
    # pandas' NA is neither true nor false; it only ever equals nothing.
    return value is not None and repr(value) not in ("<NA>", "nan")
