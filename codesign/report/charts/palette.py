"""Which colour, hatch and marker stand for which key. Colour never stands alone."""

from __future__ import annotations

from typing import NamedTuple


class Style(NamedTuple):
    """A colour variable of the style sheet, a hatch laid over it, and a marker."""

    colour: str
    hatch: str = ""
    marker: str = "circle"


_STYLES = {
    # op classes
    "gemm": Style("c1"),
    "grouped_gemm": Style("c6", marker="square"),
    "attention": Style("c2", marker="diamond"),
    "conv": Style("c6", "diagonal", "square"),
    "collective": Style("c3", marker="triangle"),
    "norm": Style("c4"),
    "softmax": Style("c4", "dots", "square"),
    "elementwise": Style("c4", "diagonal", "diamond"),
    "reduction": Style("c4", "lines", "triangle"),
    "embedding": Style("c5"),
    "optimizer": Style("c5", "diagonal", "square"),
    "quantize": Style("c7", marker="diamond"),
    "copy": Style("c7", "diagonal", "triangle"),
    "other": Style("c8"),
    "idle": Style("c0", "diagonal"),
    "pipeline bubble": Style("c0", "lines"),
    "unknown work": Style("c8", "dots"),
    "others": Style("c8", "lines"),
    "total": Style("c8"),
    # binding resources
    "tensor": Style("c1"),
    "hbm": Style("c2"),
    "nvlink": Style("c3"),
    "scaleout": Style("c3", "diagonal"),
    "network latency": Style("c5"),
    "launch": Style("c5", "diagonal"),
    "l2": Style("c4"),
    # evidence, from the firm to the weak
    "measured": Style("e1"),
    "interpolated": Style("e2", "diagonal"),
    "extrapolated": Style("e3", "lines"),
    "modelled": Style("e4", "dots"),
    "assumed": Style("e5", "diagonal"),
}
_SPARE = (Style("c7"), Style("c6", "dots"), Style("c8", "diagonal"), Style("c1", "diagonal"),
          Style("c2", "dots"), Style("c8", "dots"))  # fmt: skip


def style_of(key: str) -> Style:
    """The style of a key; one that the palette does not know gets a stable spare."""
    known = _STYLES.get(key) or _STYLES.get(key.replace("_", " "))
    if known:
        return known
    return _SPARE[sum(key.encode("utf-8", "replace")) % len(_SPARE)]
